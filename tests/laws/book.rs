//! The book of `docs/`: its table of contents is complete, and every link of a document leads somewhere.
use crate::documents::{files, pages, read, root};
use crate::printing::sources;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// The text of a page outside of its code blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The targets of a text's links.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|link| !link.contains("://") && !link.contains(' '))
}

/// The anchors of a page's headings, as mdBook and GitHub make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let prose = prose(text);
    let headings = prose.lines().filter_map(|line| line.strip_prefix('#'));
    for heading in headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' ')) {
        // Of a link, its text.
        let mut title = String::new();
        for (i, part) in heading.trim().split("](").enumerate() {
            title += if i == 0 { part } else { part.split_once(')').map_or(part, |(_, rest)| rest) };
        }
        let of = |c: char| match c {
            ' ' => Some('-'),
            _ => (c.is_alphanumeric() || c == '-' || c == '_').then_some(c),
        };
        let anchor: String = title.to_lowercase().chars().filter_map(of).collect();
        let further = (1..).map(|n| format!("{anchor}-{n}"));
        let new = std::iter::once(anchor.clone()).chain(further).find(|name| !known.contains(name));
        known.extend(new);
    }
    known
}

/// A path from the root, without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = normal.pop(),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// What is wrong with the links of a page.
fn dead_links(page: &str, text: &str) -> Vec<String> {
    let folder = Path::new(page).parent().expect("a page of the workspace");
    let mut dead = Vec::new();
    for link in links(&prose(text)) {
        let (path, anchor) = link.split_once('#').map_or((link, None), |(path, anchor)| (path, Some(anchor)));
        let target = if path.is_empty() { PathBuf::from(page) } else { normal(&folder.join(path)) };
        if !root().join(&target).exists() {
            dead.push(format!("{page}: {link} names no file"));
        } else if let Some(anchor) = anchor
            && !anchors(&if path.is_empty() { text.to_owned() } else { read(&target.to_string_lossy()) })
                .contains(anchor)
        {
            dead.push(format!("{page}: {} has no heading #{anchor}", target.display()));
        }
    }
    dead
}

#[test]
fn links_lead_to_files_and_to_headings() {
    let dead: Vec<_> = pages().iter().flat_map(|page| dead_links(page, &read(page))).collect();
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn dead_links_are_noticed() {
    let text = "# A `b`, [c](why.md)\n## A\n## A\n[a](#a-b-c), [a](#a), [a](#a-1), [a](why.md), [a](https://x.y)\n```\n](no)\n```\n";
    assert_eq!(dead_links("docs/why.md", text), [""; 0]);
    let dead = "[a](#a) [a](no.md) [a](why.md#no-such-heading) [a](../README.md#quick-start)";
    assert_eq!(
        dead_links("docs/why.md", dead),
        [
            "docs/why.md: docs/why.md has no heading #a",
            "docs/why.md: no.md names no file",
            "docs/why.md: docs/why.md has no heading #no-such-heading"
        ]
    );
}

/// Paths in backquotes that begin with a folder of the root.
#[test]
fn documents_name_files_that_exist() {
    let mut missing = Vec::new();
    for page in pages() {
        let folder = root().join(&page);
        let folder = folder.parent().expect("a folder");
        for quoted in prose(&read(&page)).split('`').skip(1).step_by(2) {
            let path = quoted.split([' ', ':', '#']).next().unwrap_or(quoted).trim_end_matches('/');
            let of_ours = ["crates/", "docs/", "examples/", "fuzz/", "kernels/", "models/", "peers/"];
            let of_ours = of_ours.iter().chain(&["standin/", "tests/", "tools/", "xtask/"]);
            // The fuzzers make these folders.
            let is_made = ["fuzz/corpus", "fuzz/artifacts"].contains(&path);
            let is_pattern = path.contains(['*', '<', '{', '…']) || path.contains("NAME");
            let is_path =
                !is_pattern && !is_made && of_ours.into_iter().any(|folder| path.starts_with(folder));
            if is_path && !root().join(path).exists() && !folder.join(path).exists() {
                missing.push(format!("{page}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "documents name files that do not exist:\n{}", missing.join("\n"));
}

#[test]
fn the_book_has_every_page_once() {
    const SUMMARY: &str = "docs/SUMMARY.md";
    let summary = read(SUMMARY);
    let mut listed: Vec<_> = links(&summary).map(|page| format!("docs/{page}")).collect();
    listed.sort();
    let mut wanted: Vec<_> = pages().into_iter().filter(|page| page.starts_with("docs/")).collect();
    wanted.retain(|page| page != SUMMARY);
    wanted.sort();
    assert_eq!(listed, wanted, "left: the chapters of {SUMMARY}; right: the pages of docs");
    for line in summary.lines().filter(|line| line.trim_start().starts_with("- ")) {
        assert!(line.contains("): "), "{SUMMARY}: a chapter without its question: {line}");
    }
    let again: Vec<_> =
        links(&read("docs/README.md")).filter(|link| !link.starts_with("../")).map(str::to_owned).collect();
    assert_eq!(again, [""; 0], "docs/README.md: chapters are listed in {SUMMARY} only");
}

#[test]
fn measurements_begin_with_date_machine_and_command() {
    for page in files("docs/lab", ".md") {
        let text = read(&format!("docs/lab/{page}"));
        let head: Vec<_> = text.lines().take(12).collect();
        for what in ["- Date", "- Machine", "- Command"] {
            assert!(
                head.iter().any(|line| line.starts_with(what)),
                "docs/lab/{page} does not begin with `{what}`"
            );
        }
    }
}

/// The Rust sources of the crates whose messages `docs/rocm/messages.md` explains, with each string in one line.
fn sources_of_messages() -> String {
    let mut paths = Vec::new();
    for folder in ["hip-sys", "ops-rocm", "ops-core"] {
        sources(&root().join("crates").join(folder).join("src"), &mut paths);
    }
    let mut text = String::new();
    for path in paths {
        let mut is_continued = false;
        for line in std::fs::read_to_string(path).expect("a source").lines() {
            let line = if is_continued { line.trim_start() } else { line };
            is_continued = line.ends_with('\\');
            text += line.strip_suffix('\\').unwrap_or(line);
            text += if is_continued { "" } else { "\n" };
        }
    }
    text
}

/// The messages in a page's tables whose texts are not in these sources, between the marks for names and numbers.
fn unknown_messages(page: &str, sources: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let messages = cells.flat_map(|cell| cell.split('`').step_by(2)).filter(|text| text.contains(' '));
    messages
        .flat_map(|text| text.split('…'))
        .map(|part| part.trim_matches([' ', ',', ':', ';', '(', ')', '=']))
        .filter(|part| !sources.contains(*part) && part.contains(' '))
        .map(str::to_owned)
        .collect()
}

#[test]
fn messages_of_rocm_are_those_of_the_code() {
    let page = read("docs/rocm/messages.md");
    assert_eq!(unknown_messages(&page, &sources_of_messages()), [""; 0], "not in the code");
    assert_eq!(unknown_messages("| `no … such … message here` | why | do |\n", "no such"), ["message here"]);
}

#[test]
fn variables_and_commands_of_the_rocm_guide_are_those_of_the_code() {
    let mut paths = Vec::new();
    sources(&root().join("crates"), &mut paths);
    let code: String = paths.iter().map(|path| std::fs::read_to_string(path).expect("a source")).collect();
    let is_part = |c: char| c.is_ascii_uppercase() || c == '_';
    for page in pages() {
        for name in read(&page).split(|c| !is_part(c)).filter(|name| name.starts_with("OPS_ROCM_")) {
            assert!(code.contains(&format!("{name}\"")), "{page}: {name} is read nowhere");
        }
    }
    // What `ops info` says to do without ROCm.
    let guide = read("docs/rocm/install.md");
    let cards = read("crates/ops-rocm/src/hip/cards.rs");
    let starts = ["sudo dnf ", "sudo pacman ", "https://repo.amd.com/"];
    let said = cards.split('"').filter(|text| starts.iter().any(|start| text.starts_with(start)));
    let said: BTreeSet<_> = said.collect();
    assert_eq!(said.len(), starts.len(), "{said:?}");
    for command in said {
        assert!(guide.contains(command), "docs/rocm/install.md does not say `{command}`");
    }
}
