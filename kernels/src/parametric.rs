//! Elementwise functions with parameters: `powf`, `clamp`, `elu`; `y` may be `x`.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every function.
    pub struct ParametricArgs {
        /// Shape of both operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The input.
        pub x: StridedPointer,
        /// The output.
        pub y: StridedPointer,
        /// The first parameter: the bits of an f64 for floats, of an i64 for integers.
        pub first: u64,
        /// The second parameter, of functions that have one.
        pub second: u64,
    }
}

/// Functions of floats, with the name of their function object in the source.
const FLOAT_OPS: [(&str, &str); 2] = [("powf", "Powf"), ("elu", "Elu")];

pub(crate) fn declare(table: &mut Table) {
    let mut parametric = table.of::<ParametricArgs>(Family::Parametric, BLOCK);
    for t in ElementType::FLOATS {
        for (op, function) in FLOAT_OPS {
            parametric.add(op, &[t], "parametric", &[function]);
        }
    }
    for t in ElementType::FLOATS.into_iter().chain(ElementType::INTS) {
        parametric.add("clamp", &[t], "parametric", &["Clamp"]);
    }
}

/// Prepares `y = op(x)` with these parameters, as bits. Both views have the shape `dims`.
pub fn prepare(
    op: &str,
    dims: &[u64],
    [x, y]: [OperandView<'_>; 2],
    [first, second]: [u64; 2],
    device: &Device,
) -> Result<(Launch, ParametricArgs), Refused> {
    let instance = need(op, "", &[x.dtype])?;
    let (shape, [x, y]) = elementwise(dims, [x, y])?;
    Ok((Launch::elementwise(instance, &shape, device), ParametricArgs { shape, x, y, first, second }))
}
