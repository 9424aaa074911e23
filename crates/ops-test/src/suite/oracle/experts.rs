//! Products of tokens with the weights of their experts.
use super::double::Double;
use super::{Wants, Weight, dot, logical, optional, values};
use crate::judge::Want;
use crate::{Array, CallError, Case};
use ops_core::ops::{LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu};
use ops_core::{DType, Op, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] =
    &["linear_experts", "qlinear_experts", "linear_experts_swiglu", "linear_experts_combine"];

pub(super) fn wants(case: &Case) -> Wants {
    let (y, tolerance) = match case.op.as_str() {
        "linear_experts_swiglu" => {
            let op = LinearExpertsSwiglu::<f64>::plain();
            (gated(case)?, op.tolerance("y", case.dtype, &Weight::named(case, "gate")))
        }
        "linear_experts_combine" => {
            let op = LinearExpertsCombine::<f64>::OP;
            (combined(case)?, op.tolerance("y", case.dtype, &Weight::of(case)))
        }
        _ => {
            let op = LinearExperts::<f64>::OP;
            let y = products(case, "weight", "bias")?.into_iter().flatten();
            (y.collect(), op.tolerance("y", case.dtype, &Weight::of(case)))
        }
    };
    let y: Vec<f64> = y.iter().map(|v: &Double| v.nearest()).collect();
    Ok(vec![Want { name: "y".into(), values: Array::from_slice(&y)?, tolerance }])
}

/// For each choice, the products of its row with the matrix of its expert; zeros without an expert.
fn products(case: &Case, weight: &str, bias: &str) -> Result<Vec<Vec<Double>>, CallError> {
    let (x, bias) = (values(case, "x")?, optional(case, bias)?);
    let &[e, o, _] = case.expect(weight)?.layout.dims() else { unreachable!("a matrix for each expert") };
    let weight = logical(case, weight)?;
    let weight: Vec<f64> = match weight.dtype() {
        DType::Block(_) => weight.dequantized()?.into_iter().map(f64::from).collect(),
        _ => weight.to_f64()?,
    };
    let (&[_, m, d], &[_, k]) = (x.dims.as_slice(), case.expect("ids")?.layout.dims()) else {
        unreachable!("rows of choices of tokens")
    };
    let mut all = Vec::new();
    for (at, id) in logical(case, "ids")?.to_wide()?.into_iter().enumerate() {
        // In a case without an index error, an index out of range means "no expert".
        let expert =
            if let Wide::Int(id) = id { usize::try_from(id).ok().filter(|id| *id < e) } else { None };
        let Some(expert) = expert else {
            all.push(vec![Double::ZERO; o]);
            continue;
        };
        let row = &x.of[(at / k * m + (at % k).min(m - 1)) * d..][..d];
        let of_output = |out: usize| {
            let product = dot(case.dtype, row.iter().zip(&weight[out * d..][..d]).map(|(x, w)| (*x, *w)));
            product + Double::of(bias.as_ref().map_or(0.0, |b| b.of[out]))
        };
        all.push((expert * o..(expert + 1) * o).map(of_output).collect());
    }
    Ok(all)
}

fn gated(case: &Case) -> Result<Vec<Double>, CallError> {
    let sigmoid = |v: Double| Double::ONE / (Double::ONE + (-v).exp());
    let limit = case.params.number("limit")?;
    let gates = products(case, "gate", "gate_bias")?.into_iter().flatten();
    let ups = products(case, "up", "up_bias")?.into_iter().flatten();
    let Some(limit) = limit else {
        return Ok(gates.zip(ups).map(|(g, u)| g * sigmoid(g) * u).collect());
    };
    let alpha = Double::of(case.params.f64("alpha")?);
    let within = |v: Double, least: f64| Double::of(v.nearest().clamp(least, limit));
    let clamped = |(g, u): (Double, Double)| {
        let (g, u) = (within(g, f64::NEG_INFINITY), within(u, -limit));
        g * sigmoid(alpha * g) * (u + Double::ONE)
    };
    Ok(gates.zip(ups).map(clamped).collect())
}

fn combined(case: &Case) -> Result<Vec<Double>, CallError> {
    let (weights, o) = (values(case, "weights")?, case.expect("y")?.layout.last());
    let &[n, k] = weights.dims.as_slice() else { unreachable!("a weight for each choice") };
    let mut sums = vec![Double::ZERO; n * o];
    for (at, products) in products(case, "weight", "bias")?.into_iter().enumerate() {
        for (sum, product) in sums[at / k * o..][..o].iter_mut().zip(products) {
            *sum = *sum + Double::of(weights.of[at]) * product;
        }
    }
    Ok(sums)
}
