//! What a step of decoding fuses, with results computed by hand.
use super::files::CaseBuilder;
use safetensors::Dtype::U32;
use serde_json::json;

pub(super) fn cases() -> impl Iterator<Item = CaseBuilder> {
    let pair = |case: CaseBuilder, name: &str, values| case.f32(name, &[1, 2], values);
    let y = |case: CaseBuilder, y| case.f64("out.y", &[1, 1], &[y]).meta("limit.y", 1e-13);
    // The root mean square is 2, so the normed row is 3 and -5.
    let normed = |op| {
        let case = CaseBuilder::new(op, "f32", json!({"eps": 0.0})).f32("in.norm", &[2], &[3.0, 5.0]);
        pair(case, "in.x", &[2.0, -2.0])
    };
    let linear = pair(normed("rms_norm_linear"), "in.weight", &[7.0, 1.0]).f32("in.bias", &[1], &[0.5]);
    let gated = pair(normed("rms_norm_linear_swiglu"), "in.gate", &[2.0, 1.0]);
    let gated = pair(gated, "in.up", &[7.0, 1.0]);
    let added = pair(CaseBuilder::new("linear_add", "f32", json!({})), "in.x", &[2.0, 3.0]);
    let added = pair(added, "in.weight", &[5.0, 7.0]).f32("in.residual", &[1, 1], &[0.5]);
    let fused = [y(linear, 16.5), y(gated, 16.0 / (1.0 + (-1f64).exp())), y(added, 31.5)];
    fused.into_iter().chain([rotated_by_a_quarter(), projected(), gated_expert(), sum_of_experts()])
}

/// The second of two experts: its gate is 2, which is clamped, and its up is 0.75.
fn gated_expert() -> CaseBuilder {
    let options = json!({"alpha": 1.5, "limit": 1.75});
    let case = CaseBuilder::new("linear_experts_swiglu", "f32", options).f32("in.x", &[1, 1, 2], &[2.0, 3.0]);
    let case = case.f32("in.gate", &[2, 1, 2], &[9.0, 9.0, 2.0, -1.0]);
    let case = case.f32("in.up", &[2, 1, 2], &[9.0, 9.0, 0.5, -0.25]);
    let case = case.f32("in.gate_bias", &[2, 1], &[5.0, 1.0]).f32("in.up_bias", &[2, 1], &[5.0, 0.5]);
    let case = case.raw("in.ids", U32, &[1, 1], vec![1, 0, 0, 0]);
    let y = 1.75 / (1.0 + (-2.625f64).exp()) * 1.75;
    case.f64("out.y", &[1, 1, 1], &[y]).meta("limit.y", 1e-13)
}

/// Twice 8.25, of the second expert, and three times -1.5, of the first.
fn sum_of_experts() -> CaseBuilder {
    let case = CaseBuilder::new("linear_experts_combine", "f32", json!({}));
    let case = case.f32("in.x", &[1, 2, 2], &[2.0, 3.0, 1.0, -1.0]);
    let case = case.f32("in.weight", &[2, 1, 2], &[5.0, 7.0, 1.0, 2.0]).f32("in.bias", &[2, 1], &[0.5, 0.25]);
    let case = case.raw("in.ids", U32, &[1, 2], vec![1, 0, 0, 0, 0, 0, 0, 0]);
    let case = case.f32("in.weights", &[1, 2], &[2.0, 3.0]);
    case.f64("out.y", &[1, 1], &[12.0]).meta("limit.y", 1e-13)
}

/// The normed row is 3 and -5. Its products and the biases give the query (3.5, -5) and the key (-2, 8), which are turned by a quarter, and the
/// value 4.
fn projected() -> CaseBuilder {
    let options = json!({"eps": 0.0, "order": "half"});
    let case = CaseBuilder::new("rms_norm_linear_rope_cache_write", "f32", options);
    let case = case.f32("in.x", &[1, 2], &[2.0, -2.0]).f32("in.norm", &[2], &[3.0, 5.0]);
    let weight = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 4.0, 1.0, 2.0, 0.0];
    let case = case.f32("in.weight", &[5, 2], &weight).f32("in.bias", &[5], &[0.5, 0.0, 0.0, 1.0, -2.0]);
    let case = case.f32("in.cos", &[1, 1], &[0.0]).f32("in.sin", &[1, 1], &[1.0]);
    let case = case.raw("in.positions", U32, &[1], vec![0; 4]).raw("in.slots", U32, &[1], vec![1, 0, 0, 0]);
    let case = case.f32("in.k_cache", &[2, 1, 2], &[0.0; 4]).f32("in.v_cache", &[2, 1, 1], &[0.0; 2]);
    let case =
        case.f64("out.y", &[1, 1, 2], &[5.0, 3.5]).f64("out.k_cache", &[2, 1, 2], &[0.0, 0.0, -8.0, -2.0]);
    let case = case.f64("out.v_cache", &[2, 1, 1], &[0.0, 4.0]);
    ["y", "k_cache", "v_cache"].iter().fold(case, |case, name| case.meta(&format!("limit.{name}"), 1e-13))
}

/// A query and a key, of which the key goes into the second of two slots.
fn rotated_by_a_quarter() -> CaseBuilder {
    let case = CaseBuilder::new("rope_qk_cache_write", "f32", json!({"eps": 0.0, "order": "half"}));
    let case = case.f32("in.q", &[1, 1, 2], &[3.0, 4.0]).f64("out.y", &[1, 1, 2], &[-4.0, 3.0]);
    let case = case.f32("in.k", &[1, 1, 2], &[5.0, 6.0]).f32("in.v", &[1, 1, 2], &[7.0, 8.0]);
    let case = case.f32("in.cos", &[1, 1], &[0.0]).f32("in.sin", &[1, 1], &[1.0]);
    let case = case.raw("in.positions", U32, &[1], vec![0; 4]).raw("in.slots", U32, &[1], vec![1, 0, 0, 0]);
    let rows = [("k_cache", [0.0, 0.0, -6.0, 5.0]), ("v_cache", [0.0, 0.0, 7.0, 8.0])];
    let case = rows.iter().fold(case, |case, (name, after)| {
        let case = case.f32(&format!("in.{name}"), &[2, 1, 2], &[0.0; 4]);
        case.f64(&format!("out.{name}"), &[2, 1, 2], after).meta(&format!("limit.{name}"), "exact")
    });
    case.meta("limit.y", "exact")
}
