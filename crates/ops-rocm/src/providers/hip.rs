//! This project's kernels.
//!
//! An op only plans its launches from its operands ([`HipOp::plan`]); the rest is common to all.
mod activation;
mod affine;
mod attention;
mod batch_norm;
pub(crate) mod bind;
mod bitwise;
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

use bind::{Binding, Bound, MAX_OPERANDS, Problem};

use crate::ProviderId;
use crate::choice::Target;
use crate::error::NAME;
use crate::provider::Provider;
use crate::{Error, HipSpace, Result, Rocm};
use ops_core::{Call, Determinism, Op, Operands, Reason};
use ops_kernels::{ElementType, Family, Instance, Matrix, Plan, Refused};

/// Operands with indices: their names, and their places among the operands.
type Indices = &'static [(&'static str, usize)];

/// An op computed by this project's kernels.
pub(crate) trait HipOp: Op {
    /// The operands whose indices the kernels check, in the order of their [reports](Problem::reports).
    const INDICES: Indices = &[];

    /// Plans the launches for these operands.
    fn plan(&self, problem: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused>;

    /// The determinism of its results: most kernels compute each row independently, in the same way.
    fn rows_level(&self, _target: &Target, _on: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    /// How the planned kernels compute it, and why in this way, if there are others.
    fn how(&self, target: &Target, plan: &Plan) -> Option<String> {
        units(target, plan.main()?.instance)
    }

    /// The contents of the plan's workspace before the first launch, if it has to have any.
    fn contents(&self) -> &[u8] {
        &[]
    }
}

/// Computes an op with this project's kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hip;

impl<O: HipOp> Provider<O> for Hip {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, op: &O, on: &dyn Operands) -> Determinism {
        op.rows_level(target, on)
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        self.assess(target, op, on).map(drop)
    }

    fn how(&self, target: &Target, op: &O, on: &dyn Operands) -> Option<String> {
        self.assess(target, op, on).ok()?
    }

    fn assess(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<Option<String>, Reason> {
        let (mut binding, mut plan) = (Binding::new(), Plan::default());
        let problem = binding.assumed(on, target.launch_device())?;
        op.plan(&problem, &mut plan).map_err(|refused| reason(refused, on))?;
        Ok(op.how(target, &plan))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let given = O::INDICES.iter().any(|(_, place)| problem.get(*place).is_some());
        let check = given.then(|| rocm.stream().index_check()).transpose()?;
        if let Some(check) = &check {
            let numbers = O::INDICES.iter().map(|(operand, _)| rocm.index_names().number(op.name(), operand));
            problem.report_to(check, numbers);
        }
        let mut plan = Plan::default();
        op.plan(&problem, &mut plan).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them. The kernels check every index before they use it.
        unsafe { rocm.kernels().run(rocm.stream(), &mut plan, op.contents()) }
    }
}

/// Whether vector or matrix units multiply, for ops with kernels for both.
fn units(target: &Target, instance: &Instance) -> Option<String> {
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
fn no_matrix(target: &Target) -> Option<String> {
    if Matrix::of(target.gfx().name()).is_none() {
        return Some(format!("{} has no matrix units that these kernels support", target.gfx().name()));
    }
    target.launch_device().matrix.is_none().then(|| "matrix units are off".into())
}

/// The error for a launch that the kernels refuse.
fn unsupported<O: Op>(op: &O, refused: Refused, on: &dyn Operands) -> Error {
    Error::Unsupported { op: op.name_on(on), backend: NAME, reason: reason(refused, on) }
}

/// A refusal as a reason.
fn reason(refused: Refused, on: &dyn Operands) -> Reason {
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
