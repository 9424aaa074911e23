//! Expected results of cases, computed here from the definitions of the ops.
//!
//! Nothing in this module calls a backend: a suite that took its expected values from the code under test
//! could not fail. Float ops are computed in double-double arithmetic (long sums of types narrower than f64
//! in f64); integers, casts and element moves are exact. Tolerances come from the ops, as [`Tolerance`];
//! blocks are decoded by `ops_core::quant`.
use crate::judge::Want;
use crate::{Array, CallError, Case};
use double::Double;
use ops_core::ops::*;
use ops_core::{DType, Layout, Op, Operand, Operands, Role, Tolerance};

mod attention;
mod batch_norm;
mod bitwise;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod double;
mod experts;
mod functions;
mod fused;
mod gated;
mod index;
mod integers;
mod linear_attention;
mod matmul;
mod norm;
mod parametric;
mod pool;
mod qk_norm_rope;
mod quant;
mod reduce;
mod rope;
mod rounding;
mod routing;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod upsample;
mod where_;

pub(super) use rounding::convert;
pub(super) use sampling::steady_counters;

type Wants = Result<Vec<Want>, CallError>;

/// Names of ops, without in-place forms, and the function that computes them.
type Family = (&'static [&'static str], fn(&Case) -> Wants);

/// Computed the same way for every type.
const OF_ANY: &[Family] = &[
    (copy::OPS, copy::wants),
    (cast::OPS, cast::wants),
    (where_::OPS, where_::wants),
    (index::OPS, index::wants),
    (quant::OPS, quant::wants),
    (reduce::OPS, reduce::wants),
    (scan::OPS, scan::wants),
    (sort::OPS, sort::wants),
    (compare::OPS, compare::wants),
    (bitwise::OPS, bitwise::wants),
    (parametric::OPS, parametric::wants),
    (batch_norm::OPS, batch_norm::wants),
    (pool::OPS, pool::wants),
    (upsample::OPS, upsample::wants),
    (scatter::OPS, scatter::wants),
    (gated::OPS, gated::wants),
    (routing::OPS, routing::wants),
    (experts::OPS, experts::wants),
    (sampling::OPS, sampling::wants),
];
/// Computed for floats, in addition to functions of one or two elements.
const OF_FLOATS: [Family; 11] = [
    (norm::OPS, norm::wants),
    (softmax::OPS, softmax::wants),
    (matmul::OPS, matmul::wants),
    (conv::OPS, conv::wants),
    (attention::OPS, attention::wants),
    (rope::OPS, rope::wants),
    (qk_norm_rope::OPS, qk_norm_rope::wants),
    (linear_attention::OPS, linear_attention::wants),
    (cache::OPS, cache::wants),
    (fused::OPS, fused::wants),
    (&["affine"], affine),
];

/// The expected outputs of a case.
pub(super) fn wants(case: &Case) -> Wants {
    let op = case.op.strip_suffix("_inplace").unwrap_or(&case.op);
    let of =
        |families: &[Family]| families.iter().find(|(ops, _)| ops.contains(&op)).map(|(_, wants)| *wants);
    match of(OF_ANY) {
        Some(wants) => wants(case),
        None if !case.dtype.is_float() => integers::wants(case),
        None => of(&OF_FLOATS).map_or_else(|| by_element(case, op), |wants| wants(case)),
    }
}

/// The expected outputs of a case whose operands are chosen so that no result is rounded.
pub(super) fn exact_wants(case: &Case) -> Wants {
    let exactly = |want: Want| {
        let values = want.values.to_equal(case.dtype_of(&want.name)?)?;
        Ok(Want { values, tolerance: Tolerance::Exact, ..want })
    };
    wants(case)?.into_iter().map(exactly).collect()
}

/// The expected outputs of a case, within `tolerance`.
pub(super) fn wants_within(case: &Case, tolerance: Tolerance) -> Wants {
    Ok(wants(case)?.into_iter().map(|want| Want { tolerance, ..want }).collect())
}

/// An operand's elements, in row-major order.
fn logical(case: &Case, name: &str) -> Result<Array, CallError> {
    let operand = case.expect(name)?;
    operand.array.gather(&operand.layout)
}

/// A float operand: its extents and its exact elements in row-major order.
struct Values {
    dims: Vec<usize>,
    of: Vec<f64>,
}

fn values(case: &Case, name: &str) -> Result<Values, CallError> {
    let dims = case.expect(name)?.layout.dims().to_vec();
    Ok(Values { dims, of: logical(case, name)?.to_f64()? })
}

fn optional(case: &Case, name: &str) -> Result<Option<Values>, CallError> {
    case.operand(name).map(|_| values(case, name)).transpose()
}

/// `Σ a · b`. For types narrower than f64, plain f64 is precise enough and several times faster.
fn dot(dtype: DType, terms: impl Iterator<Item = (f64, f64)>) -> Double {
    if dtype == DType::F64 { Double::dot(terms) } else { Double::of(terms.map(|(a, b)| a * b).sum()) }
}

/// `eˣ`, with the precision of [`dot`].
fn exp(dtype: DType, x: Double) -> Double {
    if dtype == DType::F64 { x.exp() } else { Double::of(x.nearest().exp()) }
}

/// A computed output, with the op's tolerance for the output's type.
fn want(case: &Case, op: &impl Op, name: &'static str, values: &[Double]) -> Result<Want, CallError> {
    let tolerance = op.tolerance(name, case.dtype_of(name)?, &Weight::of(case));
    let values: Vec<f64> = values.iter().map(|v| v.nearest()).collect();
    Ok(Want { name: name.into(), values: Array::from_slice(&values)?, tolerance })
}

/// The weight, if the case has one, because tolerances may depend on it.
struct Weight(Option<(&'static str, DType, Layout)>);

impl Weight {
    fn of(case: &Case) -> Self {
        Self::named(case, "weight")
    }
    fn named(case: &Case, name: &'static str) -> Self {
        Weight(case.operand(name).map(|weight| (name, weight.array.dtype(), weight.layout)))
    }
}
impl Operands for Weight {
    fn count(&self) -> usize {
        1
    }
    fn operand(&self, index: usize) -> Option<Operand<'_>> {
        let (name, dtype, layout) = self.0.as_ref().filter(|_| index == 0)?;
        Some(Operand { name, role: Role::In, dtype: *dtype, layout, packing: None })
    }
}

/// An output that must match element by element.
fn exactly(name: &str, values: Array) -> Want {
    Want { name: name.into(), values, tolerance: Tolerance::Exact }
}

fn affine(case: &Case) -> Wants {
    let (mul, add) = (case.params.f64("mul")?, case.params.f64("add")?);
    let line = |x: &f64| Double::of(*x) * Double::of(mul) + Double::of(add);
    let y: Vec<Double> = values(case, "x")?.of.iter().map(line).collect();
    let output = if case.op == "affine" { "y" } else { "x" };
    Ok(vec![want(case, &Affine::<f64>::new(mul, add), output, &y)?])
}

/// Functions of one or two elements.
fn by_element(case: &Case, name: &str) -> Wants {
    let missing = || CallError::Malformed(format!("no oracle for {name}"));
    if let Some(f) = functions::unary(name) {
        let op = UnaryFn::ALL.into_iter().find(|f| f.name() == name).ok_or_else(missing)?;
        let y: Vec<Double> = values(case, "x")?.of.iter().map(|x| f(Double::of(*x))).collect();
        return Ok(vec![want(case, &Unary::<f64>::of(op), "y", &y)?]);
    }
    let f = functions::binary(name).ok_or_else(missing)?;
    let glu = match name {
        "swiglu" => Some(GluFn::Swiglu),
        "geglu" => Some(GluFn::Geglu),
        _ => None,
    };
    let (a, b) = if glu.is_some() { ("gate", "up") } else { ("a", "b") };
    let (a, b) = (values(case, a)?.of, values(case, b)?.of);
    let y: Vec<Double> = a.iter().zip(b).map(|(a, b)| f(Double::of(*a), Double::of(b))).collect();
    if let Some(glu) = glu {
        return Ok(vec![want(case, &Glu::<f64>::of(glu), "y", &y)?]);
    }
    let op = BinaryFn::ALL.into_iter().find(|f| f.name() == name).ok_or_else(missing)?;
    Ok(vec![want(case, &Binary::<f64>::of(op), "y", &y)?])
}
