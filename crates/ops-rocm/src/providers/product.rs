//! matmul and linear as products of column-major matrices, for linear algebra libraries.
mod plan;

pub(super) use plan::{Matrix, Plan};

use super::hip::bind::{Bound, Problem};
use super::hip::{HipOp, matmul};
use crate::error::NAME;
use crate::{Error, Result, Rocm};
use ops_core::ops::MatMul;
use ops_core::{DType, Float, Operands, Reason};
use ops_kernels::{Launch, copy};

/// The plan of a matmul.
pub(super) fn matmul_plan(p: &Problem<'_>) -> Result<Plan, Reason> {
    let layouts = [&p.at(0).layout, &p.at(1).layout, &p.at(2).layout];
    some_products(plan::Operands { layouts, names: ["a", "b", "c"] }.plan()?)
}

/// A linear layer as a product: input and output are row-major, the weight is transposed and shared by the
/// batch.
pub(super) struct LinearPlan {
    pub(super) x: Bound,
    pub(super) weight: Bound,
    pub(super) y: Bound,
    pub(super) plan: Plan,
}

/// The plan of a linear layer, without its bias.
pub(super) fn linear_plan(p: &Problem<'_>) -> Result<LinearPlan, Reason> {
    let (x, y) = p.at(0).folded_with(p.at(3));
    let batch = x.layout.dims().len().saturating_sub(2);
    let shared = |weight: &Bound| {
        let matrix = weight.layout.transpose(0, 1)?;
        let dims = [&x.layout.dims()[..batch], matrix.dims()].concat();
        matrix.broadcast(&dims)
    };
    let weight = shared(p.at(1)).map_err(|error| Reason::Because(error.to_string()))?;
    let weight = p.at(1).relaid(&weight);
    let plan = replan(&x, &weight, &y)?;
    Ok(LinearPlan { x, weight, y, plan })
}

/// The plan of a linear layer with another output.
pub(super) fn replan(x: &Bound, weight: &Bound, y: &Bound) -> Result<Plan, Reason> {
    let layouts = [&x.layout, &weight.layout, &y.layout];
    some_products(plan::Operands { layouts, names: ["x", "weight", "y"] }.plan()?)
}

/// A sum of no products is 0; no library is called for it.
fn some_products(plan: Plan) -> Result<Plan, Reason> {
    if plan.k == 0 { Err(Reason::Because("there is nothing to sum".to_string())) } else { Ok(plan) }
}

/// Checks that a linear layer's weight has the type of its input, and its bias that type or f32.
pub(super) fn linear_types<T: Float>(on: &dyn Operands) -> Result<(), Reason> {
    if let Some(weight) = on.get("weight").filter(|weight| weight.dtype != T::DTYPE) {
        return Err(Reason::DType { operand: "weight", dtype: weight.dtype });
    }
    let added = |dtype| dtype == T::DTYPE || (dtype == DType::F32 && T::DTYPE != DType::F64);
    match on.get("bias").filter(|bias| !added(bias.dtype)) {
        Some(bias) => Err(Reason::DType { operand: "bias", dtype: bias.dtype }),
        None => Ok(()),
    }
}

/// Why this project's kernels should compute a matmul of few rows; `None` if it has many.
pub(super) fn few_rows_of_matmul<T: Float>(op: &MatMul<T>, p: &Problem<'_>) -> Option<String> {
    let mut own = ops_kernels::Plan::default();
    op.plan(p, &mut own).ok()?;
    few_rows(&matmul_plan(p).ok()?, own.main()?, p)
}

/// Why this project's kernels should compute a linear layer of few rows; `None` if it has many.
pub(super) fn few_rows_of_linear(p: &Problem<'_>) -> Option<String> {
    few_rows(&linear_plan(p).ok()?.plan, &matmul::linear(p).ok()?.0, p)
}

/// With few rows, the time is that of reading the weight once. `own` does that, while libraries compute tiles
/// of many rows.
fn few_rows(plan: &Plan, own: &Launch, p: &Problem<'_>) -> Option<String> {
    let most = p.device().tuning.product_rows();
    let few = plan.rows as u64 <= most && matmul::is_of_few_rows(own.instance);
    few.then(|| format!("hip is expected to be faster up to {most} rows (product_rows)"))
}

pub(super) fn unsupported(op: &'static str, reason: Reason) -> Error {
    Error::Unsupported { op, backend: NAME, reason }
}

/// Enqueues a copy of the bias to every row.
///
/// # Safety
/// The stream may access both.
pub(super) unsafe fn spread(rocm: &Rocm, bias: &Bound, y: &Bound) -> Result<()> {
    let rows = bias.layout.broadcast(y.layout.dims())?;
    let step = copy::copy(y.dims(), bias.relaid(&rows).view(), y.view(), rocm.target().launch_device());
    // SAFETY: guaranteed by the caller.
    unsafe { rocm.kernels().run_one(rocm.stream(), "linear", step) }
}
