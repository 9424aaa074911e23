//! Wrong powers, and wrong functions with parameters.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{DType, bf16, f16};

const F32: DType = DType::F32;

/// A wrong function instead of the parametric one that `f` expects.
fn wrong(name: &'static str, op: &'static str, f: fn(f64, ParametricFn) -> f64) -> Mutant {
    Mutant::instead::<Parametric<f32>>(name, op, F32, move |op, o| {
        let function = op.function();
        let x = values(&o["x"]);
        set(&mut o["y"], x.into_iter().map(|x| f(x, function)).collect::<Vec<_>>());
    })
}

fn exponent(f: ParametricFn) -> f64 {
    if let ParametricFn::Powf { exponent } = f { exponent } else { f64::NAN }
}

fn bounds(f: ParametricFn) -> (f64, f64) {
    if let ParametricFn::Clamp { min, max } = f { (min.to_f64(), max.to_f64()) } else { (f64::NAN, f64::NAN) }
}

fn alpha(f: ParametricFn) -> f64 {
    if let ParametricFn::Elu { alpha } = f { alpha } else { f64::NAN }
}

pub(super) fn mutants() -> Vec<Mutant> {
    let binary = |name, f: fn(f64, f64) -> f64| {
        Mutant::instead::<Binary<f32>>(name, "pow", F32, move |_, o| {
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            set(&mut o["y"], a.iter().zip(b).map(|(a, b)| f(*a, b)).collect::<Vec<_>>());
        })
    };
    vec![
        binary("of the magnitude", |a, b| a.abs().powf(b)),
        binary("by exp and log alone", |a, b| (b * a.ln()).exp()),
        binary("NaN to the power of 0 is NaN", |a, b| if a.is_nan() { a } else { a.powf(b) }),
        binary("1 to the power of NaN is NaN", |a, b| if b.is_nan() { b } else { a.powf(b) }),
        binary("base and exponent exchanged", |a, b| b.powf(a)),
        wrong("logarithm in f32", "powf", |x, f| {
            let (t, y) = (single(single(x.abs().log2()) * exponent(f)), x.powf(exponent(f)));
            if y.is_finite() && y != 0.0 { t.exp2().copysign(y) } else { y }
        }),
        wrong("exponent rounded to an integer", "powf", |x, f| x.powf(exponent(f).round())),
        wrong("sign of an odd power lost at −0 and −∞", "powf", |x, f| {
            let y = x.powf(exponent(f));
            if x == 0.0 || x.is_infinite() { y.abs() } else { y }
        }),
        wrong("subnormal results flushed", "powf", |x, f| {
            let y = x.powf(exponent(f));
            if y.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { y }
        }),
        wrong("−1 to the power of ∞ is NaN", "powf", |x, f| {
            if x == -1.0 && exponent(f).is_infinite() { f64::NAN } else { x.powf(exponent(f)) }
        }),
        wrong("NaN becomes a bound", "clamp", |x, f| x.max(bounds(f).0).min(bounds(f).1)),
        wrong("the lower bound wins", "clamp", |x, f| {
            let (min, max) = bounds(f);
            <f64 as rocm_ops::Num>::maximum(<f64 as rocm_ops::Num>::minimum(x, max), min)
        }),
        wrong("bounds exchanged", "clamp", |x, f| {
            let (min, max) = bounds(f);
            <f64 as rocm_ops::Num>::minimum(<f64 as rocm_ops::Num>::maximum(x, max), min)
        }),
        Mutant::instead::<Parametric<i64>>("compared as f64", "clamp", DType::I64, |op, o| {
            let (x, (min, max)) = (values(&o["x"]), bounds(op.function()));
            set(&mut o["y"], x.into_iter().map(|x| x.max(min).min(max)).collect::<Vec<_>>());
        }),
        Mutant::after::<Parametric<u8>>("the upper bound excluded", "clamp", DType::U8, |op, o| {
            let most = bounds(op.function()).1 as u8;
            edit::<u8>(&mut o["y"], |_, v| if v == most { v.saturating_sub(1) } else { v });
        }),
        wrong("alpha left out", "elu", |x, f| if x > 0.0 { x } else { x.exp_m1() * alpha(f).signum() }),
        wrong("alpha inside the exponential", "elu", |x, f| {
            if x > 0.0 { x } else { alpha(f) * (x / alpha(f)).exp_m1() }
        }),
        wrong("the difference cancels near 0", "elu", |x, f| {
            if x > 0.0 { x } else { alpha(f) * single(single(x.exp()) - 1.0) }
        }),
        wrong("NaN becomes −alpha", "elu", |x, f| if x > 0.0 { x } else { alpha(f) * x.max(-80.0).exp_m1() }),
        Mutant::instead::<Parametric<f16>>("exponential rounded to f16", "elu", DType::F16, |op, o| {
            let (x, alpha) = (values(&o["x"]), alpha(op.function()));
            let y = x.into_iter().map(|x| if x > 0.0 { x } else { alpha * (half(x.exp()) - 1.0) });
            set(&mut o["y"], y.collect::<Vec<_>>());
        }),
        Mutant::instead::<Parametric<bf16>>("logarithm rounded to bf16", "powf", DType::BF16, |op, o| {
            let (x, exponent) = (values(&o["x"]), exponent(op.function()));
            let y = x
                .into_iter()
                .map(|x| if x > 0.0 { (exponent * brain(x.ln())).exp() } else { x.powf(exponent) });
            set(&mut o["y"], y.collect::<Vec<_>>());
        }),
        Mutant::instead::<Binary<i32>>("saturated", "pow", DType::I32, |_, o| {
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            set(&mut o["y"], a.iter().zip(b).map(|(a, b)| a.powf(b).trunc()).collect::<Vec<_>>());
        }),
    ]
}
