//! Products of tokens with the weights of their experts.
use super::double::Double;
use super::{Wants, Weight, dot, logical, optional, values};
use crate::judge::Want;
use crate::{Array, Case};
use ops_core::ops::LinearExperts;
use ops_core::{Op, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["linear_experts", "qlinear_experts"];

pub(super) fn wants(case: &Case) -> Wants {
    let (x, bias) = (values(case, "x")?, optional(case, "bias")?);
    let weight = logical(case, "weight")?;
    let weight: Vec<f64> = match case.op.as_str() {
        "qlinear_experts" => weight.dequantized()?.into_iter().map(f64::from).collect(),
        _ => weight.to_f64()?,
    };
    let &[e, o, _] = case.expect("weight")?.layout.dims() else { unreachable!("a matrix for each expert") };
    let (&[_, m, d], &[_, k]) = (x.dims.as_slice(), case.expect("ids")?.layout.dims()) else {
        unreachable!("rows of choices of tokens")
    };
    let mut y = Vec::new();
    for (at, id) in logical(case, "ids")?.to_wide()?.into_iter().enumerate() {
        // In a case without an index error, an index out of range means "no expert".
        let expert =
            if let Wide::Int(id) = id { usize::try_from(id).ok().filter(|id| *id < e) } else { None };
        let Some(expert) = expert else {
            y.extend(vec![Double::ZERO; o]);
            continue;
        };
        let row = &x.of[(at / k * m + (at % k).min(m - 1)) * d..][..d];
        for out in expert * o..(expert + 1) * o {
            let product = dot(case.dtype, row.iter().zip(&weight[out * d..][..d]).map(|(x, w)| (*x, *w)));
            y.push(product + Double::of(bias.as_ref().map_or(0.0, |b| b.of[out])));
        }
    }
    let tolerance = LinearExperts::<f64>::OP.tolerance("y", case.dtype, &Weight::of(case));
    let y: Vec<f64> = y.iter().map(|v| v.nearest()).collect();
    Ok(vec![Want { name: "y".into(), values: Array::from_slice(&y)?, tolerance }])
}
