//! Products fused with the step that follows them.
use super::double::Double;
use super::{Wants, dot, values};
use crate::judge::Want;
use crate::{Array, CallError, Case};
use core::iter::zip;
use ops_core::ops::LinearSwiglu;
use ops_core::{DType, Layout, Op, Operand, Operands, Role};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["linear_swiglu"];

pub(super) fn wants(case: &Case) -> Wants {
    let x = values(case, "x")?;
    let k = x.dims.last().copied().unwrap_or(0);
    let [gate, up] = [products(case, &x.of, k, "gate")?, products(case, &x.of, k, "up")?];
    let silu = |v: Double| v / (Double::ONE + (-v).exp());
    let y: Vec<f64> = zip(gate, up).map(|(gate, up)| (silu(gate) * up).nearest()).collect();
    let tolerance = LinearSwiglu::<f64>::OP.tolerance("y", case.dtype_of("y")?, &Weights::of(case)?);
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

/// Both weights, because the tolerance depends on them.
struct Weights([(&'static str, DType, Layout); 2]);
impl Weights {
    fn of(case: &Case) -> Result<Self, CallError> {
        let of = |name| case.expect(name).map(|weight| (name, weight.array.dtype(), weight.layout));
        Ok(Weights([of("gate")?, of("up")?]))
    }
}
impl Operands for Weights {
    fn count(&self) -> usize {
        2
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        let (name, dtype, layout) = self.0.get(index)?;
        Some(Operand { name, role: Role::In, dtype: *dtype, layout, packing: None })
    }
}
