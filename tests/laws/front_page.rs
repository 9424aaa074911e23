//! The tables of methods on the facade's front page and in the book are made of the families that the core declares.
use crate::documents::{check_part, root};
use crate::printing::sources;
use std::path::PathBuf;

/// A family: its bound, and the names of its methods that allocate their results.
type Family = (String, Vec<String>);

/// The families that a source declares.
fn families(source: &str) -> Vec<Family> {
    let traits = source.split("\npub trait ").skip(1);
    let families = traits.filter_map(|text| {
        let (name, rest) = text.split_once("Methods: Backend {\n")?;
        let body = rest.split("\n}\n").next()?;
        let mut methods: Vec<String> = body.lines().filter_map(method).map(str::to_owned).collect();
        methods.dedup();
        Some((format!("{name}Ops"), methods))
    });
    families.collect()
}

/// The method that a line declares: `fn name(`, `fn name, name_into(` or, in a list for a macro, `name name_into Name`.
fn method(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (name, is_listed) = match line.strip_prefix("fn ") {
        Some(rest) => (rest, false),
        None => (line, true),
    };
    let end = name.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    let (name, rest) = name.split_at(end);
    let is_method =
        !is_listed || rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(&format!("{name}_into ")));
    (is_method && !name.is_empty() && !name.ends_with("_into")).then_some(name)
}

#[test]
fn the_table_of_methods_is_that_of_the_core() {
    let mut paths = Vec::new();
    sources(&root().join("crates/ops-core/src/ops"), &mut paths);
    let read = |path: &PathBuf| std::fs::read_to_string(path).expect("a source");
    let mut found: Vec<Family> = paths.iter().flat_map(|path| families(&read(path))).collect();
    found.sort();
    assert!(found.len() > 35 && found.iter().all(|(_, methods)| !methods.is_empty()), "{found:?}");
    let table = |margin: &str| {
        let rows = found.iter().map(|(bound, methods)| {
            let methods: Vec<String> = methods.iter().map(|name| format!("`{name}`")).collect();
            format!("{margin}| `{bound}` | {} |\n", methods.join(", "))
        });
        format!("{margin}| bound | methods |\n{margin}|---|---|\n{}", rows.collect::<String>())
    };
    check_part("src/lib.rs", "//! <!-- methods -->\n", "//! <!-- end -->", &table("//! "));
    check_part("docs/reference.md", "<!-- methods -->\n", "<!-- end -->", &table(""));
}
