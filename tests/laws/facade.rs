//! The facade lists the names of the crates that it gathers; none is left out.
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
