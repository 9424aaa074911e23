//! This project's kernels.
//!
//! An op computed by a single kernel only plans its launch from its operands ([`HipOp::plan`]); the rest is
//! common to all.
mod activation;
mod affine;
mod args;
mod attention;
mod batch_norm;
pub(crate) mod bind;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod elementwise;
mod experts;
mod gated;
mod index;
mod linear_attention;
pub(crate) mod matmul;
mod norm;
mod parametric;
mod pool;
mod qk_norm_rope;
mod quant;
mod reduce;
mod rope;
mod routing;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod upsample;
mod where_;

pub(crate) use affine::HipAffine;
pub(crate) use attention::HipAttention;
pub(crate) use attention::HipRagged;
pub(crate) use cache::HipKeys;
pub(crate) use copy::HipFill;
pub(crate) use experts::HipExperts;
pub(crate) use index::HipEmbedding;
pub(crate) use matmul::{HipLinear, HipLinearSwiglu};
pub(crate) use norm::HipGroupNorm;
pub(crate) use reduce::HipReduce;
pub(crate) use rope::HipRope;
pub(crate) use scan::HipScan;
pub(crate) use scatter::HipScatter;
pub(crate) use sort::HipSort;

use bind::{Binding, Bound, MAX_OPERANDS, Problem};

use crate::ProviderId;
use crate::choice::Target;
use crate::error::NAME;
use crate::hip::{DeviceMemory, KernelArgs, Purpose};
use crate::provider::Provider;
use crate::{Error, HipSpace, Result, Rocm};
use ops_core::{Call, Determinism, Op, Operands, Reason};
use ops_kernels::{Arguments, ElementType, Family, Instance, Launch, Matrix, Refused};

/// An op computed by a single kernel.
pub(crate) trait HipOp: Op {
    /// The kernel's arguments.
    type Kernel: KernelArgs + Arguments;

    /// The index operand, if the kernel reports indices out of range.
    const INDICES: Option<&'static str> = None;

    /// The launch for these operands.
    fn plan(&self, problem: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused>;

    /// The determinism of its results: most kernels compute each row independently, in the same way.
    fn rows_level(&self, _target: &Target, _on: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    /// How the planned kernel computes it, and why in this way, if there are others.
    fn how(target: &Target, instance: &Instance, _kernel: &Self::Kernel) -> Option<String> {
        units(target, instance)
    }
}

/// Computes an op with one of this project's kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hip;

/// Checks that a launch can be planned for these operands on a target.
fn fits<P>(
    target: &Target,
    on: &dyn Operands,
    plan: impl FnOnce(&Problem<'_>) -> Result<P, Refused>,
) -> Result<(), Reason> {
    let mut binding = Binding::new();
    let problem = binding.assumed(on, target.launch_device())?;
    plan(&problem).map(drop).map_err(|refused| reason(refused, on))
}

impl<O: HipOp> Provider<O> for Hip {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &O, on: &dyn Operands) -> Determinism {
        op.rows_level(target, on)
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| op.plan(problem))
    }

    fn how(&self, target: &Target, op: &O, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        let (launch, kernel) = op.plan(&problem).ok()?;
        O::how(target, launch.instance, &kernel)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let check = O::INDICES.map(|_| rocm.stream().index_check()).transpose()?;
        if let (Some(check), Some(operand)) = (&check, O::INDICES) {
            problem.report_to(check, rocm.index_names().number(op.name(), operand));
        }
        let (launch, kernel_args) = op.plan(&problem).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them.
        unsafe { rocm.kernels().launch(rocm.stream(), &launch, &kernel_args) }
    }
}

/// Whether vector or matrix units multiply, for ops with kernels for both.
pub(crate) fn units(target: &Target, instance: &Instance) -> Option<String> {
    if let (true, Some(matrix)) = (instance.family.needs_matrix(), target.launch_device().matrix) {
        return Some(format!("on matrix units ({})", matrix.name()));
    }
    if let (true, Some(dot4)) = (instance.family.needs_dot4(), target.launch_device().dot4) {
        return Some(format!(
            "on vector units, with x rounded to 8 bits and four byte products per instruction ({})",
            dot4.name()
        ));
    }
    let types = match instance.op {
        "matmul" => "matrix units need f16 or bf16 on both sides, or f32 on the left",
        "attention" => "matrix units need f16 or bf16, and heads of at most 256",
        "qlinear" => "matrix units need x in f16, bf16 or f32",
        _ => return None,
    };
    let why = if let Some(why) = no_matrix(target) {
        why
    } else if matmul::is_of_few_rows(instance) || instance.family == Family::AttentionDecode {
        "with few rows, memory bandwidth is the limit".into()
    } else if instance.types == [ElementType::F32, ElementType::F16] {
        "these matrix units read subnormal f16 values as zero".into()
    } else {
        types.into()
    };
    Some(format!("on vector units: {why}"))
}

/// Why no kernel uses matrix units on a target; `None` if some may.
pub(crate) fn no_matrix(target: &Target) -> Option<String> {
    if Matrix::of(target.gfx().name()).is_none() {
        return Some(format!("{} has no matrix units that these kernels support", target.gfx().name()));
    }
    target.launch_device().matrix.is_none().then(|| "matrix units are off".into())
}

/// Calls `launch` with the address of this many bytes of memory, which the stream may access meanwhile; the
/// address is 0 for no bytes.
pub(crate) fn with_workspace(rocm: &Rocm, bytes: u64, launch: impl FnOnce(u64) -> Result<()>) -> Result<()> {
    if bytes == 0 {
        return launch(0);
    }
    let memory = DeviceMemory::new(rocm.stream(), usize::try_from(bytes).unwrap_or(usize::MAX))?;
    let lent = memory.access(rocm.stream(), Purpose::Write)?;
    launch(lent.address() as u64)
}

/// The error for a launch that the kernels refuse.
pub(crate) fn unsupported<O: Op>(op: &O, refused: Refused, on: &dyn Operands) -> Error {
    Error::Unsupported { op: op.name_on(on), backend: NAME, reason: reason(refused, on) }
}

/// A refusal as a reason.
pub(crate) fn reason(refused: Refused, on: &dyn Operands) -> Reason {
    let fits = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    match refused {
        Refused::NoKernel { .. } => {
            // This combination of types is not supported: name the odd one out, or the first if there is none.
            let first = on.iter().next();
            let odd = on.iter().find(|o| first.is_some_and(|first| o.dtype != first.dtype));
            match odd.or(first) {
                Some(operand) => Reason::DType { operand: operand.name, dtype: operand.dtype },
                None => Reason::Missing,
            }
        }
        Refused::Limit { what, got, max } => Reason::Limit { what, got: fits(got), max: fits(max) },
        other => Reason::Because(other.to_string()),
    }
}
