//! Products fused with the step that follows them.
use super::double::Double;
use super::norm::rms_norm;
use super::{Wants, dot, optional, values};
use crate::judge::Want;
use crate::{Array, CallError, Case};
use core::iter::zip;
use ops_core::ops::{LinearAdd, LinearSwiglu, RmsNormLinear, RmsNormLinearSwiglu};
use ops_core::{DType, Layout, Op, Operand, Operands, Role};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["linear_swiglu", "linear_add", "rms_norm_linear", "rms_norm_linear_swiglu"];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    let k = x.dims.last().copied().unwrap_or(0);
    let is_normed = case.op.starts_with("rms_norm");
    let eps = if is_normed { case.params.f64("eps")? } else { 0.0 };
    let rows = match is_normed {
        true => rms_norm(&x.of, &values(case, "norm")?.of, eps).iter().map(|v| v.nearest()).collect(),
        false => x.of,
    };
    let (weights, dtype) = (Weights::of(case)?, case.dtype_of("y")?);
    let silu = |v: Double| v / (Double::ONE + (-v).exp());
    let gated = || -> Result<Vec<Double>, CallError> {
        let [gate, up] = [products(case, &rows, k, "gate")?, products(case, &rows, k, "up")?];
        Ok(zip(gate, up).map(|(gate, up)| silu(gate) * up).collect())
    };
    let plus = |added: Option<Vec<f64>>| -> Result<Vec<Double>, CallError> {
        let y = products(case, &rows, k, "weight")?;
        let Some(added) = added else { return Ok(y) };
        let added = added.into_iter().cycle();
        Ok(zip(y, added).map(|(y, a)| y + Double::of(a)).collect())
    };
    let (y, tolerance) = match case.op.as_str() {
        "linear_add" => {
            (plus(Some(values(case, "residual")?.of))?, LinearAdd::<f64>::OP.tolerance("y", dtype, &weights))
        }
        "rms_norm_linear" => {
            let op = RmsNormLinear::<f64>::eps(eps);
            (plus(optional(case, "bias")?.map(|bias| bias.of))?, op.tolerance("y", dtype, &weights))
        }
        "rms_norm_linear_swiglu" => {
            (gated()?, RmsNormLinearSwiglu::<f64>::eps(eps).tolerance("y", dtype, &weights))
        }
        _ => (gated()?, LinearSwiglu::<f64>::OP.tolerance("y", dtype, &weights)),
    };
    let y: Vec<f64> = y.into_iter().map(Double::nearest).collect();
    Ok(vec![Want { name: "y".into(), values: Array::from_slice(&y)?, tolerance }])
}

fn products(case: &Case, x: &[f64], k: usize, weight: &str) -> Result<Vec<Double>, CallError> {
    let n = case.expect(weight)?.layout.dims()[0];
    let rows = case.expect("y")?.layout.len().checked_div(n).unwrap_or(0);
    let weight = super::logical(case, weight)?;
    let weight: Vec<f64> = match weight.dtype() {
        DType::Block(_) => weight.dequantized()?.into_iter().map(f64::from).collect(),
        _ => weight.to_f64()?,
    };
    let row = |i: usize, of: &[f64]| of[i * k..][..k].to_vec();
    let pairs = (0..rows).flat_map(|i| (0..n).map(move |j| (i, j)));
    Ok(pairs.map(|(i, j)| dot(case.dtype, zip(row(i, x), row(j, &weight)))).collect())
}

/// All weights, because the tolerance depends on them.
struct Weights(Vec<(&'static str, DType, Layout)>);
impl Weights {
    fn of(case: &Case) -> Result<Self, CallError> {
        let names: &[&str] = if case.op.ends_with("swiglu") { &["gate", "up"] } else { &["weight"] };
        let of = |name| case.expect(name).map(|weight| (name, weight.array.dtype(), weight.layout));
        Ok(Weights(names.iter().copied().map(of).collect::<Result<_, _>>()?))
    }
}
impl Operands for Weights {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        let (name, dtype, layout) = self.0.get(index)?;
        Some(Operand { name, role: Role::In, dtype: *dtype, layout, packing: None })
    }
}
