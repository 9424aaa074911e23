//! From names to types: for each op its struct, its options and the types of its operands.
use super::call::{Call, Typed};
use super::types::with_type;
use super::{Kind, Spec};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::*;
use ops_core::quant::Block;
use ops_core::{Element, Execute, Float, Num, Op, Scalar};
use ops_test::SuiteBackend;

type Built<'b> = Result<Box<dyn Call + 'b>, Failure>;

/// A backend that has an op and can say who would run it.
trait Runs<O: Op>: Observing + Execute<O> {}
impl<O: Op, B: Observing + Execute<O>> Runs<O> for B {}

/// Added to variances; what models use.
const EPS: f64 = 1e-5;

/// Makes an op a call: `call!(backend, op, RmsNormOwned { x, weight, y })`.
macro_rules! call {
    ($b:expr, $op:expr, $Owned:ident { $($name:ident),+ $(,)? }) => {
        Ok(Box::new(Typed { backend: $b, op: $op, make: |plan| Ok($Owned { $($name: plan.slot(stringify!($name))?),+ }) }))
    };
}

/// The call of a problem.
///
/// # Errors
/// The types are not offered together.
pub(super) fn typed<'b, B: Observing + SuiteBackend>(b: &'b B, spec: &Spec) -> Built<'b> {
    let dtype = spec.types.runs_in;
    let of = |operand| spec.types.get(spec.entry, operand);
    match spec.entry.kind {
        Kind::RmsNorm | Kind::LayerNorm | Kind::AddRmsNorm | Kind::GroupNorm => norms(b, spec),
        Kind::Rope(form) => with_type!(floats dtype, T => rope::<T, B>(b, form)),
        Kind::RopeInplace(form) => with_type!(floats dtype, T => rope_inplace::<T, B>(b, form)),
        Kind::Softmax { log } => with_type!(floats dtype, T => softmax::<T, B>(b, log)),
        Kind::Unary(f) => with_type!(numbers dtype, T => unary::<T, B>(b, f)),
        Kind::Glu(f) => with_type!(floats dtype, T => glu::<T, B>(b, f)),
        Kind::Binary(f) => with_type!(numbers dtype, T => binary::<T, B>(b, f)),
        Kind::Affine => with_type!(numbers dtype, T => affine::<T, B>(b)),
        Kind::AffineInplace => with_type!(numbers dtype, T => affine_inplace::<T, B>(b)),
        Kind::MatMul => with_type!(floats dtype, T => matmul::<T, B>(b)),
        Kind::Linear | Kind::QLinear => with_type!(floats dtype, T => linear::<T, B>(b)),
        Kind::Attention => with_type!(floats dtype, T => attention::<T, B>(b, spec)),
        Kind::Cast => with_type!(scalars of("y"), T => cast::<T, B>(b)),
        Kind::Copy => with_type!(elements dtype, T => copy::<T, B>(b)),
        Kind::Fill => with_type!(scalars dtype, T => fill::<T, B>(b)),
        Kind::Where => with_type!(elements dtype, T => choose::<T, B>(b)),
        Kind::IndexSelect => with_type!(elements dtype, T => select::<T, B>(b)),
        Kind::Quantize => with_type!(blocks of("y"), Q => quantize::<Q, B>(b)),
        Kind::Dequantize => with_type!(blocks of("x"), Q => dequantize::<Q, B>(b)),
        Kind::QEmbedding => with_type!(floats dtype, T => embedding::<T, B>(b)),
    }
}

fn norms<'b, B: Observing + SuiteBackend>(b: &'b B, spec: &Spec) -> Built<'b> {
    with_type!(floats spec.types.runs_in, T => match spec.entry.kind {
        Kind::RmsNorm => rms_norm::<T, B>(b),
        Kind::LayerNorm => layer_norm::<T, B>(b),
        Kind::AddRmsNorm => add_rms_norm::<T, B>(b),
        _ => group_norm::<T, B>(b, spec),
    })
}
fn rms_norm<T: Float, B: Runs<RmsNorm<T>>>(b: &B) -> Built<'_> {
    call!(b, RmsNorm::<T>::eps(EPS), RmsNormOwned { x, weight, y })
}
fn layer_norm<T: Float, B: Runs<LayerNorm<T>>>(b: &B) -> Built<'_> {
    call!(b, LayerNorm::<T>::eps(EPS), LayerNormOwned { x, weight, bias, y })
}
fn add_rms_norm<T: Float, B: Runs<AddRmsNorm<T>>>(b: &B) -> Built<'_> {
    call!(b, AddRmsNorm::<T>::eps(EPS), AddRmsNormOwned { x, residual, weight, y, sum })
}
fn group_norm<'b, T: Float, B: Runs<GroupNorm<T>>>(b: &'b B, spec: &Spec) -> Built<'b> {
    // 32 groups, as most models have; as many as can be where there are other channels.
    let channels = spec.shape("x").and_then(|dims| dims.get(1).copied()).unwrap_or(1);
    let groups = (1..=32).rev().find(|g| channels.is_multiple_of(*g)).unwrap_or(1);
    call!(b, GroupNorm::<T>::new(groups, EPS), GroupNormOwned { x, weight, bias, y })
}

fn rope<T: Float, B: Runs<Rope<T>>>(b: &B, form: RopeForm) -> Built<'_> {
    call!(b, Rope::<T>::new(form), RopeOwned { x, cos, sin, y })
}
fn rope_inplace<T: Float, B: Runs<RopeInplace<T>>>(b: &B, form: RopeForm) -> Built<'_> {
    call!(b, Rope::<T>::new(form).inplace(), RopeInplaceOwned { x, cos, sin })
}

fn softmax<T: Float, B: Runs<Softmax<T>>>(b: &B, log: bool) -> Built<'_> {
    let op = Softmax::<T>::axis(-1);
    call!(b, if log { op.log() } else { op }, SoftmaxOwned { x, y })
}
fn unary<T: Num, B: Runs<Unary<T>>>(b: &B, f: UnaryFn) -> Built<'_> {
    let missing = || Failure::Usage(format!("{} is not offered in {}", f.name(), T::DTYPE));
    call!(b, Unary::<T>::of_num(f).ok_or_else(missing)?, UnaryOwned { x, y })
}
fn glu<T: Float, B: Runs<Glu<T>>>(b: &B, f: GluFn) -> Built<'_> {
    call!(b, Glu::<T>::of(f), GluOwned { gate, up, y })
}
fn binary<T: Num, B: Runs<Binary<T>>>(backend: &B, f: BinaryFn) -> Built<'_> {
    call!(backend, Binary::<T>::of(f), BinaryOwned { a, b, y })
}
fn affine<T: Num, B: Runs<Affine<T>>>(b: &B) -> Built<'_> {
    call!(b, Affine::<T>::new(2.0, 1.0), AffineOwned { x, y })
}
fn affine_inplace<T: Num, B: Runs<AffineInplace<T>>>(b: &B) -> Built<'_> {
    // Its own inverse: values stay in range however often it runs.
    call!(b, AffineInplace::<T>::new(-1.0, 1.0), AffineInplaceOwned { x })
}

fn matmul<T: Float, B: Runs<MatMul<T>>>(backend: &B) -> Built<'_> {
    call!(backend, MatMul::<T>::OP, MatMulOwned { a, b, c })
}
fn linear<T: Float, B: Runs<Linear<T>>>(b: &B) -> Built<'_> {
    call!(b, Linear::<T>::OP, LinearOwned { x, weight, bias, y })
}

fn attention<'b, T: Float, B: Runs<Attention<T>>>(b: &'b B, spec: &Spec) -> Built<'b> {
    let op = if spec.causal { Attention::<T>::causal() } else { Attention::full() };
    call!(b, op, AttentionOwned { q, k, v, mask, alibi, o })
}

fn cast<T: Scalar, B: Runs<Cast<T>>>(b: &B) -> Built<'_> {
    call!(b, Cast::<T>::OP, CastOwned { x, y })
}
fn copy<T: Element, B: Runs<Copy<T>>>(b: &B) -> Built<'_> {
    call!(b, Copy::<T>::OP, CopyOwned { x, y })
}
fn fill<T: Scalar, B: Runs<Fill<T>>>(b: &B) -> Built<'_> {
    call!(b, Fill::new(T::from_f64(1.0)), FillOwned { y })
}
fn choose<T: Element, B: Runs<Where<T>>>(b: &B) -> Built<'_> {
    call!(b, Where::<T>::OP, WhereOwned { cond, on_true, on_false, y })
}
fn select<T: Element, B: Runs<IndexSelect<T>>>(b: &B) -> Built<'_> {
    call!(b, IndexSelect::<T>::axis(0), IndexSelectOwned { x, ids, y })
}

fn quantize<Q: Block, B: Runs<Quantize<Q>>>(b: &B) -> Built<'_> {
    call!(b, Quantize::<Q>::OP, QuantizeOwned { x, y })
}
fn dequantize<Q: Block, B: Runs<Dequantize<Q>>>(b: &B) -> Built<'_> {
    call!(b, Dequantize::<Q>::OP, DequantizeOwned { x, y })
}
fn embedding<T: Float, B: Runs<Embedding<T>>>(b: &B) -> Built<'_> {
    call!(b, Embedding::<T>::OP, EmbeddingOwned { table, ids, y })
}
