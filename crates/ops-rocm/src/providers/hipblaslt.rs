//! hipBLASLt: matrix products, with the bias of a linear layer added by the kernel.
use super::product::{
    LinearPlan, Matrix, Plan, few_rows_of_linear, few_rows_of_matmul, linear_plan, linear_types, matmul_plan,
    spread, unsupported,
};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::providers::hip::bind::{Binding, Bound, Problem};
use crate::vendor::{Factor, HipBlasLtLibrary, Product, Types};
use crate::{HipSpace, Result, Rocm};
use hipblaslt_sys::{self as sys, hipDataType};
use ops_core::ops::{Linear, MatMul};
use ops_core::{Call, DType, Determinism, Float, Op, Operands, Reason};
use ops_kernels::ElementType;
use std::ffi::c_void;
use std::ptr::null_mut;

/// Products by hipBLASLt: f16, bf16 and f32, with f32 sums.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipBlasLt;

/// Targets that hipBLASLt is tuned for, by name prefix. PyTorch prefers it on these, too.
const TUNED: [&str; 5] = ["gfx942", "gfx950", "gfx110", "gfx115", "gfx12"];

fn datatype(dtype: ElementType) -> Option<hipDataType> {
    match dtype {
        ElementType::F16 => Some(sys::HIP_R_16F),
        ElementType::Bf16 => Some(sys::HIP_R_16BF),
        ElementType::F32 => Some(sys::HIP_R_32F),
        _ => None,
    }
}

/// Checks that products can be computed in this type.
fn computes_in<T: Float>(operand: &'static str) -> Result<(), Reason> {
    let known = [DType::F16, DType::BF16, DType::F32].contains(&T::DTYPE);
    if known { Ok(()) } else { Err(Reason::DType { operand, dtype: T::DTYPE }) }
}

/// Why rocBLAS is asked first; `None` if hipBLASLt is.
fn not_tuned_for(target: &Target) -> Option<String> {
    let gfx = target.gfx().name();
    let tuned = TUNED.iter().any(|family| gfx.starts_with(family));
    (!tuned).then(|| format!("rocblas is preferred on {gfx}"))
}

impl<T: Float> Provider<MatMul<T>> for HipBlasLt {
    fn id(&self) -> ProviderId {
        ProviderId::HIPBLASLT
    }

    fn determinism(&self, _: &Target, _: &MatMul<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &MatMul<T>, on: &dyn Operands) -> Result<(), Reason> {
        computes_in::<T>("a")?;
        matmul_plan(&Binding::new().assumed(on, target.launch_device())?)?;
        target.require::<HipBlasLtLibrary>(op.name(), on)
    }

    fn defer(&self, target: &Target, op: &MatMul<T>, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        few_rows_of_matmul(op, &problem).or_else(|| not_tuned_for(target))
    }

    fn probe(&self, rocm: &Rocm, _: &MatMul<T>, on: &dyn Operands) -> Result<Option<String>, Reason> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, rocm.target().launch_device())?;
        has_kernel(rocm, &product(&matmul_plan(&problem)?, problem.at(0).dtype, End::Plain)?)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, MatMul<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<MatMul<T>>(args, rocm)?;
        let plan = matmul_plan(&problem).map_err(|reason| unsupported(op.name(), reason))?;
        let operands = [problem.at(0), problem.at(1), problem.at(2)];
        // SAFETY: a call's views lie in their memory, which the stream may access; the plan is made for them.
        unsafe { multiply(rocm, op.name(), &plan, operands, End::Plain) }
    }
}

impl<T: Float> Provider<Linear<T>> for HipBlasLt {
    fn id(&self) -> ProviderId {
        ProviderId::HIPBLASLT
    }

    fn determinism(&self, _: &Target, _: &Linear<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Linear<T>, on: &dyn Operands) -> Result<(), Reason> {
        computes_in::<T>("x")?;
        linear_types::<T>(on)?;
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device())?;
        End::of(&problem, &linear_plan(&problem)?.plan)?;
        target.require::<HipBlasLtLibrary>(op.name(), on)
    }

    fn defer(&self, target: &Target, _: &Linear<T>, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        few_rows_of_linear(&problem).or_else(|| not_tuned_for(target))
    }

    fn probe(&self, rocm: &Rocm, _: &Linear<T>, on: &dyn Operands) -> Result<Option<String>, Reason> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, rocm.target().launch_device())?;
        let plan = linear_plan(&problem)?.plan;
        has_kernel(rocm, &product(&plan, problem.at(0).dtype, End::of(&problem, &plan)?)?)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Linear<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Linear<T>>(args, rocm)?;
        let planned = linear_plan(&problem).and_then(|linear| Ok((End::of(&problem, &linear.plan)?, linear)));
        let (end, LinearPlan { x, weight, y, plan }) =
            planned.map_err(|reason| unsupported(op.name(), reason))?;
        // SAFETY: a call's views lie in their memory, which the stream may access; the plan is made for them.
        unsafe { multiply(rocm, op.name(), &plan, [&x, &weight, &y], end) }
    }
}

/// The step after a product.
#[derive(Clone, Copy, Debug)]
enum End<'b> {
    Plain,
    /// The kernel adds an element of the bias to each row of its column-major result.
    Bias(&'b Bound),
    /// The bias is first copied to every row of the output, and the kernel adds the product to that.
    Added {
        bias: &'b Bound,
        y: &'b Bound,
    },
}

impl<'b> End<'b> {
    /// How a linear layer's bias is added.
    ///
    /// # Errors
    /// Only the kernel can add a bias that is wider than the output.
    fn of(problem: &'b Problem<'_>, plan: &Plan) -> std::result::Result<Self, Reason> {
        let Some(bias) = problem.get(2) else { return Ok(End::Plain) };
        // The output is row-major if the weight is the left factor.
        let along_rows = plan.left.operand == 1;
        let dense = bias.layout.len() <= 1 || bias.layout.strides() == [1];
        match along_rows && dense {
            true => Ok(End::Bias(bias)),
            false if bias.dtype == problem.at(3).dtype => Ok(End::Added { bias, y: problem.at(3) }),
            false => Err(Reason::Because(
                "its kernels can add an f32 bias only to a row-major output, and need a contiguous bias"
                    .to_owned(),
            )),
        }
    }
}

/// A planned product as hipBLASLt describes it.
fn product(plan: &Plan, dtype: ElementType, end: End<'_>) -> std::result::Result<Product, Reason> {
    let known = |dtype: ElementType| {
        datatype(dtype).ok_or_else(|| Reason::Because(format!("hipBLASLt has no {dtype} here")))
    };
    let factor =
        |matrix: Matrix| Factor { transposed: matrix.transposed, ld: matrix.ld, stride: matrix.stride };
    let bias = match end {
        End::Bias(bias) => Some(known(bias.dtype)?),
        End::Plain | End::Added { .. } => None,
    };
    Ok(Product {
        m: plan.m,
        n: plan.n,
        k: plan.k,
        batch: plan.batch,
        a: factor(plan.left),
        b: factor(plan.right),
        d: factor(plan.out),
        types: Types { matrices: known(dtype)?, bias },
        adds: matches!(end, End::Added { .. }),
    })
}

fn is_empty(product: &Product) -> bool {
    product.m == 0 || product.n == 0 || product.batch == 0
}

/// Asks the library for a kernel.
fn has_kernel(rocm: &Rocm, product: &Product) -> std::result::Result<Option<String>, Reason> {
    if is_empty(product) {
        return Ok(None);
    }
    match rocm.with_library::<HipBlasLtLibrary, _>(|lib, handle| handle.workspace(lib, product)) {
        Ok(None) => Err(no_kernel()),
        // The launch asks again, and reports a failure.
        Ok(Some(_)) | Err(_) => Ok(None),
    }
}

fn no_kernel() -> Reason {
    Reason::Because("hipBLASLt has no kernel for these types, strides and bias on this device".to_owned())
}

/// Enqueues `c = a · b`, with the step after it.
///
/// # Safety
/// The plan is made for these operands. They and the operands of `end` lie in memory that the stream may
/// access.
unsafe fn multiply(
    rocm: &Rocm,
    op: &'static str,
    plan: &Plan,
    operands: [&Bound; 3],
    end: End<'_>,
) -> Result<()> {
    let product = product(plan, operands[0].dtype, end).map_err(|reason| unsupported(op, reason))?;
    if is_empty(&product) {
        return Ok(());
    }
    let needed = rocm.with_library::<HipBlasLtLibrary, _>(|lib, handle| handle.workspace(lib, &product))?;
    let needed = needed.ok_or_else(|| unsupported(op, no_kernel()))?;
    let memory = if needed > 0 { Some(DeviceMemory::new(rocm.stream(), needed)?) } else { None };
    let lent = memory.as_ref().map(|memory| memory.access(rocm.stream(), Purpose::Write)).transpose()?;
    let workspace = lent.as_ref().map_or(null_mut(), |lent| lent.address());
    let bias = match end {
        End::Plain => None,
        End::Bias(bias) => Some(bias.address as *const c_void),
        End::Added { bias, y } => {
            // SAFETY: guaranteed by the caller.
            unsafe { spread(rocm, bias, y) }?;
            None
        }
    };
    plan.calls.iter().try_for_each(|start| {
        rocm.with_library::<HipBlasLtLibrary, _>(|lib, handle| {
            let at = |matrix: Matrix| {
                let operand = operands[matrix.operand];
                let bytes = start[matrix.operand].wrapping_mul(operand.dtype.bytes() as i64);
                operand.address.wrapping_add_signed(bytes) as *mut c_void
            };
            let addresses = [at(plan.left), at(plan.right), at(plan.out)];
            // SAFETY: the handle's device is current; the caller guarantees that the product describes the
            // operands; the workspace is as large as the library requested, and the stream may access it.
            unsafe { handle.enqueue(lib, &product, addresses, bias, (workspace, needed)) }
        })
    })
}
