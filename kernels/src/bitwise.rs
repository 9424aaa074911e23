//! Bitwise functions of integers: `y = f(a, b)` and `y = ~x`. Stride 0 broadcasts; `y` may be an operand.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of functions of two integers.
    pub struct BitwiseArgs {
        /// Shape of all operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The first input.
        pub a: StridedPointer,
        /// The second input; the number of places of a shift.
        pub b: StridedPointer,
        /// The output.
        pub y: StridedPointer,
    }

    /// Arguments of bitwise_not.
    pub struct BitwiseNotArgs {
        /// Shape of both operands, from [`crate::elementwise`].
        pub shape: Shape,
        /// The input.
        pub x: StridedPointer,
        /// The output.
        pub y: StridedPointer,
    }
}

/// The functions of two integers, with their names in the source.
const FUNCTIONS: [(&str, &str); 5] = [
    ("bitwise_and", "And"),
    ("bitwise_or", "Or"),
    ("bitwise_xor", "Xor"),
    ("shift_left", "ShiftLeft"),
    ("shift_right", "ShiftRight"),
];

pub(crate) fn declare(table: &mut Table) {
    for t in ElementType::INTS {
        for (op, function) in FUNCTIONS {
            table.of::<BitwiseArgs>(Family::Bitwise, BLOCK).add(op, &[t], "bitwise", &[function]);
        }
        table.of::<BitwiseNotArgs>(Family::Bitwise, BLOCK).add("bitwise_not", &[t], "bitwise_not", &[]);
    }
}

/// Prepares `y = op(a, b)`. All views have the shape `dims`; broadcast dimensions have stride 0.
pub fn prepare(
    op: &str,
    dims: &[u64],
    [a, b, y]: [OperandView<'_>; 3],
    device: &Device,
) -> Result<(Launch, BitwiseArgs), Refused> {
    let instance = need(op, "", &[a.dtype])?;
    let (shape, [a, b, y]) = elementwise(dims, [a, b, y])?;
    Ok((Launch::elementwise(instance, &shape, device), BitwiseArgs { shape, a, b, y }))
}

/// Prepares `y = ~x`. Both views have the shape `dims`.
pub fn not(
    dims: &[u64],
    [x, y]: [OperandView<'_>; 2],
    device: &Device,
) -> Result<(Launch, BitwiseNotArgs), Refused> {
    let instance = need("bitwise_not", "", &[x.dtype])?;
    let (shape, [x, y]) = elementwise(dims, [x, y])?;
    Ok((Launch::elementwise(instance, &shape, device), BitwiseNotArgs { shape, x, y }))
}
