//! Ops on blocks: decoded exactly, then computed in double-double arithmetic.
use super::{Wants, Weight, dot, exactly, logical};
use crate::judge::Want;
use crate::{Array, CallError, Case};
use ops_core::ops::{Embedding, Linear};
use ops_core::{Op, Wide};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["quantize", "dequantize", "qlinear", "qembedding"];

pub(super) fn wants(case: &Case) -> Wants {
    match case.op.as_str() {
        "quantize" => {
            let x = logical(case, "x")?;
            Ok(vec![exactly("y", Array::quantized(case.dtype_of("y")?, x.slice()?)?)])
        }
        "dequantize" => Ok(vec![exactly("y", Array::from_slice(&values(&logical(case, "x")?)?)?)]),
        "qlinear" => {
            let (x, weight) = (logical(case, "x")?.to_f64()?, values(&logical(case, "weight")?)?);
            let k = case.expect("x")?.layout.last();
            let y: Vec<f64> = match k {
                0 => vec![0.0; case.expect("y")?.layout.len()],
                k => {
                    let product = |row: &[f64], w: &[f64]| {
                        dot(case.dtype, row.iter().copied().zip(w.iter().copied())).nearest()
                    };
                    x.chunks(k)
                        .flat_map(|row| weight.chunks(k).map(|w| product(row, w)).collect::<Vec<_>>())
                        .collect()
                }
            };
            let tolerance = Linear::<f64>::OP.tolerance("y", case.dtype, &Weight::of(case));
            Ok(vec![Want { name: "y".into(), values: Array::from_slice(&y)?, tolerance }])
        }
        _ => embedding(case),
    }
}

/// The values of blocks, as the public format defines them in f32.
fn values(blocks: &Array) -> Result<Vec<f64>, CallError> {
    Ok(blocks.dequantized()?.into_iter().map(f64::from).collect())
}

fn embedding(case: &Case) -> Wants {
    let (table, width) = (values(&logical(case, "table")?)?, case.expect("y")?.layout.last());
    let ids = logical(case, "ids")?;
    let rows = case.expect("table")?.layout.dims()[0];
    let mut y = Vec::new();
    for id in ids.to_wide()? {
        // In a case without an index error, an index out of range means "no element".
        let at = if let Wide::Int(id) = id { usize::try_from(id).ok().filter(|at| *at < rows) } else { None };
        match at {
            Some(at) => y.extend_from_slice(&table[at * width..][..width]),
            None => y.extend(vec![0.0; width]),
        }
    }
    let tolerance = Embedding::<f64>::OP.tolerance("y", case.dtype, &Weight::of(case));
    Ok(vec![Want { name: "y".into(), values: Array::from_slice(&y)?, tolerance }])
}
