//! Products of rows with their experts' weight matrices, on all kinds of units.
use crate::{devices, executed, suite_of};
use ops_core::ops::ExpertMethods;
use ops_core::{Backend, f16};
use ops_kernels::Family;
use ops_rocm::Rocm;
use standin_testing::with_standin;

/// Products of experts on two targets for which no test runs the whole suite. Every kernel of these families runs.
fn on(test: &str, gfx: [&str; 2], families: &[Family]) {
    with_standin(&format!("experts::{test}"), &[("HIP_STANDIN_DEVICES", &gfx.join(","))], |standin| {
        let fused = "linear_experts_swiglu,linear_experts_combine";
        suite_of(&devices::<2>(), &format!("linear_experts,qlinear_experts,{fused}"));
        gfx.iter().for_each(|gfx| executed::check(standin, gfx, families, &[]));
    });
}

const ON_VECTORS: [Family; 4] =
    [Family::Experts, Family::ExpertsDot, Family::ExpertsSort, Family::ExpertsTile];
const ON_UNITS: [Family; 4] = [Family::Experts, Family::ExpertsDot, Family::ExpertsSort, Family::ExpertsMma];

#[test]
fn on_vectors() {
    on("on_vectors", ["gfx1030", "gfx906"], &ON_VECTORS);
}

#[test]
fn on_units() {
    on("on_units", ["gfx1100", "gfx942"], &ON_UNITS);
}

/// The way in which a call with many rows is computed is reported, and none of its steps waits for the
/// device.
#[test]
fn many_rows_wait_for_nothing() {
    let test = "many_rows_wait_for_nothing";
    with_standin(&format!("experts::{test}"), &[("HIP_STANDIN_GFX", "gfx1100")], |standin| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[96, 1, 32], &[f16::ONE; 96 * 32]).unwrap();
        let weight = rocm.tensor(&[3, 5, 32], &[f16::ONE; 3 * 5 * 32]).unwrap();
        let ids: Vec<u32> = (0..192).map(|at| if at % 7 == 0 { u32::MAX } else { at % 3 }).collect();
        let ids = rocm.tensor(&[96, 2], &ids).unwrap();
        // The first call compiles, and allocates its memory from the device.
        let mut y = rocm.linear_experts(&x, &weight, &ids, None).unwrap();
        rocm.synchronize().unwrap();
        let calls =
            ["hipStreamSynchronize", "hipEventSynchronize", "hipMalloc", "hipMallocAsync", "hipMemcpyAsync"];
        let before = calls.map(|call| standin.count(call));
        rocm.linear_experts_into(&x, &weight, &ids, None, &mut y).unwrap();
        assert_eq!(calls.map(|call| standin.count(call)), before, "{calls:?}");
        let sums = y.to_vec(&rocm).unwrap();
        let want = |at: usize| if (at / 5).is_multiple_of(7) { 0.0 } else { 32.0 };
        assert!(sums.iter().enumerate().all(|(at, sum)| sum.to_f32() == want(at)));
        let last = rocm.decisions().last().map(ToString::to_string).unwrap_or_default();
        assert!(last.contains("rows sorted by expert, on matrix units (WMMA)"), "{last}");
    });
}
