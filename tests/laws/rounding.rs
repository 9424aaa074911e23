//! Results are rounded once.
use super::printing::sources;
use std::path::Path;

/// In a macro that substitutes a concrete type for `T`, `T::from_f64` is `f16`'s own method, which rounds to f32 first on processors
/// with F16C. In generic code, it is `Scalar::from_f64`, which rounds once.
#[test]
fn macros_over_types_call_the_conversion_that_rounds_once() {
    let (root, mut files, mut found) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), Vec::new(), Vec::new());
    for folder in ["crates/ops-cpu/src", "crates/ops-core/src", "crates/ops-test/src"] {
        sources(&root.join(folder), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // Whether this line is after an arm `T =>` of its function.
        let mut in_macro = false;
        for line in text.lines().map(str::trim_start) {
            in_macro = line.contains("T => ") || in_macro && !line.contains("fn ");
            if in_macro && line.contains("T::from_f64(") {
                found.push(format!("{}: {line}", file.display()));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}
