//! Replays every golden case on both CPU backends and compares the tally with `expected.txt`, next to the cases.
//!
//! The record is exact: how many cases pass, which ops, operands and parameters this build lacks, and which
//! cases fail.
use ops_test::SuiteBackend;
use ops_test::golden::Tally;
use rocm_ops::{Cpu, Reference};
use std::path::Path;

fn replay<B: SuiteBackend>(backend: &B, set: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(set);
    let tally = Tally::of(backend, &folder).expect("a folder of golden cases").to_string();
    println!("{tally}");
    let expected = std::fs::read_to_string(folder.join("expected.txt")).expect("the record");
    assert!(tally == expected, "{set}: got\n{tally}\nbut tests/{set}/expected.txt has\n{expected}");
}

#[test]
fn reference_ends_every_case_as_recorded() {
    replay(&Reference::new(), "golden");
    replay(&Reference::new(), "golden-2");
    replay(&Reference::new(), "golden-formats");
}

#[test]
fn cpu_ends_every_case_as_recorded() {
    replay(&Cpu::new(), "golden");
    replay(&Cpu::new(), "golden-2");
    replay(&Cpu::new(), "golden-formats");
}
