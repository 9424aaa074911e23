//! Golden cases on the backend.
use ops_rocm::Rocm;
use ops_test::golden::Tally;
use std::path::{Path, PathBuf};

const GOLDEN: [&str; 3] = ["golden", "golden-2", "golden-formats"];

/// A set of golden cases, and its expected result, which is the same as on the other backends.
fn golden(set: &str) -> (PathBuf, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(set);
    let expected = std::fs::read_to_string(folder.join("expected.txt")).expect("the record");
    (folder, expected)
}

/// The results of the golden sets equal the recorded ones.
pub(crate) fn replay(wave: u32) {
    let rocm = Rocm::new().unwrap();
    let mut passed = 0;
    for set in GOLDEN {
        let (folder, expected) = golden(set);
        let tally = Tally::of(&rocm, &folder).expect("a folder of golden cases");
        passed += tally.ok();
        let tally = tally.to_string();
        assert!(tally == expected, "{set}: got\n{tally}\nbut recorded is\n{expected}");
    }
    let proof = format!("golden cases on the stand-in, waves of {wave}");
    ops_test::proofs::write(env!("CARGO_TARGET_TMPDIR"), &proof, passed);
    println!("decided by {}", rocm.decisions().len());
}

/// The same for ops that targets and libraries compute in different ways. All other ops have the same kernels
/// on all targets with the same wave size; `golden_cases_on_waves_of_32` and `_of_64` replay those.
pub(crate) fn replay_products(rocm: &Rocm) {
    let names = ["matmul", "linear", "conv", "attention", "qlinear"];
    let differs = |op: &str| names.iter().any(|name| op.starts_with(name));
    let mut ok = 0;
    for set in GOLDEN {
        let (folder, expected) = golden(set);
        let tally = Tally::where_op(rocm, &folder, differs).expect("a folder of golden cases");
        ok += tally.ok();
        // All lines except the numbers of cases: what is unsupported, and what failed.
        let said = tally.to_string();
        let unsupported = |line: &&str| {
            line.split_whitespace().nth(1).is_some_and(|op| line.starts_with("  ") && differs(op))
        };
        let wanted: Vec<&str> = expected.lines().filter(unsupported).chain(["0 fail", "0 error"]).collect();
        let tells =
            |line: &&str| line.starts_with("  ") || line.ends_with(" fail") || line.ends_with(" error");
        let got: Vec<&str> = said.lines().filter(tells).collect();
        assert!(got == wanted, "{set}: got\n{said}\nbut wanted is\n{}", wanted.join("\n"));
    }
    assert!(ok > 150, "only {ok} golden cases of products");
}
