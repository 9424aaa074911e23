//! Documents say what the code says: where they repeat a fact, a test here compares the two.
use ops_rocm::providers_of;
use rocm_ops::{models, ops::registry};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}
pub(crate) fn read(page: &str) -> String {
    std::fs::read_to_string(root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}
/// The names of the files in a folder with this ending.
pub(crate) fn files(folder: &str, ending: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect(folder).map(|e| e.expect(folder).file_name());
    entries.map(|name| name.into_string().expect("UTF-8")).filter(|name| name.ends_with(ending)).collect()
}
/// Every page of documentation.
pub(crate) fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    let of_docs = files("docs", "").into_iter().map(|name| format!("docs/{name}"));
    let of_docs = of_docs.filter(|path| root().join(path).is_dir());
    let folders = ["docs", "kernels", "fuzz", "models", "standin"].map(str::to_owned);
    for folder in folders.into_iter().chain(of_docs) {
        pages.extend(files(&folder, ".md").into_iter().map(|name| format!("{folder}/{name}")));
    }
    pages
}
/// The cells of the rows of a page's tables.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let lines = page.lines().filter(|line| line.starts_with('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

/// The contents of a JSON file.
fn json(page: &str) -> serde_json::Value {
    serde_json::from_str(&read(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// The table of families in `docs/run-your-model.md`.
fn families() -> String {
    let names = |of: Vec<serde_json::Value>, key: &str| -> BTreeSet<String> {
        of.iter().filter_map(|value| value[key].as_str()).map(str::to_owned).collect()
    };
    let fixtures = files("tests/data/families", ".json");
    let fixtures = fixtures.iter().map(|name| json(&format!("tests/data/families/{name}")));
    let folders = files("tests/data/folders", "");
    let folders = folders.iter().map(|name| json(&format!("tests/data/folders/{name}/config.json")));
    let checked = [
        ("file", names(fixtures.collect(), "architecture")),
        ("folder", names(folders.collect(), "model_type")),
        ("config", names(json("tests/data/configs.json").as_array().expect("a list").clone(), "model")),
    ];
    let of_code = "crates/ops-models/src/families";
    let code: Vec<_> =
        files(of_code, ".rs").into_iter().map(|name| (read(&format!("{of_code}/{name}")), name)).collect();
    let mut table = [
        "| family | GGUF architecture | `model_type` of folders | what is refused | a model | checked | code |\n",
        "|---|---|---|---|---|---|---|\n",
    ]
    .concat();
    for kind in models::model_kinds() {
        let known = [&[kind.architecture], &kind.folders[..1], &[kind.example]];
        let checks = checked.iter().zip(known).filter(|((_, names), known)| names.contains(known[0]));
        let checks: Vec<_> = checks.map(|((check, _), _)| *check).collect();
        assert!(checks.starts_with(&["file", "folder"]), "{}: only {checks:?} are checked", kind.name);
        let own = format!("model_type: \"{}\"", kind.folders[0]);
        let (_, file) = code.iter().find(|(text, _)| text.contains(&own)).expect(&own);
        let cells = [
            kind.name,
            kind.architecture,
            &kind.folders.join(", "),
            kind.refused,
            kind.example,
            &checks.join(", "),
            &format!("[{file}](../{of_code}/{file})"),
        ];
        let row = cells.map(|cell| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") });
        table += &format!("|{}\n", row.concat());
    }
    table
}

/// Checks that a page has this text between two others, or writes it there if `OPS_TEST_WRITE` is set.
pub(crate) fn check_part(page: &str, begin: &str, end: &str, text: &str) {
    let whole = read(page);
    let (before, rest) = whole.split_once(begin).expect(begin);
    let (part, after) = rest.split_once(end).expect(end);
    if std::env::var_os("OPS_TEST_WRITE").is_some() {
        let whole = [before, begin, text, end, after].concat();
        std::fs::write(root().join(page), whole).unwrap_or_else(|e| panic!("{page}: {e}"));
    } else if part != text {
        let write = "`OPS_TEST_WRITE=1 cargo test -p ops-tests --test laws documents` writes it";
        panic!("{page}: a part made of the code should be\n{text}\n{write}");
    }
}

#[test]
fn families_are_those_of_the_library() {
    let table = families();
    let (heading, rows) = table.split_once('\n').expect("a heading");
    check_part("docs/run-your-model.md", &format!("{heading}\n"), "\n\n", rows.trim_end());
    let architectures: BTreeSet<_> = models::model_kinds().map(|kind| kind.architecture).collect();
    assert_eq!(architectures, models::families().collect(), "every family has a kind of folder");

    let short = |name: &'static str| {
        let first = name.split(',').next().unwrap_or(name);
        first.trim_end_matches(" 1 to 3").trim_end_matches(" to 4.7")
    };
    let mut list = String::new();
    for name in models::model_kinds().map(|kind| short(kind.name)) {
        let line = list.len() - list.rfind('\n').map_or(0, |at| at + 1);
        list += match line {
            0 => "",
            _ if line + name.len() > 135 => ",\n",
            _ => ", ",
        };
        list += name;
    }
    check_part("README.md", "<!-- families -->\n", "\n<!-- end -->", &format!("{list}."));
}

#[test]
fn encoders_are_those_of_the_library() {
    let page = read("docs/run-your-model.md");
    let table: Vec<_> = rows(&page).into_iter().skip_while(|row| row[0] != "encoder").skip(2).collect();
    let table: Vec<_> = table.iter().take_while(|row| row.len() == 4).collect();
    // The last rows are encoders that share the decoder's layers, which have no list of their own.
    let kinds: BTreeSet<_> = table[..table.len() - 2].iter().map(|row| row[2]).collect();
    assert_eq!(kinds, models::encoder_families().collect(), "docs/run-your-model.md: types of folders");
}

/// README's section "On an AMD GPU", and the table in `docs/reference.md`.
#[test]
fn providers_come_in_the_documented_order() {
    let mut ops: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in registry::entries().iter().map(|entry| entry.name) {
        let ids = providers_of(name).unwrap_or_else(|| panic!("no providers of {name}"));
        let order: Vec<_> = ids.iter().map(|id| id.name()).filter(|id| *id != "parts").collect();
        let documented: &[&[&str]] = match name {
            "matmul" | "linear" | "qlinear" => &[&["hipblaslt", "rocblas", "hip"]],
            _ => &[&["hip"], &["hip", "miopen"]],
        };
        assert!(documented.contains(&&*order), "{name}: {order:?}, and README.md says {documented:?}");
        ops.entry(order.join(", ")).or_default().push(format!("`{name}`"));
    }
    // Most ops have only our kernels.
    ops.insert("hip".to_owned(), vec!["all others".to_owned()]);
    let rows = ops.iter().rev().map(|(order, ops)| format!("| {order} | {} |\n", ops.join(", ")));
    let table = format!("| providers, in order | ops |\n|---|---|\n{}", rows.collect::<String>());
    check_part("docs/reference.md", "<!-- providers -->\n", "<!-- end -->", &table);
}

#[test]
fn tuning_parameters_are_those_of_the_kernels() {
    let page = read("docs/kernels.md");
    let documented: Vec<_> = rows(&page)
        .into_iter()
        .skip_while(|row| row[0] != "parameter")
        .skip(2)
        .take_while(|row| row.len() == 3)
        .collect();
    let words = |text: &str| text.split([' ', ';']).next().map(str::to_owned);
    let documented: Vec<_> = documented.iter().map(|row| (row[0].to_owned(), words(row[1]))).collect();
    let known: Vec<_> =
        ops_kernels::KNOBS.iter().map(|knob| (knob.name.to_owned(), Some(knob.value.to_string()))).collect();
    assert_eq!(documented, known, "docs/kernels.md: names and values of tuning parameters");
}

#[test]
fn each_set_of_golden_cases_has_the_cases_that_its_record_counts() {
    let sets: Vec<_> = ["golden", "golden-2", "golden-formats"].into();
    let found: BTreeSet<_> =
        files("tests", "").into_iter().filter(|name| name.starts_with("golden")).collect();
    assert_eq!(found.iter().collect::<Vec<_>>(), sets, "the sets that tests/conformance replays");
    for set in sets {
        let record = read(&format!("tests/{set}/expected.txt"));
        let count = |line: &str| line.split_once(' ').and_then(|(n, _)| n.parse::<usize>().ok());
        let counted: usize = record.lines().take(4).filter_map(count).sum();
        let cases = files(&format!("tests/{set}"), ".safetensors");
        assert_eq!(cases.len(), counted, "{set}");
        for case in cases {
            let source = source(&format!("tests/{set}/{case}"));
            assert!(!source.is_empty(), "{set}/{case} does not say which program computed it");
        }
    }
}

/// Which program computed a golden case.
fn source(case: &str) -> String {
    let bytes = std::fs::read(root().join(case)).unwrap_or_else(|e| panic!("{case}: {e}"));
    let (length, rest) = bytes.split_first_chunk().expect(case);
    let length = usize::try_from(u64::from_le_bytes(*length)).expect(case);
    let head: serde_json::Value = serde_json::from_slice(rest.get(..length).expect(case)).expect(case);
    head["__metadata__"]["source"].as_str().unwrap_or_else(|| panic!("{case}: no source")).to_owned()
}

#[test]
fn documents_keep_to_their_lengths() {
    for (page, most) in [("README.md", 150), ("ARCHITECTURE.md", 220), ("CONTRIBUTING.md", 200)] {
        let lines = read(page).lines().count();
        assert!(lines <= most, "{page} has {lines} lines, and at most {most} are allowed");
    }
}
