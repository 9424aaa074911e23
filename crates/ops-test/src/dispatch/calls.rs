//! For each op, its options and operands; for each family, the types it is offered in.
use super::SuiteBackend;
use super::caller::{Caller, launch};
use crate::types::on;
use crate::{CallError, Params};
use ops_core::ops::*;
use ops_core::quant::Block;
use ops_core::{DType, Element, Execute, Float, Num, Scalar};

type Done = Result<(), CallError>;

pub(super) fn dispatch<B: SuiteBackend>(b: &B, c: &mut Caller<'_>) -> Done {
    let dtype = c.dtype();
    match c.op() {
        "rms_norm" | "layer_norm" | "add_rms_norm" | "group_norm" => norms(b, c, dtype),
        "rope" | "rope_inplace" => ropes(b, c, RopeForm::Half),
        "rope_i" | "rope_i_inplace" => ropes(b, c, RopeForm::Interleaved),
        "rope_thd" | "rope_thd_inplace" => ropes(b, c, RopeForm::HalfThd),
        "softmax" => on!(floats, dtype, T => softmax::<T, B>(b, c, false)),
        "log_softmax" => on!(floats, dtype, T => softmax::<T, B>(b, c, true)),
        "swiglu" => on!(floats, dtype, T => glu::<T, B>(b, c, GluFn::Swiglu)),
        "geglu" => on!(floats, dtype, T => glu::<T, B>(b, c, GluFn::Geglu)),
        "affine" => on!(numbers, dtype, T => affine::<T, B>(b, c)),
        "affine_inplace" => on!(numbers, dtype, T => affine_inplace::<T, B>(b, c)),
        "matmul" => on!(floats, dtype, T => matmul::<T, B>(b, c)),
        "linear" | "qlinear" => linears(b, c, dtype),
        "attention" => on!(floats, dtype, T => attention::<T, B>(b, c)),
        "cast" => casts(b, c, dtype),
        "copy" => on!(elements, dtype, T => copy::<T, B>(b, c)),
        "fill" => on!(scalars, dtype, T => fill::<T, B>(b, c)),
        "where" => choices(b, c, dtype),
        "index_select" => selections(b, c, dtype),
        "quantize" if dtype == DType::F32 => on!(blocks, c.dtype_of("y")?, Q => quantize::<Q, B>(b, c)),
        // Suites name it by its blocks.
        "dequantize" if dtype == DType::F32 || dtype == c.dtype_of("x")? => {
            on!(blocks, c.dtype_of("x")?, Q => dequantize::<Q, B>(b, c))
        }
        "qembedding" => embeddings(b, c, dtype),
        op @ ("quantize" | "dequantize") => {
            Err(CallError::NotOffered(format!("`{op}` is not offered in {dtype}")))
        }
        name => by_function(b, c, dtype, name),
    }
}

fn by_function<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType, name: &str) -> Done {
    if let Some(f) = UnaryFn::ALL.into_iter().find(|f| f.name() == name) {
        return on!(numbers, dtype, T => unary::<T, B>(b, c, f));
    }
    if let Some(f) = BinaryFn::ALL.into_iter().find(|f| f.name() == name) {
        return on!(numbers, dtype, T => binary::<T, B>(b, c, f));
    }
    Err(CallError::NotOffered(format!("`{name}` is not an op of this build")))
}

fn norms<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    on!(floats, dtype, T => match c.op() {
        "rms_norm" => rms_norm::<T, B>(b, c),
        "layer_norm" => layer_norm::<T, B>(b, c),
        "add_rms_norm" => add_rms_norm::<T, B>(b, c),
        _ => group_norm::<T, B>(b, c),
    })
}

fn rms_norm<T: Float, B: Execute<RmsNorm<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, RmsNorm::<T>::eps(c.param("eps", Params::f64)?), RmsNormOwned { x, weight, y })
}
fn layer_norm<T: Float, B: Execute<LayerNorm<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, LayerNorm::<T>::eps(c.param("eps", Params::f64)?), LayerNormOwned { x, weight, bias, y })
}
fn add_rms_norm<T: Float, B: Execute<AddRmsNorm<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let op = AddRmsNorm::<T>::eps(c.param("eps", Params::f64)?);
    launch!(b, c, op, AddRmsNormOwned { x, residual, weight, y, sum })
}
fn group_norm<T: Float, B: Execute<GroupNorm<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let groups = c.param("num_groups", Params::count)?;
    let groups = groups.ok_or_else(|| CallError::Malformed("`num_groups` is missing".into()))?;
    let op = GroupNorm::<T>::new(groups, c.param("eps", Params::f64)?);
    launch!(b, c, op, GroupNormOwned { x, weight, bias, y })
}

fn ropes<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, form: RopeForm) -> Done {
    let inplace = c.op().ends_with("_inplace");
    on!(floats, c.dtype(), T => match inplace {
        false => rope::<T, B>(b, c, form),
        true => rope_inplace::<T, B>(b, c, form),
    })
}
fn rope<T: Float, B: Execute<Rope<T>>>(b: &B, c: &mut Caller<'_>, form: RopeForm) -> Done {
    let start = c.param("start", Params::count)?.unwrap_or(0);
    launch!(b, c, Rope::<T>::new(form).start(start), RopeOwned { x, cos, sin, y })
}
fn rope_inplace<T: Float, B: Execute<RopeInplace<T>>>(b: &B, c: &mut Caller<'_>, form: RopeForm) -> Done {
    let start = c.param("start", Params::count)?.unwrap_or(0);
    launch!(b, c, Rope::<T>::new(form).start(start).inplace(), RopeInplaceOwned { x, cos, sin })
}

fn softmax<T: Float, B: Execute<Softmax<T>>>(b: &B, c: &mut Caller<'_>, log: bool) -> Done {
    let op = Softmax::<T>::axis(c.param("axis", |p, name| p.axis(name, -1))?);
    launch!(b, c, if log { op.log() } else { op }, SoftmaxOwned { x, y })
}

fn unary<T: Num, B: Execute<Unary<T>>>(b: &B, c: &mut Caller<'_>, f: UnaryFn) -> Done {
    let missing = || CallError::NotOffered(format!("{} is not offered in {}", f.name(), T::DTYPE));
    launch!(b, c, Unary::<T>::of_num(f).ok_or_else(missing)?, UnaryOwned { x, y })
}
fn glu<T: Float, B: Execute<Glu<T>>>(b: &B, c: &mut Caller<'_>, f: GluFn) -> Done {
    launch!(b, c, Glu::<T>::of(f), GluOwned { gate, up, y })
}
fn binary<T: Num, B: Execute<Binary<T>>>(b: &B, c: &mut Caller<'_>, f: BinaryFn) -> Done {
    launch!(b, c, Binary::<T>::of(f), BinaryOwned { a, b, y })
}
fn affine<T: Num, B: Execute<Affine<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let (mul, add) = (c.param("mul", Params::f64)?, c.param("add", Params::f64)?);
    launch!(b, c, Affine::<T>::new(mul, add), AffineOwned { x, y })
}
fn affine_inplace<T: Num, B: Execute<AffineInplace<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let (mul, add) = (c.param("mul", Params::f64)?, c.param("add", Params::f64)?);
    launch!(b, c, AffineInplace::<T>::new(mul, add), AffineInplaceOwned { x })
}

fn matmul<T: Float, B: Execute<MatMul<T>>>(backend: &B, caller: &mut Caller<'_>) -> Done {
    launch!(backend, caller, MatMul::<T>::OP, MatMulOwned { a, b, c })
}
fn linear<T: Float, B: Execute<Linear<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Linear::<T>::OP, LinearOwned { x, weight, bias, y })
}

fn attention<T: Float, B: Execute<Attention<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let mut op = Attention::<T>::full();
    op.scale = c.param("scale", Params::number)?;
    op.causal = c.param("causal", Params::flag)?;
    op.window = c.param("window", Params::window)?;
    op.softcap = c.param("softcap", Params::number)?;
    launch!(b, c, op, AttentionOwned { q, k, v, mask, alibi, o })
}

fn casts<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    let to = c.param("to", Params::dtype)?.map_or_else(|| c.dtype_of("y"), Ok)?;
    if c.dtype_of("x")? != dtype {
        return Err(CallError::NotOffered(format!("`cast` of {dtype} takes no `x` of {}", c.dtype_of("x")?)));
    }
    on!(scalars, to, T => cast::<T, B>(b, c))
}
fn cast<T: Scalar, B: Execute<Cast<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Cast::<T>::OP, CastOwned { x, y })
}
fn copy<T: Element, B: Execute<Copy<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Copy::<T>::OP, CopyOwned { x, y })
}
fn fill<T: Scalar, B: Execute<Fill<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Fill::new(T::from_wide(c.param("value", Params::wide)?)), FillOwned { y })
}

fn choices<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    on!(elements, dtype, T => choice::<T, B>(b, c))
}
fn choice<T: Element, B: Execute<Where<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Where::<T>::OP, WhereOwned { cond, on_true, on_false, y })
}
fn selections<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    on!(elements, dtype, T => select::<T, B>(b, c))
}
fn select<T: Element, B: Execute<IndexSelect<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    let axis = c.param("axis", |p, name| p.axis(name, 0))?;
    launch!(b, c, IndexSelect::<T>::axis(axis), IndexSelectOwned { x, ids, y })
}

fn quantize<Q: Block, B: Execute<Quantize<Q>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Quantize::<Q>::OP, QuantizeOwned { x, y })
}
fn dequantize<Q: Block, B: Execute<Dequantize<Q>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Dequantize::<Q>::OP, DequantizeOwned { x, y })
}
/// The weight or table must be of the kind that the name says.
fn expect_kind(c: &Caller<'_>, operand: &str, blocks: bool) -> Done {
    match c.dtype_of(operand)? {
        dtype if dtype.is_block() == blocks => Ok(()),
        dtype => Err(CallError::NotOffered(format!("`{}` takes no `{operand}` of {dtype}", c.op()))),
    }
}
fn linears<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    expect_kind(c, "weight", c.op() == "qlinear")?;
    on!(floats, dtype, T => linear::<T, B>(b, c))
}
fn embeddings<B: SuiteBackend>(b: &B, c: &mut Caller<'_>, dtype: DType) -> Done {
    expect_kind(c, "table", true)?;
    on!(floats, dtype, T => embedding::<T, B>(b, c))
}
fn embedding<T: Float, B: Execute<Embedding<T>>>(b: &B, c: &mut Caller<'_>) -> Done {
    launch!(b, c, Embedding::<T>::OP, EmbeddingOwned { table, ids, y })
}
