//! The suite finds bugs: kernels are compiled with a bug planted in their source, and cases must fail.

use ops_core::{Backend, DType};
use ops_rocm::Rocm;
use ops_test::suite::{Filter, run};
use standin_testing::Standin;

/// A test of this module with the stand-in, in a separate process.
fn with_standin(test: &str, variables: &[(&str, &str)], body: impl FnOnce(&Standin)) {
    standin_testing::with_standin(&format!("planted::{test}"), variables, body);
}

/// The cases of an op, or of several, in f32.
fn in_f32(ops: &str) -> Filter {
    Filter { dtype: Some(DType::F32), ..Filter::op(ops) }
}

/// Runs an op's cases in f32, until one fails, on this project's unmodified kernels, then with `from` replaced by `to` in their
/// source.
fn is_found(test: &str, op: &str, from: &str, to: &str) {
    assert!(
        ops_kernels::Family::ALL.iter().any(|f| ops_kernels::source::source(*f).contains(from)),
        "{from}"
    );
    let edit = format!("{from}=>{to}");
    let variables =
        [("HIP_STANDIN_REPLACE", edit.as_str()), ("OPS_ROCM_CACHE", ""), ("OPS_ROCM_POLICY", "*=hip")];
    with_standin(test, &variables, |_| {
        let filter = Filter { until_failure: true, ..in_f32(op) };
        let rocm = Rocm::new().unwrap();
        let report = run(&rocm, &filter);
        assert!(report.failures().count() > 0, "nobody noticed on {}:\n{}", rocm.name(), report.table());
    });
}

#[test]
fn a_norm_without_its_epsilon() {
    is_found("a_norm_without_its_epsilon", "rms_norm", "/ A(n) + A(args.eps))", "/ A(n))");
}

#[test]
fn a_reduction_that_does_not_wait_for_the_other_waves() {
    let wait = "barrier();\n        u32 waves = width / OPS_WAVE;";
    let go_on = "u32 waves = width / OPS_WAVE;";
    is_found("a_reduction_that_does_not_wait_for_the_other_waves", "rms_norm", wait, go_on);
}

#[test]
fn a_row_with_the_sum_of_another() {
    let first = "(wave_id() & ~(waves - 1))";
    is_found("a_row_with_the_sum_of_another", "softmax", first, "(0u & ~(waves - 1))");
}

#[test]
fn a_softmax_that_does_not_subtract_the_maximum() {
    is_found(
        "a_softmax_that_does_not_subtract_the_maximum",
        "softmax",
        "sum += power<T>(v.v[i] - most)",
        "sum += power<T>(v.v[i])",
    );
}

#[test]
fn a_rotation_the_wrong_way_round() {
    is_found("a_rotation_the_wrong_way_round", "rope", "a * sin + b * cos", "a * sin - b * cos");
}

#[test]
fn attention_that_misses_the_last_key() {
    misses_the_last_key("attention_that_misses_the_last_key", "attention");
}

#[test]
fn attention_over_sequences_that_misses_the_last_key() {
    misses_the_last_key("attention_over_sequences_that_misses_the_last_key", "attention_varlen");
}

fn misses_the_last_key(test: &str, op: &str) {
    is_found(test, op, "position(args, of) + args.right + 1", "position(args, of) + args.right");
}

#[test]
fn a_difference_the_wrong_way_round() {
    is_found("a_difference_the_wrong_way_round", "sub", "return a - b; }", "return b - a; }");
}

#[test]
fn a_quantizer_with_the_wrong_sign() {
    is_found(
        "a_quantizer_with_the_wrong_sign",
        "quantize",
        "extreme(x) / f32(-half)",
        "extreme(x) / f32(half)",
    );
}

#[test]
fn a_product_that_forgets_what_it_summed() {
    let from = "to.sum[r][j] = mad(value, A(widen(weights[d][j].v[i])), to.sum[r][j])";
    let to = "to.sum[r][j] = mad(value, A(widen(weights[d][j].v[i])), A(0))";
    is_found("a_product_that_forgets_what_it_summed", "linear", from, to);
}

#[test]
fn a_quantized_product_that_misses_four_values() {
    let from = "i < (h + 1) * WORDS; i++) dot = dot4(";
    let to = "i < (h + 1) * WORDS - 1; i++) dot = dot4(";
    is_found("a_quantized_product_that_misses_four_values", "qlinear", from, to);
}

#[test]
fn an_activation_that_is_rounded_to_seven_bits() {
    let from = "word = low_bytes(rounded);";
    let to = "word = low_bytes(rounded) & 0xfefefefeu;";
    is_found("an_activation_that_is_rounded_to_seven_bits", "qlinear", from, to);
}

#[test]
fn tiles_with_the_matrix_of_the_expert_before() {
    let from = "+ i64(expert) * args.weight_stride[0];\n        const i64(&stride)";
    let to = "+ i64(expert == 0 ? 0 : expert - 1) * args.weight_stride[0];\n        const i64(&stride)";
    is_found("tiles_with_the_matrix_of_the_expert_before", "linear_experts", from, to);
}

#[test]
fn a_last_tile_of_an_expert_that_is_left_out() {
    let from = "left < EXPERTS_TILE ? left : EXPERTS_TILE, first";
    let to = "left < EXPERTS_TILE ? 0 : EXPERTS_TILE, first";
    is_found("a_last_tile_of_an_expert_that_is_left_out", "linear_experts", from, to);
}

#[test]
fn rows_of_no_expert_that_get_a_matrix() {
    let from = "depth = present ? now.d : 0;";
    is_found("rows_of_no_expert_that_get_a_matrix", "linear_experts", from, "depth = now.d;");
}

#[test]
fn a_sort_that_lists_the_first_of_each_pack() {
    let test = "a_sort_that_lists_the_first_of_each_pack";
    is_found(test, "linear_experts", "[to++] = first + i;", "[to++] = first;");
}

#[test]
fn a_group_that_forgets_all_waves_but_one() {
    let from = "w < waves; w++) total += first[w * SUMS];";
    let to = "w < 1; w++) total += first[w * SUMS];";
    is_found("a_group_that_forgets_all_waves_but_one", "qlinear_experts", from, to);
}

#[test]
fn choices_that_multiply_the_first_tokens_row() {
    let from = "u32(is_shared(now) ? token : choice)";
    is_found("choices_that_multiply_the_first_tokens_row", "qlinear_experts", from, "0");
}

#[test]
fn without_a_fault_nothing_fails() {
    let variables = [("OPS_ROCM_POLICY", "*=hip")];
    with_standin("without_a_fault_nothing_fails", &variables, |_| {
        let ops =
            "rms_norm,softmax,rope,attention,sub,quantize,linear,qlinear,linear_experts,qlinear_experts";
        let report = run(&Rocm::new().unwrap(), &in_f32(ops));
        assert_eq!(report.failures().count(), 0, "{}", report.table());
    });
}
