//! What a case should give, from the same operands in float64.
//!
//! Float ops are computed by [`Reference`] in f64, from contiguous copies. What need not be rounded
//! is computed here, apart from any backend: integers, casts, and moves of elements.
use crate::judge::Want;
use crate::{Array, CallError, Case};
use ops_core::ops::*;
use ops_core::{Backend, DType, Op, Tensor, TensorOf, TensorRef, Tolerance};
use ops_cpu::{Host, Reference};

mod integers;
mod moves;
mod quant;
mod rounding;

pub(super) use rounding::convert;

type Wants = Result<Vec<Want>, CallError>;
type Exact = TensorOf<Reference, f64>;

/// The outputs of a case.
pub(super) fn wants(case: &Case) -> Wants {
    let float = case.dtype.is_float();
    match case.op.as_str() {
        "cast" | "copy" | "fill" | "where" | "index_select" => moves::wants(case),
        "quantize" | "dequantize" | "qlinear" | "qembedding" => quant::wants(case),
        _ if !float => integers::wants(case),
        "rms_norm" | "layer_norm" | "add_rms_norm" | "group_norm" => norms(case),
        "softmax" | "log_softmax" => softmax(case),
        "swiglu" | "geglu" => glu(case),
        "affine" | "affine_inplace" => affine(case),
        "matmul" => matmul(case),
        "linear" => linear(case),
        "attention" => attention(case),
        op if op.starts_with("rope") => rope(case),
        op => functions(case, op),
    }
}

/// An operand's elements, in row-major order.
fn logical(case: &Case, name: &str) -> Result<Array, CallError> {
    let operand = case.expect(name)?;
    operand.array.gather(&operand.layout)
}

/// An operand in f64, contiguous.
fn exact(case: &Case, name: &str) -> Result<Exact, CallError> {
    let values = logical(case, name)?.to_f64()?;
    Ok(Reference::new().tensor(case.expect(name)?.layout.dims(), &values)?)
}

fn optional(case: &Case, name: &str) -> Result<Option<Exact>, CallError> {
    case.operand(name).map(|_| exact(case, name)).transpose()
}

fn view(tensor: &Option<Exact>) -> Option<TensorRef<'_, Host, f64>> {
    tensor.as_ref().map(Tensor::as_ref)
}

/// A computed output, and what the op promises of it in the case's type.
fn want(case: &Case, op: &impl Op, name: &'static str, values: &Exact) -> Result<Want, CallError> {
    let tolerance = op.tolerance(name, case.dtype_of(name)?);
    Ok(Want { name: name.into(), values: Array::from_slice(values.buffer())?, tolerance })
}

fn norms(case: &Case) -> Wants {
    let (b, eps) = (Reference::new(), case.params.f64("eps")?);
    let (x, weight, bias) = (exact(case, "x")?, optional(case, "weight")?, optional(case, "bias")?);
    let given = || exact(case, "weight");
    match case.op.as_str() {
        "rms_norm" => {
            let op = RmsNorm::eps(eps);
            Ok(vec![want(case, &op, "y", &b.rms_norm(x.as_ref(), given()?.as_ref(), op)?)?])
        }
        "layer_norm" => {
            let op = LayerNorm::eps(eps);
            Ok(vec![want(case, &op, "y", &b.layer_norm(x.as_ref(), view(&weight), view(&bias), op)?)?])
        }
        "group_norm" => {
            let op = GroupNorm::new(case.params.count("num_groups")?.unwrap_or(0), eps);
            Ok(vec![want(case, &op, "y", &b.group_norm(x.as_ref(), view(&weight), view(&bias), op)?)?])
        }
        _ => {
            let sum = b.add(x.as_ref(), exact(case, "residual")?.as_ref())?;
            // The sum is stored before it is normalised.
            let stored = Array::from_f64(case.dtype, sum.buffer())?.to_f64()?;
            let stored = b.tensor(sum.dims(), &stored)?;
            let y = b.rms_norm(stored.as_ref(), given()?.as_ref(), RmsNorm::eps(eps))?;
            let op = AddRmsNorm::<f64>::eps(eps);
            Ok(vec![want(case, &op, "y", &y)?, want(case, &op, "sum", &sum)?])
        }
    }
}

fn rope(case: &Case) -> Wants {
    let form = match case.op.trim_end_matches("_inplace") {
        "rope_i" => RopeForm::Interleaved,
        "rope_thd" => RopeForm::HalfThd,
        _ => RopeForm::Half,
    };
    let op = Rope::new(form).start(case.params.count("start")?.unwrap_or(0));
    let (x, cos, sin) = (exact(case, "x")?, exact(case, "cos")?, exact(case, "sin")?);
    let y = Reference::new().rope(x.as_ref(), cos.as_ref(), sin.as_ref(), op)?;
    let output = if case.op.ends_with("_inplace") { "x" } else { "y" };
    Ok(vec![want(case, &op, output, &y)?])
}

fn softmax(case: &Case) -> Wants {
    let op = Softmax::axis(case.params.axis("axis", -1)?);
    let op = if case.op == "log_softmax" { op.log() } else { op };
    Ok(vec![want(case, &op, "y", &Reference::new().softmax(exact(case, "x")?.as_ref(), op)?)?])
}

fn glu(case: &Case) -> Wants {
    let f = if case.op == "swiglu" { GluFn::Swiglu } else { GluFn::Geglu };
    let (gate, up) = (exact(case, "gate")?, exact(case, "up")?);
    let mut y = Reference::new().empty(gate.shape())?;
    Reference::new().glu_into(gate.as_ref(), up.as_ref(), y.as_mut(), f)?;
    Ok(vec![want(case, &Glu::<f64>::of(f), "y", &y)?])
}

fn affine(case: &Case) -> Wants {
    let (mul, add) = (case.params.f64("mul")?, case.params.f64("add")?);
    let y = Reference::new().affine(exact(case, "x")?.as_ref(), mul, add)?;
    let output = if case.op == "affine" { "y" } else { "x" };
    Ok(vec![want(case, &Affine::<f64>::new(mul, add), output, &y)?])
}

fn matmul(case: &Case) -> Wants {
    let (a, b) = (exact(case, "a")?, exact(case, "b")?);
    let c = Reference::new().matmul(a.as_ref(), b.as_ref())?;
    Ok(vec![want(case, &MatMul::<f64>::OP, "c", &c)?])
}

fn linear(case: &Case) -> Wants {
    let (b, x, weight) = (Reference::new(), exact(case, "x")?, exact(case, "weight")?);
    let y = match optional(case, "bias")? {
        Some(bias) => b.linear_bias(x.as_ref(), weight.as_ref(), bias.as_ref())?,
        None => b.linear(x.as_ref(), weight.as_ref())?,
    };
    Ok(vec![want(case, &Linear::<f64>::OP, "y", &y)?])
}

fn attention(case: &Case) -> Wants {
    let b = Reference::new();
    let (q, k, v) = (exact(case, "q")?, exact(case, "k")?, exact(case, "v")?);
    let alibi = optional(case, "alibi")?;
    let flags = case.operand("mask").is_some_and(|m| m.array.dtype() == DType::U8);
    let mut o = b.empty(q.shape())?;
    let mut op = Attention::<f64, f64>::full();
    op.scale = case.params.number("scale")?;
    op.causal = case.params.flag("causal")?;
    op.window = case.params.window("window")?;
    op.softcap = case.params.number("softcap")?;
    let (q, k, v) = (q.as_ref(), k.as_ref(), v.as_ref());
    if flags {
        let mut flagged = Attention::<f64, u8>::full();
        (flagged.scale, flagged.causal) = (op.scale, op.causal);
        (flagged.window, flagged.softcap) = (op.window, op.softcap);
        let mask = b.tensor(case.expect("mask")?.layout.dims(), logical(case, "mask")?.slice::<u8>()?)?;
        b.attention_masked_into(q, k, v, Some(mask.as_ref()), view(&alibi), o.as_mut(), flagged)?;
    } else {
        let mask = optional(case, "mask")?;
        b.attention_masked_into(q, k, v, view(&mask), view(&alibi), o.as_mut(), op)?;
    }
    Ok(vec![want(case, &op, "o", &o)?])
}

/// Functions of one element or two.
fn functions(case: &Case, op: &str) -> Wants {
    let b = Reference::new();
    if let Some(f) = UnaryFn::ALL.into_iter().find(|f| f.name() == op) {
        let y = b.unary(exact(case, "x")?.as_ref(), f)?;
        return Ok(vec![want(case, &Unary::<f64>::of(f), "y", &y)?]);
    }
    let f = BinaryFn::ALL.into_iter().find(|f| f.name() == op);
    let f = f.ok_or_else(|| CallError::Malformed(format!("no oracle for {op}")))?;
    let y = b.binary(exact(case, "a")?.as_ref(), exact(case, "b")?.as_ref(), f)?;
    Ok(vec![want(case, &Binary::<f64>::of(f), "y", &y)?])
}

/// An output that must match element for element.
fn exactly(name: &str, values: Array) -> Want {
    Want { name: name.into(), values, tolerance: Tolerance::Exact }
}
