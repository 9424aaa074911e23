use super::*;
use std::path::Path;

/// The faults of a crate with these files.
fn faults(files: &[(&str, &str)]) -> Vec<String> {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
    check(&Crate::read(folder, Path::new(files[0].0)).unwrap()).unwrap()
}

/// Of a crate of two modules.
fn faults_of(a: &str, b: &str) -> Vec<String> {
    faults(&[("src/lib.rs", "mod a;\nmod b;\n"), ("src/a.rs", a), ("src/b.rs", b)])
}

#[test]
fn use_lines_make_a_cycle() {
    let found =
        faults_of("use crate::b::B;\nstruct A(B);", "use super::a::{A as Other, C};\nstruct B(Other, C);");
    let [fault] = &found[..] else { panic!("{found:?}") };
    assert!(fault.contains("src/a.rs:1: crate::b::B (of b)"), "{fault}");
    assert!(fault.contains("src/b.rs:1: super::a::A (of a)"), "{fault}");
    assert!(fault.contains("a -> b -> a"), "{fault}");
}

#[test]
fn paths_in_code_and_in_macros_make_a_cycle() {
    assert_eq!(faults_of("fn a() { crate::b::b() }", "macro_rules! m { () => { $crate::a::a() } }").len(), 1);
    assert_eq!(faults_of("use crate::b;\nfn a() { vec![b::b()]; }", "fn b() -> super::a::A {}").len(), 1);
    assert_eq!(
        faults_of(
            "use crate::b::{self as other};\nfn a() { other::b() }",
            "use crate::a::*;\nfn b(_: A) {}\n"
        )
        .len(),
        0
    );
    assert_eq!(faults_of("use crate::b;\nstruct A(b::B);", "use crate::a::*;\nstruct B(A);").len(), 1);
}

#[test]
fn a_cycle_of_three_is_one_fault() {
    let files = [
        ("src/lib.rs", "mod a; mod b; mod c; mod d;"),
        ("src/a.rs", "use crate::b::B;"),
        ("src/b.rs", "use crate::c::C;"),
        ("src/c.rs", "fn c() { crate::a::a() }"),
        ("src/d.rs", "use crate::a::a;"),
    ];
    let found = faults(&files);
    assert!(found.len() == 1 && found[0].contains("3 modules"), "{found:?}");
}

#[test]
fn a_module_and_those_in_its_folder_may_use_each_other() {
    let of = |child| {
        faults(&[
            ("src/lib.rs", "mod a;"),
            ("src/a.rs", "mod one; mod two; use one::One; use two::Two; struct A;"),
            ("src/a/one.rs", "use super::A; use super::two::Two; struct One;"),
            ("src/a/two.rs", child),
        ])
    };
    assert!(of("use super::A; struct Two;").is_empty());
    assert_eq!(of("use super::A; use super::one::One;").len(), 1);
}

#[test]
fn a_reexport_is_no_cycle_but_leads_to_one() {
    let folder = |child: &str, other: &str| {
        faults(&[
            ("src/lib.rs", "mod a; mod other; pub use a::child::Item;"),
            ("src/a/mod.rs", "pub(crate) mod child;\npub(crate) use child::Item as Renamed;"),
            ("src/a/child.rs", child),
            ("src/other.rs", other),
        ])
    };
    assert_eq!(folder("use super::Own;\nstruct Item;", "").len(), 0);
    assert_eq!(folder("pub struct Item;", "use crate::Item;").len(), 0);
    let found = folder("use crate::other::Other;\npub struct Item;", "use crate::Item;\npub struct Other;");
    assert!(found[0].contains("a::child -> other -> a::child"), "{found:?}");
    let found =
        folder("use crate::other::Other;\npub struct Item;", "use crate::a::Renamed;\npub struct Other;");
    assert!(found[0].contains("a::child -> other -> a::child"), "{found:?}");
}

#[test]
fn code_for_tests_is_left_out() {
    let a = "use crate::b::B;\nstruct A(B);";
    for test in [
        "#[cfg(test)]\nmod tests { use crate::a::A; }\nstruct B;",
        "#[cfg(test)]\nuse crate::a::{A};\nstruct B;",
        "struct B {\n #[cfg(test)] a: crate::a::A,\n b: u8 }",
        "#[cfg(all(test, unix))]\nfn f() { crate::a::a() }\nstruct B;",
        "// crate::a::A\n/// [`crate::a::A`]\nstruct B;",
    ] {
        assert!(faults_of(a, test).is_empty(), "{test}");
    }
    assert_eq!(faults_of(a, "#[cfg(test)]\nuse std::fmt;\nuse crate::a::A;\nstruct B;").len(), 1);
    assert_eq!(faults_of(a, "#[cfg(not(test))]\nuse crate::a::A;\nstruct B;").len(), 1);
}

#[test]
fn a_module_written_in_a_file_is_part_of_it() {
    assert!(faults_of("mod inner { use super::A; }\nuse inner::B;\nstruct A;", "").is_empty());
    assert_eq!(faults_of("mod inner { use super::super::b::B; }", "use crate::a::A;").len(), 1);
}

const LAYERED: &str = "//! Title.\n//!\n//! # Layers\n//!\n//! 1. `low`: what others use, not `high`\n//! 2. `middle`, `high`: the rest\n//!\n//! # More\n";

#[test]
fn an_import_from_a_higher_layer_is_a_fault() {
    let lib = format!("{LAYERED}mod low; mod middle; mod high; pub use high::High;");
    let of = |low| {
        faults(&[
            ("src/lib.rs", &lib),
            ("src/low.rs", low),
            ("src/middle.rs", "use crate::high::High;"),
            ("src/high.rs", "use crate::low::Low;\npub struct High;"),
        ])
    };
    assert!(of("struct Low;").is_empty());
    let found = of("struct Low;\nfn low(_: crate::middle::Middle) {}");
    assert!(
        found.iter().any(|f| f
            .contains("src/low.rs:2: `low` (layer 1) imports crate::middle::Middle of `middle` (layer 2")),
        "{found:?}"
    );
    let found = of("use crate::High;");
    assert!(found.iter().any(|f| f.contains("imports crate::High of `high`")), "{found:?}");
}

#[test]
fn a_module_without_a_layer_is_a_fault() {
    let lib = format!("{LAYERED}mod low; mod middle; mod high; mod other;");
    let empty = ["src/low.rs", "src/middle.rs", "src/high.rs", "src/other.rs"].map(|file| (file, ""));
    let files: Vec<(&str, &str)> = [("src/lib.rs", lib.as_str())].into_iter().chain(empty).collect();
    let found = faults(&files);
    assert!(found.len() == 1 && found[0].contains("module `other` is in no layer"), "{found:?}");
}
