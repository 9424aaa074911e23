//! Wrong kernels in f64.
//!
//! Each represents a bug of the reference itself: the suite's oracle shares no code with it and computes with
//! more precision than f64.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::DType;
use rocm_ops::ops::*;

const F64: DType = DType::F64;

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::instead::<RmsNorm<f64>>("mean square in f32", "rms_norm", F64, |op, o| {
            let (x, w) = (values(&o["x"]), values(&o["weight"]));
            let y = x.chunks(w.len().max(1)).flat_map(|row| {
                let square = sum_rounded(row.iter().map(|v| v * v), single) / row.len() as f64;
                let root = (square + op.eps).sqrt();
                row.iter().zip(&w).map(|(v, w)| v / root * w).collect::<Vec<_>>()
            });
            set(&mut o["y"], y.collect::<Vec<_>>());
        }),
        Mutant::before::<LayerNorm<f64>>("eps added twice", "layer_norm", F64, |op, _| op.eps *= 2.0),
        Mutant::before::<GroupNorm<f64>>("x rounded to f32", "group_norm", F64, |_, o| {
            edit::<f64>(&mut o["x"], |_, v| single(v));
        }),
        Mutant::instead::<Softmax<f64>>("powers in f32", "softmax", F64, |op, o| {
            if op.axis != -1 {
                let right = rocm_ops::Reference::new().softmax(typed(&o["x"]), *op);
                let right = values(right.expect("a softmax"));
                return set(&mut o["y"], right);
            }
            let n = last(&o["x"]);
            let x = values(&o["x"]);
            let y = x.chunks(n).flat_map(|row| {
                let highest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = row.iter().map(|v| f64::from(((v - highest) as f32).exp())).collect();
                let sum: f64 = powers.iter().sum();
                powers.into_iter().map(move |p| p / sum).collect::<Vec<_>>()
            });
            let y: Vec<f64> = y.collect();
            set(&mut o["y"], y);
        }),
        Mutant::before::<Rope<f64>>("tables rounded to f32", "rope", F64, |_, o| {
            edit_floats(&mut o["cos"], single);
            edit_floats(&mut o["sin"], single);
        }),
        Mutant::instead::<Unary<f64>>("factor of the cube cut to three digits", "gelu", F64, |_, o| {
            let gelu = |x: f64| {
                let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.0447 * x * x * x);
                0.5 * x * (1.0 + u.tanh())
            };
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(gelu));
        }),
        Mutant::instead::<Glu<f64>>("f64 through f32", "swiglu", F64, |_, o| {
            let gated = |g: f64| single(g / (1.0 + (-g).exp()));
            let (gate, up) = (values(&o["gate"]), values(&o["up"]));
            set(&mut o["y"], gate.iter().zip(up).map(|(g, u)| gated(*g) * u).collect::<Vec<_>>());
        }),
        Mutant::instead::<Affine<f64>>("factors in f32", "affine", F64, |op, o| {
            let (mul, add, x) = (single(op.mul), single(op.add), values(&o["x"]));
            set(&mut o["y"], x.into_iter().map(|v| v * mul + add).collect::<Vec<_>>());
        }),
        Mutant::before::<Linear<f64>>("bias rounded to f32", "linear", F64, |_, o| {
            if let Some(bias) = o.get_mut("bias") {
                edit_floats(bias, single);
            }
        }),
    ]
}
