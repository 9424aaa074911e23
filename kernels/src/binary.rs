//! Binary elementwise ops: `y = f(a, b)`. Stride 0 broadcasts; `y` may be `a` or `b`.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every binary kernel.
    pub struct BinaryArgs {
        /// Shape of all operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The first input; the gate in swiglu and geglu.
        pub a: StridedPointer,
        /// The second input.
        pub b: StridedPointer,
        /// The output.
        pub y: StridedPointer,
    }
}

const NUMBER_OPS: [(&str, &str); 6] = [
    ("add", "Add"),
    ("sub", "Sub"),
    ("mul", "Mul"),
    ("div", "Div"),
    ("maximum", "Maximum"),
    ("minimum", "Minimum"),
];

/// Compiled separately: it takes longer than all others together, and models use the others.
const POW: (&str, &str) = ("pow", "Pow");

const FLOAT_OPS: [(&str, &str); 2] = [("swiglu", "SwiGlu"), ("geglu", "GeGlu")];

pub(crate) fn declare(table: &mut Table) {
    let mut binary = table.of::<BinaryArgs>(Family::Binary, BLOCK);
    for (op, function) in NUMBER_OPS {
        for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
            binary.add(op, &[t], "binary", &[function]);
        }
    }
    for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
        table.of::<BinaryArgs>(Family::Binary, BLOCK).part("pow").add(POW.0, &[t], "binary", &[POW.1]);
    }
    let mut binary = table.of::<BinaryArgs>(Family::Binary, BLOCK);
    for (op, function) in FLOAT_OPS {
        for t in ElementType::FLOATS {
            binary.part("glu").add(op, &[t], "binary", &[function]);
        }
    }
}

/// Prepares `y = op(a, b)`. All views have the shape `dims`; broadcast dimensions have stride 0.
pub fn prepare(
    op: &str,
    dims: &[u64],
    [a, b, y]: [OperandView<'_>; 3],
    device: &Device,
) -> Result<(Launch, BinaryArgs), Refused> {
    let instance = need(op, "", &[a.dtype])?;
    let (shape, [a, b, y]) = elementwise(dims, [a, b, y])?;
    Ok((Launch::elementwise(instance, &shape, device), BinaryArgs { shape, a, b, y }))
}
