//! Determinism *batch*: the logits of a token have the same bits however its prompt is split, and whatever
//! other texts are in the step.
mod cost;

use ops_tests::determinism::{check, first_batch, first_cut};
use rocm_ops::{Cpu, Determinism, Reference, f16};

const SIZES: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

#[test]
fn logits_on_the_cpu_do_not_depend_on_cuts_and_batches() {
    for threads in [1, 3] {
        let cpu = Cpu::builder().threads(threads).determinism(Determinism::Batch).build().unwrap();
        for dtype in ["f16", "q8_0", "q4_0"] {
            check::<f32, _>(&cpu, dtype, 48, if threads == 1 { 1 } else { 5 }, &SIZES);
            check::<f16, _>(&cpu, dtype, 24, 3, &SIZES[..4]);
        }
    }
}

#[test]
fn logits_on_the_reference_do_not_depend_on_cuts_and_batches() {
    check::<f32, _>(&Reference::new(), "f16", 12, 4, &[3]);
}

/// Why the level exists: without it, the comparison finds different bits.
#[test]
fn logits_on_the_cpu_depend_on_cuts_without_the_level() {
    let cpu = Cpu::builder().threads(1).build().unwrap();
    assert!(
        ["f16", "q8_0", "q4_0"].into_iter().any(|dtype| first_cut::<f32, _>(&cpu, dtype, 48, 5).is_some())
    );
    assert!(
        ["f16", "q8_0", "q4_0"].into_iter().any(|dtype| first_batch::<f32, _>(&cpu, dtype, &SIZES).is_some())
    );
}
