//! Unary elementwise ops: `y = f(x)`, any shape and strides; `y` may be `x`.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every unary kernel except affine.
    pub struct UnaryArgs {
        /// Shape of both operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The input.
        pub x: StridedPointer,
        /// The output.
        pub y: StridedPointer,
    }

    /// Arguments of affine: `y = x * mul + add`.
    pub struct AffineArgs {
        /// Shape of both operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The input.
        pub x: StridedPointer,
        /// The output.
        pub y: StridedPointer,
        /// The factor.
        pub mul: f64,
        /// The summand.
        pub add: f64,
    }
}

/// Activations of models, on floats only, with the name of their function object in the source. They are
/// compiled separately.
const ACTIVATIONS: [(&str, &str); 5] =
    [("sigmoid", "Sigmoid"), ("silu", "Silu"), ("gelu", "Gelu"), ("gelu_erf", "GeluErf"), ("tanh", "Tanh")];

/// Other ops on floats only, with the name of their function object in the source.
const FLOAT_OPS: [(&str, &str); 14] = [
    ("erf", "Erf"),
    ("exp", "Exp"),
    ("expm1", "Expm1"),
    ("log", "Log"),
    ("log1p", "Log1p"),
    ("softplus", "Softplus"),
    ("sin", "Sin"),
    ("cos", "Cos"),
    ("sqrt", "Sqrt"),
    ("recip", "Recip"),
    ("floor", "Floor"),
    ("ceil", "Ceil"),
    ("round", "Round"),
    ("trunc", "Trunc"),
];

/// Ops on floats and integers, with the name of their function object in the source.
const NUMBER_OPS: [(&str, &str); 5] =
    [("neg", "Neg"), ("abs", "Abs"), ("relu", "Relu"), ("sqr", "Sqr"), ("sign", "Sign")];

pub(crate) fn declare(table: &mut Table) {
    let mut activations = table.of::<UnaryArgs>(Family::Unary, BLOCK);
    for (op, function) in ACTIVATIONS {
        for t in ElementType::FLOATS {
            activations.part("activation").add(op, &[t], "unary", &[function]);
        }
    }
    let mut unary = table.of::<UnaryArgs>(Family::Unary, BLOCK);
    for (op, function) in FLOAT_OPS.into_iter().chain(NUMBER_OPS) {
        for t in ElementType::FLOATS {
            unary.add(op, &[t], "unary", &[function]);
        }
    }
    for (op, function) in NUMBER_OPS {
        for t in ElementType::INTS {
            unary.add(op, &[t], "unary", &[function]);
        }
    }
    let mut affine = table.of::<AffineArgs>(Family::Unary, BLOCK);
    for t in ElementType::FLOATS {
        affine.add("affine", &[t], "affine", &[]);
    }
}

/// Prepares `y = op(x)`. Both views have the shape `dims`.
pub fn prepare(
    op: &str,
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, UnaryArgs), Refused> {
    let instance = need(op, "", &[x.dtype])?;
    let (shape, [x, y]) = elementwise(dims, [x, y])?;
    Ok((Launch::elementwise(instance, &shape, device), UnaryArgs { shape, x, y }))
}

/// Prepares `y = x * mul + add`.
pub fn affine(
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    (mul, add): (f64, f64),
    device: &Device,
) -> Result<(Launch, AffineArgs), Refused> {
    let instance = need("affine", "", &[x.dtype])?;
    let (shape, [x, y]) = elementwise(dims, [x, y])?;
    Ok((Launch::elementwise(instance, &shape, device), AffineArgs { shape, x, y, mul, add }))
}
