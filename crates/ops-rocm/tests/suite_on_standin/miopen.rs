//! The bugs of MIOpen's versions: the suite detects each of them, and denied problems are computed by other
//! providers.

use ops_core::combine::Checked;
use ops_core::ops::*;
use ops_core::{Backend, DType, bf16, f16};
use ops_cpu::Reference;
use ops_rocm::{ProviderId, Rocm};
use ops_test::suite::{Filter, run};
use standin_testing::Standin;

/// A test of this module with the stand-in, in a separate process.
fn with_standin(test: &str, variables: &[(&str, &str)], body: impl FnOnce(&Standin)) {
    standin_testing::with_standin(&format!("miopen::{test}"), variables, body);
}

const FIRST: (&str, &str) = ("OPS_ROCM_POLICY", "*=miopen,hip");

fn cases(op: &str, dtype: Option<DType>) -> Filter {
    Filter { op: Some(op.to_owned()), dtype, ..Filter::all() }
}

fn failures(rocm: &Rocm, filter: &Filter) -> usize {
    let report = run(rocm, filter);
    println!("{}", report.table());
    report.failures().for_each(|failure| println!("{}", failure.case));
    report.failures().count()
}

fn used(rocm: &Rocm) -> bool {
    rocm.decisions().iter().any(|decision| decision.chosen == Some(ProviderId::MIOPEN) && decision.calls > 0)
}

/// The suite detects this bug of a version, and without MIOpen nothing fails.
fn is_seen_and_denied(test: &str, version: &str, op: &str, dtype: DType) {
    with_standin(test, &[FIRST, ("HIP_STANDIN_MIOPEN", version)], |_| {
        let filter = cases(op, Some(dtype));
        let faulty = Rocm::builder().ignore_denials().build().unwrap();
        assert_ne!(failures(&faulty, &filter), 0, "nobody noticed");
        let rocm = Rocm::new().unwrap();
        assert_eq!(failures(&rocm, &filter), 0);
        assert!(used(&faulty) && !used(&rocm));
    });
}

#[test]
fn softmax_in_f16() {
    is_seen_and_denied("softmax_in_f16", "3.5.1", "softmax", DType::F16);
}

#[test]
fn log_softmax_with_nan() {
    is_seen_and_denied("log_softmax_with_nan", "3.5.1", "log_softmax", DType::F32);
}

#[test]
fn layer_norm_with_a_large_mean() {
    is_seen_and_denied("layer_norm_with_a_large_mean", "3.5.1", "layer_norm", DType::F32);
}

#[test]
fn group_norm_with_a_large_mean() {
    is_seen_and_denied("group_norm_with_a_large_mean", "3.3.0", "group_norm", DType::F32);
}

#[test]
fn sigmoid_in_f16() {
    is_seen_and_denied("sigmoid_in_f16", "3.4.0", "sigmoid", DType::F16);
}

#[test]
fn rope_in_bf16() {
    is_seen_and_denied("rope_in_bf16", "3.5.1", "rope_i", DType::BF16);
}

#[test]
fn rope_before_there_was_one() {
    is_seen_and_denied("rope_before_there_was_one", "3.2.0", "rope_i", DType::F32);
}

#[test]
fn rms_norm_before_there_was_one() {
    is_seen_and_denied("rms_norm_before_there_was_one", "3.1.0", "rms_norm", DType::F32);
}

#[test]
fn max_pool_with_nan() {
    is_seen_and_denied("max_pool_with_nan", "3.5.1", "max_pool2d", DType::F32);
}

#[test]
fn avg_pool_in_f16() {
    is_seen_and_denied("avg_pool_in_f16", "3.5.1", "avg_pool2d", DType::F16);
}

#[test]
fn batch_norm_of_bf16_before_there_was_one() {
    is_seen_and_denied("batch_norm_of_bf16_before_there_was_one", "3.3.0", "batch_norm", DType::BF16);
}

/// The reason for not choosing it is reported: windows whose sum is too long, and vectors that it cannot
/// read.
#[test]
fn what_keeps_miopen_from_images_is_explained() {
    const TEST: &str = "what_keeps_miopen_from_images_is_explained";
    with_standin(TEST, &[FIRST], |_| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[1, 1, 9, 9], &[1.0f32; 81]).unwrap();
        let y = rocm.avg_pool2d(&x, Windows::of([9, 9])).unwrap();
        assert_eq!(y.to_vec(&rocm).unwrap(), [1.0]);
        let c = rocm.tensor(&[1], &[f16::ONE]).unwrap();
        rocm.batch_norm(&x, ScaleShift::new(c.any(), c.any()), &c, &c, BatchNorm::eps(1.0)).unwrap();
        rocm.batch_norm(&x, ScaleShift::NONE, &c, &c, BatchNorm::eps(1.0)).unwrap();
        let text: Vec<String> = rocm.decisions().iter().map(ToString::to_string).collect();
        let told = |why: &str| text.iter().any(|decision| decision.contains(why));
        assert!(told("elements of a window that MIOpen adds in one sum = 81, limit 64"), "{text:?}");
        assert!(
            told("no kernel for weight in f16") && told("MIOpen's batch norm needs a weight"),
            "{text:?}"
        );
        assert!(!used(&rocm));
    });
}

/// The solution is searched only once per shape; the time this took is reported, and its workspace comes from
/// the cache.
#[test]
fn convolutions_are_solved_once() {
    const TEST: &str = "convolutions_are_solved_once";
    with_standin(TEST, &[FIRST], |standin| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[1, 2, 6, 5], &[1.0f32; 60]).unwrap();
        let weight = rocm.tensor(&[4, 2, 3, 3], &[1.0f32; 72]).unwrap();
        let bias = rocm.tensor(&[4], &[0.5f32, 1.5, 2.5, 3.5]).unwrap();
        let mut y = rocm.zeros(&[1, 4, 4, 3]).unwrap();
        let mut run = || {
            rocm.conv2d_into(&x, &weight, Some(bias.any()), &mut y, Conv2d::new()).unwrap();
            let y = y.to_vec(&rocm).unwrap();
            assert_eq!([y[0], y[12], y[24], y[47]], [18.5, 19.5, 20.5, 21.5]);
            let stats = rocm.memory_stats();
            (stats.allocations, stats.allocations - stats.reused)
        };
        let (first, second) = (run(), run());
        assert!(first.0 < second.0, "each call has a workspace");
        assert_eq!(first.1, second.1, "the second from the cache");
        let calls = |name: &str| standin.count(name);
        assert_eq!(calls("miopenConvolutionForwardCompileSolution"), 1);
        assert_eq!(calls("miopenConvolutionForwardImmediate"), 2);
        let [decision] = &rocm.decisions()[..] else { panic!("one decision") };
        let text = decision.to_string();
        assert!(
            text.contains("solution 91 (gemm), the fastest of 2, ")
                && text.contains("found and compiled in "),
            "{text}"
        );
        // An f16 bias would be added to an already rounded result.
        let x = rocm.tensor(&[1, 2, 6, 5], &[f16::ONE; 60]).unwrap();
        let weight = rocm.tensor(&[4, 2, 3, 3], &[f16::ONE; 72]).unwrap();
        rocm.conv2d(&x, &weight, Some(bias.any()), Conv2d::new()).unwrap();
        let text = rocm.decisions().iter().map(ToString::to_string).collect::<String>();
        assert!(text.contains("MIOpen rounds to f16 before the bias is added"), "{text}");
        assert_eq!(calls("miopenConvolutionForwardImmediate"), 2);
    });
}

/// ROCm/MIOpen#2966.
#[test]
fn softmax_of_two_types() {
    const TEST: &str = "softmax_of_two_types";
    with_standin(TEST, &[FIRST, ("HIP_STANDIN_MIOPEN", "3.1.0")], |_| {
        let softmax = |rocm: &Rocm| {
            let half = rocm.tensor(&[2, 2], &[f16::ONE; 4]).unwrap();
            let single = rocm.tensor(&[2, 2], &[1.0f32; 4]).unwrap();
            rocm.softmax(&half, Softmax::axis(-1)).unwrap();
            rocm.softmax(&single, Softmax::axis(-1)).unwrap().to_vec(rocm).unwrap()
        };
        assert_ne!(softmax(&Rocm::builder().ignore_denials().build().unwrap()), [0.5; 4]);
        assert_eq!(softmax(&Rocm::new().unwrap()), [0.5; 4]);
    });
}

/// MIOpen 3.1 writes them in f32, whatever the operands' type. The rows fill a whole allocation.
#[test]
fn statistics_take_four_bytes_a_row() {
    const TEST: &str = "statistics_take_four_bytes_a_row";
    with_standin(TEST, &[FIRST, ("HIP_STANDIN_MIOPEN", "3.1.0")], |standin| {
        const ROWS: usize = 1 << 16;
        let rocm = Rocm::builder().ignore_denials().build().unwrap();
        let x: Vec<f16> = (0..2 * ROWS).map(|i| f16::from_f32((i % 2) as f32)).collect();
        let x = rocm.tensor(&[ROWS, 2], &x).unwrap();
        let y = rocm.layer_norm(&x, None, None, LayerNorm::eps(1e-5)).unwrap().to_vec(&rocm).unwrap();
        assert!(y.chunks(2).all(|row| row[0].to_f32() < -0.99 && row[1].to_f32() > 0.99));
        let image = rocm.tensor(&[ROWS, 1, 2], &x.to_vec(&rocm).unwrap()).unwrap();
        rocm.group_norm(&image, None, None, GroupNorm::new(1, 1e-5)).unwrap().to_vec(&rocm).unwrap();
        assert!(used(&rocm) && standin.misuses() == 0);
    });
}

#[test]
fn a_checked_backend_sees_a_fault_too() {
    const TEST: &str = "a_checked_backend_sees_a_fault_too";
    with_standin(TEST, &[FIRST], |_| {
        let rocm = Rocm::builder().ignore_denials().build().unwrap();
        let checked = Checked::new(rocm, Reference::new());
        let x = checked.tensor(&[1, 1, 1, 2], &[bf16::ONE; 2]).unwrap();
        let table = |value: f32| checked.tensor(&[1, 1], &[bf16::from_f32(value)]).unwrap();
        let rotated = checked.rope(&x, table(0.6), table(0.8), Rope::new(RopeForm::Interleaved));
        let text = rotated.unwrap_err().to_string();
        assert!(text.contains("rope_i"), "{text}");
    });
}

/// Nothing fails if MIOpen comes first, and it is used.
fn nothing_fails(test: &str, version: &str, computes: &[&str]) {
    with_standin(test, &[FIRST, ("HIP_STANDIN_MIOPEN", version)], |_| {
        for op in [
            "softmax",
            "log_softmax",
            "sigmoid",
            "tanh",
            "abs",
            "rms_norm",
            "layer_norm",
            "group_norm",
            "rope_i",
            "batch_norm",
            "avg_pool2d",
            "max_pool2d",
            "conv1d",
            "conv2d",
            "conv_transpose1d",
            "conv_transpose2d",
        ] {
            let rocm = Rocm::new().unwrap();
            let computed = computes.contains(&op) || op.starts_with("conv");
            // Our kernels compute the others, of which other tests run all cases.
            let one_case_in = (!computed).then_some(4);
            assert_eq!(failures(&rocm, &Filter { one_case_in, ..cases(op, None) }), 0);
            assert_eq!(used(&rocm), computed, "{op}");
        }
    });
}

#[test]
fn nothing_fails_with_miopen_3_1() {
    nothing_fails(
        "nothing_fails_with_miopen_3_1",
        "3.1.0",
        &["sigmoid", "tanh", "abs", "batch_norm", "avg_pool2d"],
    );
}

#[test]
fn nothing_fails_with_miopen_3_2() {
    nothing_fails(
        "nothing_fails_with_miopen_3_2",
        "3.2.0",
        &["softmax", "sigmoid", "tanh", "abs", "rms_norm", "batch_norm", "avg_pool2d"],
    );
}

#[test]
fn nothing_fails_with_miopen_3_5_2() {
    let computes = ["softmax", "sigmoid", "tanh", "abs", "rms_norm", "rope_i", "batch_norm", "avg_pool2d"];
    nothing_fails("nothing_fails_with_miopen_3_5_2", "3.5.2", &computes);
}
