//! The facade lists the names of the crates that it gathers; none is left out. Examples in documents need no other crate.
use crate::documents::{pages, root};
use crate::printing::sources;
use std::collections::HashSet;
use std::fs::read_to_string;
use std::path::Path;

/// A source file without its comments and tests.
fn code(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let text = read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let code = text.split("#[cfg(test)]").next().unwrap().lines();
    code.filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn words(code: &str) -> Vec<&str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect()
}

/// What a module exports: its public modules and types, and what it re-exports by name.
fn exports(code: &str) -> Vec<&str> {
    let items = code.lines().filter_map(|line| {
        let mut words = line.strip_prefix("pub ")?.split([' ', '<', ';', ':', '(']);
        let kind = words.next()?;
        ["mod", "struct", "enum", "trait", "fn", "type", "const"].contains(&kind).then(|| words.next())?
    });
    let uses = code.split("pub use ").skip(1).flat_map(|rest| {
        let path = rest.split(';').next().unwrap_or_default();
        let names =
            path.split_once('{').map_or(path.rsplit("::").next().unwrap_or_default(), |(_, names)| names);
        words(names)
    });
    items.chain(uses).collect()
}

#[test]
fn names_of_the_core_are_at_the_root_or_in_backend() {
    let (core, dtype) = (code("crates/ops-core/src/lib.rs"), code("crates/ops-core/src/dtype.rs"));
    let exported: Vec<&str> = exports(&core).into_iter().chain(exports(&dtype)).collect();
    for known in ["Tensor", "Call", "Scalar", "f16", "combine", "F8E4M3", "Wide", "Space"] {
        assert!(exported.contains(&known), "{known} is not found in {exported:?}");
    }
    let facade = ["src/lib.rs", "src/backend.rs"].map(code).join("\n");
    let listed: HashSet<&str> = words(&facade).into_iter().collect();
    let missing: Vec<&&str> = exported.iter().filter(|name| !listed.contains(**name)).collect();
    assert!(missing.is_empty(), "add to src/lib.rs or src/backend.rs: {missing:?}");
}

/// The lines of code in Markdown: in a page, or in the documentation comments of a source. Blocks in other languages are left out.
fn examples(text: &str, is_source: bool) -> Vec<&str> {
    let (mut lines, mut is_inside, mut is_rust) = (Vec::new(), false, false);
    for line in text.lines() {
        let line = line.trim_start();
        let comment = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"));
        let Some(line) = (if is_source { comment.map(str::trim_start) } else { Some(line) }) else {
            continue;
        };
        if let Some(language) = line.strip_prefix("```") {
            is_inside = !is_inside;
            is_rust = ["", "rust", "no_run"].iter().any(|tag| language.split(',').next() == Some(*tag));
        } else if is_inside && is_rust {
            lines.push(line.strip_prefix("# ").unwrap_or(line));
        }
    }
    lines
}

/// The crate that a line of code names and that a program does not have which depends on the facade alone, or on rocm-rs, which the
/// bridge to it needs.
fn stranger(line: &str) -> Option<&str> {
    let imported = line.strip_prefix("use ").map(|path| words(path)[0]);
    let imported = imported.filter(|name| !["rocm_ops", "rocm_rs", "std", "core", "super"].contains(name));
    imported.or_else(|| {
        words(line).into_iter().find(|word| word.starts_with("ops_") && line.contains(&format!("{word}::")))
    })
}

#[test]
fn examples_need_only_the_facade() {
    let mut paths = Vec::new();
    for folder in [
        "src",
        "crates/ops-core",
        "crates/ops-cpu",
        "crates/ops-gguf",
        "crates/ops-models",
        "crates/ops-rocm",
    ] {
        sources(&root().join(folder), &mut paths);
    }
    let pages = pages().into_iter().filter(|page| page == "README.md" || page.starts_with("docs/"));
    paths.extend(pages.map(|page| root().join(page)));
    let (mut count, mut wrong) = (0, Vec::new());
    for path in paths {
        let text = read_to_string(&path).expect("a text");
        for line in examples(&text, path.extension().is_some_and(|ending| ending == "rs")) {
            count += 1;
            wrong.extend(stranger(line).map(|name| format!("{}: {name} in `{line}`", path.display())));
        }
    }
    assert!(count > 1000, "only {count} lines of examples are found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_crate_behind_the_facade_is_noticed() {
    let page = "```\nuse rocm_ops::Cpu;\nuse ops_cpu::Reference;\n# let x = ops_core::Shape::SCALAR;\n```\n```sh\nuse half::f16;\n```\n";
    let found: Vec<_> = examples(page, false).into_iter().filter_map(stranger).collect();
    assert_eq!(found, ["ops_cpu", "ops_core"]);
}
