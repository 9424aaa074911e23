//! Products of matrices.
use super::bind::Bound;
use super::{HipOp, Problem};
use crate::choice::Target;
use ops_core::ops::MatMul;
use ops_core::{Determinism, Float, MAX_RANK, Operands};
use ops_kernels::matmul::{self, Beside, Matmul, MatmulArgs};
use ops_kernels::{Device, ElementType, Instance, Launch, OperandView, Plan, Refused};

mod linear;

impl<T: Float> HipOp for MatMul<T> {
    /// Kernels are chosen by the number of rows, unless rows must not depend on each other.
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (a, b, c) = (p.at(0), p.at(1), p.at(2));
        let &[ref batch @ .., m, k] = a.dims() else { return Err(Refused::Rank(a.layout.rank())) };
        let n = c.dims().last().copied().unwrap_or(1);
        let call = Matmul { batch, m, n, k, a: a.view(), b: b.view(), c: c.view(), bias: None };
        plan.add(matmul::prepare(&call, p.device())?)
    }
}

/// Whether this is a kernel for few rows, in which each wave reads some columns of `b` once.
pub(crate) fn is_of_few_rows(kernel: &Instance) -> bool {
    kernel.variant.starts_with("rows")
}

/// The launch of a product with a float weight.
pub(crate) fn linear(p: &Problem<'_>) -> Result<(Launch, MatmulArgs), Refused> {
    let (x, weight, y) = (p.at(0), p.at(1), p.at(3));
    let bias = p.get(2).map(|bias| bias_of(x, bias)).transpose()?;
    of_weight((x, weight, y), |call| matmul::prepare(&Matmul { bias, ..*call }, p.device()))
}

/// A bias, if kernels add its type to products of `x`.
pub(super) fn bias_of<'a>(x: &Bound, bias: &'a Bound) -> Result<OperandView<'a>, Refused> {
    if bias.dtype != x.dtype && bias.dtype != ElementType::F32 {
        return Err(Refused::NoKernel { op: "linear".into(), types: vec![x.dtype, bias.dtype] });
    }
    Ok(bias.view())
}

/// The launch of a product with both weights of a gated unit.
fn linear_swiglu(
    [x, gate, up, y]: [&Bound; 4],
    beside: Beside<'_>,
    device: &Device,
) -> Result<(Launch, MatmulArgs), Refused> {
    if gate.view().strides != up.view().strides {
        let types = vec![x.dtype, gate.dtype, up.dtype];
        return Err(Refused::NoKernel { op: "linear_swiglu".into(), types });
    }
    of_weight((x, gate, y), |call| {
        let up = OperandView { strides: call.b.strides, ..up.view() };
        matmul::swiglu(call, up, beside, device)
    })
}

/// Calls `prepare` with the product of `x` and a float weight.
fn of_weight<R>(
    (x, weight, y): (&Bound, &Bound, &Bound),
    prepare: impl FnOnce(&Matmul<'_>) -> Result<R, Refused>,
) -> Result<R, Refused> {
    let (x, y) = x.folded_with(y);
    let &[ref batch @ .., m, k] = x.dims() else { return Err(Refused::Rank(x.layout.rank())) };
    let &[n, _] = weight.dims() else { return Err(Refused::Rank(weight.layout.rank())) };
    // The strides of `weight[n, k]` as `[.., k, n]`, the same for the whole batch.
    let mut strides = [0; MAX_RANK];
    let strides = strides.get_mut(..x.layout.rank()).ok_or(Refused::Rank(x.layout.rank()))?;
    strides[batch.len()..].copy_from_slice(weight.view().strides);
    strides[batch.len()..].reverse();
    let b = OperandView { strides, ..weight.view() };
    prepare(&Matmul { batch, m, n, k, a: x.view(), b, c: y.view(), bias: None })
}
