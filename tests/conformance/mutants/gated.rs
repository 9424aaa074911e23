//! Wrong gated activations and norms.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{DType, Host, f16};

const F32: DType = DType::F32;

fn sigmoid(v: f64) -> f64 {
    1.0 / (1.0 + (-v).exp())
}

/// An L2 norm of rows with a given denominator.
fn l2(o: &mut NamedTensors<Host>, denominator: impl Fn(&[f64]) -> f64) {
    let (x, n) = (values(&o["x"]), last(&o["x"]));
    let y: Vec<f64> =
        x.chunks(n).flat_map(|row| row.iter().map(|v| v / denominator(row)).collect::<Vec<_>>()).collect();
    set(&mut o["y"], y);
}

/// A gated norm: `f` of the normalised value, the weight and the gate.
fn gated(o: &mut NamedTensors<Host>, eps: f64, f: fn(f64, f64, f64) -> f64) {
    let (x, gate, weight, n) = (values(&o["x"]), values(&o["gate"]), values(&o["weight"]), last(&o["x"]));
    let mut y = Vec::new();
    for (row, gates) in x.chunks(n).zip(gate.chunks(n)) {
        let root = (row.iter().map(|v| v * v).sum::<f64>() / n as f64 + eps).sqrt();
        y.extend(row.iter().zip(gates).zip(&weight).map(|((v, g), w)| f(v / root, *w, *g)));
    }
    set(&mut o["y"], y);
}

/// A clamped activation: `f` of gate, up, alpha and limit.
fn clamped(op: &SwigluClamped<f32>, o: &mut NamedTensors<Host>, f: fn(f64, f64, f64, f64) -> f64) {
    let y = values(&o["gate"]).into_iter().zip(values(&o["up"])).map(|(g, u)| f(g, u, op.alpha, op.limit));
    let y: Vec<f64> = y.collect();
    set(&mut o["y"], y);
}

/// The larger or smaller bound, or the value; NaN stays.
fn bound(v: f64, low: f64, high: f64) -> f64 {
    if v.is_nan() { v } else { v.max(low).min(high) }
}

pub(super) fn mutants() -> Vec<Mutant> {
    let squares = |row: &[f64]| row.iter().map(|v| v * v).sum::<f64>();
    let norm = |name, f: fn(f64, f64, f64) -> f64| {
        Mutant::instead::<GatedRmsNorm<f32>>(name, "gated_rms_norm", F32, move |op, o| gated(o, op.eps, f))
    };
    let swiglu = |name, f: fn(f64, f64, f64, f64) -> f64| {
        Mutant::instead::<SwigluClamped<f32>>(name, "swiglu_clamped", F32, move |op, o| clamped(op, o, f))
    };
    vec![
        Mutant::before::<L2Norm<f32>>("eps ignored", "l2_norm", F32, |op, _| op.eps = 0.0),
        Mutant::instead::<L2Norm<f32>>("mean in place of the sum", "l2_norm", F32, move |op, o| {
            l2(o, |row| (squares(row) / row.len() as f64 + op.eps).sqrt());
        }),
        Mutant::instead::<L2Norm<f32>>("eps added to the root", "l2_norm", F32, move |op, o| {
            l2(o, |row| squares(row).sqrt() + op.eps);
        }),
        Mutant::instead::<L2Norm<f16>>("squares summed in f16", "l2_norm", DType::F16, |op, o| {
            l2(o, |row| half(sum_rounded(row.iter().map(|v| half(v * v)), half) + op.eps).sqrt());
        }),
        Mutant::after::<L2Norm<f32>>("last element of odd rows missed", "l2_norm", F32, |_, o| {
            let n = last(&o["y"]);
            edit::<f32>(&mut o["y"], |i, v| if !n.is_multiple_of(4) && i % n == n - 1 { 0.0 } else { v });
        }),
        Mutant::before::<GatedRmsNorm<f32>>("eps ignored", "gated_rms_norm", F32, |op, _| op.eps = 0.0),
        Mutant::before::<GatedRmsNorm<f32>>("weight ignored", "gated_rms_norm", F32, |_, o| {
            edit_floats(&mut o["weight"], |_| 1.0);
        }),
        norm("gate ignored", |v, w, _| v * w),
        norm("sigmoid of the gate, not silu", |v, w, g| v * w * sigmoid(g)),
        norm("silu of the norm, times the gate", |v, w, g| v * w * sigmoid(v * w) * g),
        Mutant::instead::<GatedRmsNorm<f16>>(
            "norm rounded to f16 before the gate",
            "gated_rms_norm",
            DType::F16,
            |op, o| {
                gated(o, op.eps, |v, w, g| half(v * w) * g * sigmoid(g));
            },
        ),
        Mutant::instead::<GatedRmsNorm<f16>>(
            "gate's silu rounded to f16",
            "gated_rms_norm",
            DType::F16,
            |op, o| {
                gated(o, op.eps, |v, w, g| v * w * half(g * sigmoid(g)));
            },
        ),
        Mutant::before::<SwigluClamped<f32>>("alpha ignored", "swiglu_clamped", F32, |op, _| op.alpha = 1.0),
        swiglu("gate without a bound", |g, u, alpha, limit| {
            g * sigmoid(alpha * g) * (bound(u, -limit, limit) + 1.0)
        }),
        swiglu("gate bounded below too", |g, u, alpha, limit| {
            let g = bound(g, -limit, limit);
            g * sigmoid(alpha * g) * (bound(u, -limit, limit) + 1.0)
        }),
        swiglu("up bounded above only", |g, u, alpha, limit| {
            let g = bound(g, f64::NEG_INFINITY, limit);
            g * sigmoid(alpha * g) * (bound(u, f64::NEG_INFINITY, limit) + 1.0)
        }),
        swiglu("one not added", |g, u, alpha, limit| {
            let g = bound(g, f64::NEG_INFINITY, limit);
            g * sigmoid(alpha * g) * bound(u, -limit, limit)
        }),
        swiglu("NaN bounded", |g, u, alpha, limit| {
            let (g, u) = (g.min(limit), u.max(-limit).min(limit));
            g * sigmoid(alpha * g) * (u + 1.0)
        }),
    ]
}
