//! From names to types: for each op its struct, its options and the types of its operands.
use super::problem::{Problem, Typed};
use super::types::with_type;
use super::{Kind, Spec};
use crate::backend::Observing;
use crate::exit::Failure;
use ops_core::ops::*;
use ops_core::quant::Block;
use ops_core::{DType, Element, Execute, Float, Index, Mask, Num, Scalar};
use ops_test::SuiteBackend;

type Built<'b> = Result<Box<dyn Problem + 'b>, Failure>;

/// Added to variances; what models use.
const EPS: f64 = 1e-5;

/// Makes an op a problem: `problem!(backend, spec, op, RmsNormOwned { x, weight, y })`.
macro_rules! problem {
    ($b:expr, $spec:expr, $op:expr, $Owned:ident { $($name:ident),+ $(,)? }) => {
        Ok(Box::new(Typed::new($b, $spec, $op, |plan| Ok($Owned { $($name: plan.slot(stringify!($name))?),+ }))?))
    };
}

/// A problem on a backend.
///
/// # Errors
/// The types are not offered together, or the shapes break the op's rule.
pub(crate) fn build<B: Observing + SuiteBackend>(b: &B, spec: Spec) -> Built<'_> {
    let dtype = spec.types.runs_in;
    match spec.entry.kind {
        Kind::RmsNorm | Kind::LayerNorm | Kind::AddRmsNorm | Kind::GroupNorm => norms(b, spec),
        Kind::Rope(form) => {
            with_type!(floats dtype, T => with_type!(floats of(&spec, "cos"), C => rope::<T, C, B>(b, spec, form)))
        }
        Kind::RopeInplace(form) => {
            with_type!(floats dtype, T => with_type!(floats of(&spec, "cos"), C => rope_in::<T, C, B>(b, spec, form)))
        }
        Kind::Softmax { log } => with_type!(floats dtype, T => softmax::<T, B>(b, spec, log)),
        Kind::Unary(f) => with_type!(numbers dtype, T => unary::<T, B>(b, spec, f)),
        Kind::Glu(f) => with_type!(floats dtype, T => glu::<T, B>(b, spec, f)),
        Kind::Binary(f) => with_type!(numbers dtype, T => binary::<T, B>(b, spec, f)),
        Kind::Affine => with_type!(numbers dtype, T => affine::<T, B>(b, spec)),
        Kind::AffineInplace => with_type!(numbers dtype, T => affine_in::<T, B>(b, spec)),
        Kind::MatMul => with_type!(floats dtype, T => matmul::<T, B>(b, spec)),
        Kind::Linear => linears(b, spec),
        Kind::Attention => attentions(b, spec),
        Kind::Cast => {
            with_type!(scalars dtype, T => with_type!(scalars of(&spec, "y"), U => cast::<T, U, B>(b, spec)))
        }
        Kind::Copy => with_type!(elements dtype, T => copy::<T, B>(b, spec)),
        Kind::Fill => with_type!(scalars dtype, T => fill::<T, B>(b, spec)),
        Kind::Where => {
            with_type!(elements dtype, T => with_type!(indices of(&spec, "cond"), I => choose::<T, I, B>(b, spec)))
        }
        Kind::IndexSelect => {
            with_type!(elements dtype, T => with_type!(indices of(&spec, "ids"), I => select::<T, I, B>(b, spec)))
        }
        Kind::Quantize => with_type!(blocks of(&spec, "y"), Q => quantize::<Q, B>(b, spec)),
        Kind::Dequantize => with_type!(blocks of(&spec, "x"), Q => dequantize::<Q, B>(b, spec)),
        Kind::QLinear => {
            with_type!(floats dtype, T => with_type!(blocks of(&spec, "weight"), Q => qlinear::<T, Q, B>(b, spec)))
        }
        Kind::QEmbedding => qembeddings(b, spec),
    }
}

/// The type of an operand.
fn of(spec: &Spec, operand: &str) -> DType {
    spec.types.get(spec.entry, operand)
}

fn norms<B: Observing + SuiteBackend>(b: &B, spec: Spec) -> Built<'_> {
    let (dtype, weight) = (spec.types.runs_in, of(&spec, "weight"));
    with_type!(floats dtype, T => with_type!(floats weight, W => match spec.entry.kind {
        Kind::RmsNorm => rms_norm::<T, W, B>(b, spec),
        Kind::LayerNorm => layer_norm::<T, W, B>(b, spec),
        Kind::AddRmsNorm => add_rms_norm::<T, W, B>(b, spec),
        _ => group_norm::<T, W, B>(b, spec),
    }))
}
fn rms_norm<T: Float, W: Float, B: Observing + Execute<RmsNorm<T, W>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, RmsNorm::<T, W>::eps(EPS), RmsNormOwned { x, weight, y })
}
fn layer_norm<T: Float, W: Float, B: Observing + Execute<LayerNorm<T, W>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, LayerNorm::<T, W>::eps(EPS), LayerNormOwned { x, weight, bias, y })
}
fn add_rms_norm<T: Float, W: Float, B: Observing + Execute<AddRmsNorm<T, W>>>(
    b: &B,
    spec: Spec,
) -> Built<'_> {
    problem!(b, spec, AddRmsNorm::<T, W>::eps(EPS), AddRmsNormOwned { x, residual, weight, y, sum })
}
fn group_norm<T: Float, W: Float, B: Observing + Execute<GroupNorm<T, W>>>(b: &B, spec: Spec) -> Built<'_> {
    // 32 groups, as most models have; as many as can be where there are other channels.
    let channels = spec.shape("x").and_then(|dims| dims.get(1).copied()).unwrap_or(1);
    let groups = (1..=32).rev().find(|g| channels.is_multiple_of(*g)).unwrap_or(1);
    problem!(b, spec, GroupNorm::<T, W>::new(groups, EPS), GroupNormOwned { x, weight, bias, y })
}

fn rope<T: Float, C: Float, B: Observing + Execute<Rope<T, C>>>(
    b: &B,
    spec: Spec,
    form: RopeForm,
) -> Built<'_> {
    problem!(b, spec, Rope::<T, C>::new(form), RopeOwned { x, cos, sin, y })
}
fn rope_in<T: Float, C: Float, B: Observing + Execute<RopeInplace<T, C>>>(
    b: &B,
    spec: Spec,
    form: RopeForm,
) -> Built<'_> {
    problem!(b, spec, Rope::<T, C>::new(form).inplace(), RopeInplaceOwned { x, cos, sin })
}

fn softmax<T: Float, B: Observing + Execute<Softmax<T>>>(b: &B, spec: Spec, log: bool) -> Built<'_> {
    let op = Softmax::<T>::axis(-1);
    problem!(b, spec, if log { op.log() } else { op }, SoftmaxOwned { x, y })
}
fn unary<T: Num, B: Observing + Execute<Unary<T>>>(b: &B, spec: Spec, f: UnaryFn) -> Built<'_> {
    let missing = || Failure::Usage(format!("{} is not offered in {}", f.name(), T::DTYPE));
    problem!(b, spec, Unary::<T>::of_num(f).ok_or_else(missing)?, UnaryOwned { x, y })
}
fn glu<T: Float, B: Observing + Execute<Glu<T>>>(b: &B, spec: Spec, f: GluFn) -> Built<'_> {
    problem!(b, spec, Glu::<T>::of(f), GluOwned { gate, up, y })
}
fn binary<T: Num, B: Observing + Execute<Binary<T>>>(backend: &B, spec: Spec, f: BinaryFn) -> Built<'_> {
    problem!(backend, spec, Binary::<T>::of(f), BinaryOwned { a, b, y })
}
fn affine<T: Num, B: Observing + Execute<Affine<T>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Affine::<T>::new(2.0, 1.0), AffineOwned { x, y })
}
fn affine_in<T: Num, B: Observing + Execute<AffineInplace<T>>>(b: &B, spec: Spec) -> Built<'_> {
    // Its own inverse: values stay in range however often it runs.
    problem!(b, spec, AffineInplace::<T>::new(-1.0, 1.0), AffineInplaceOwned { x })
}

fn matmul<T: Float, B: Observing + Execute<MatMul<T>>>(backend: &B, spec: Spec) -> Built<'_> {
    problem!(backend, spec, MatMul::<T>::OP, MatMulOwned { a, b, c })
}
fn linears<B: Observing + SuiteBackend>(b: &B, spec: Spec) -> Built<'_> {
    let (dtype, weight, bias) = (spec.types.runs_in, of(&spec, "weight"), of(&spec, "bias"));
    with_type!(floats dtype, T => with_type!(floats weight, W => match bias {
        bias if bias == dtype => linear::<T, W, T, B>(b, spec),
        DType::F32 => linear::<T, W, f32, B>(b, spec),
        other => Err(Failure::Usage(format!("linear in {dtype} has no bias of {other}; it may be {dtype} or f32"))),
    }))
}
fn linear<T: Float, W: Float, A: Float, B: Observing + Execute<Linear<T, W, A>>>(
    b: &B,
    spec: Spec,
) -> Built<'_> {
    problem!(b, spec, Linear::<T, W, A>::OP, LinearOwned { x, weight, bias, y })
}

fn attentions<B: Observing + SuiteBackend>(b: &B, spec: Spec) -> Built<'_> {
    let dtype = spec.types.runs_in;
    with_type!(floats dtype, T => match of(&spec, "mask") {
        DType::U8 => attention::<T, u8, B>(b, spec),
        mask if mask == dtype => attention::<T, T, B>(b, spec),
        other => Err(Failure::Usage(format!("attention in {dtype} has no mask of {other}; it may be {dtype} or u8"))),
    })
}
fn attention<T: Float, M: Mask, B: Observing + Execute<Attention<T, M>>>(b: &B, spec: Spec) -> Built<'_> {
    let op = if spec.causal { Attention::<T, M>::causal() } else { Attention::full() };
    problem!(b, spec, op, AttentionOwned { q, k, v, mask, alibi, o })
}

fn cast<T: Scalar, U: Scalar, B: Observing + Execute<Cast<T, U>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Cast::<T, U>::OP, CastOwned { x, y })
}
fn copy<T: Element, B: Observing + Execute<Copy<T>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Copy::<T>::OP, CopyOwned { x, y })
}
fn fill<T: Scalar, B: Observing + Execute<Fill<T>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Fill::new(T::from_f64(1.0)), FillOwned { y })
}
fn choose<T: Element, I: Index, B: Observing + Execute<Where<T, I>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Where::<T, I>::OP, WhereOwned { cond, on_true, on_false, y })
}
fn select<T: Element, I: Index, B: Observing + Execute<IndexSelect<T, I>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, IndexSelect::<T, I>::axis(0), IndexSelectOwned { x, ids, y })
}

fn quantize<Q: Block, B: Observing + Execute<Quantize<Q>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Quantize::<Q>::OP, QuantizeOwned { x, y })
}
fn dequantize<Q: Block, B: Observing + Execute<Dequantize<Q>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, Dequantize::<Q>::OP, DequantizeOwned { x, y })
}
fn qlinear<T: Float, Q: Block, B: Observing + Execute<QLinear<T, Q>>>(b: &B, spec: Spec) -> Built<'_> {
    problem!(b, spec, QLinear::<T, Q>::OP, QLinearOwned { x, weight, y })
}
fn qembeddings<B: Observing + SuiteBackend>(b: &B, spec: Spec) -> Built<'_> {
    let (dtype, table, ids) = (spec.types.runs_in, of(&spec, "table"), of(&spec, "ids"));
    with_type!(floats dtype, T => with_type!(blocks table, Q => with_type!(indices ids, I => {
        qembedding::<T, Q, I, B>(b, spec)
    })))
}
fn qembedding<T: Float, Q: Block, I: Index, B: Observing + Execute<QEmbedding<T, Q, I>>>(
    b: &B,
    spec: Spec,
) -> Built<'_> {
    problem!(b, spec, QEmbedding::<T, Q, I>::OP, QEmbeddingOwned { table, ids, y })
}
