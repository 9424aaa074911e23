//! Replays every golden case on both CPU backends and compares the tally with `expected.txt`, next to the cases.
//!
//! The record is exact: how many cases pass, which ops, operands and parameters this build lacks, and which
//! cases fail.
mod files;
mod steps;

use ops_test::golden::Tally;
use ops_test::{SuiteBackend, proofs};
use rocm_ops::{Cpu, Reference};
use std::path::Path;

/// Replays all sets.
fn replay_all<B: SuiteBackend>(backend: &B) {
    let passed = ["golden", "golden-2", "golden-formats"].map(|set| replay(backend, set));
    let proof = format!("golden cases on {}", backend.name());
    proofs::write(env!("CARGO_TARGET_TMPDIR"), &proof, passed.iter().sum());
}

/// Replays a set; returns how many cases pass.
fn replay<B: SuiteBackend>(backend: &B, set: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(set);
    let tally = Tally::of(backend, &folder).expect("a folder of golden cases");
    let (passed, tally) = (tally.ok(), tally.to_string());
    println!("{tally}");
    let expected = std::fs::read_to_string(folder.join("expected.txt")).expect("the record");
    assert!(tally == expected, "{set}: got\n{tally}\nbut tests/{set}/expected.txt has\n{expected}");
    passed
}

#[test]
fn reference_ends_every_case_as_recorded() {
    replay_all(&Reference::new());
}

#[test]
fn cpu_ends_every_case_as_recorded() {
    replay_all(&Cpu::new());
}
