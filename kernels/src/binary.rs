//! Elementwise ops of two operands: `y = f(a, b)`, broadcast through stride 0; `y` may be `a` or `b`.
use crate::instances::{Arguments, Table};
use crate::{Device, Dtype, Family, Launch, Operand, Shape, find};

const BLOCK: u32 = 256;

/// Arguments of every binary kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct BinaryArgs {
    /// Shape of all operands, from [`crate::elementwise`].
    pub shape: Shape,
    /// First input; the gate in swiglu and geglu.
    pub a: Operand,
    /// Second input.
    pub b: Operand,
    /// Output.
    pub y: Operand,
}

impl Arguments for BinaryArgs {
    const NAME: &'static str = "BinaryArgs";
}

const NUMBER_OPS: [(&str, &str); 6] = [
    ("add", "Add"),
    ("sub", "Sub"),
    ("mul", "Mul"),
    ("div", "Div"),
    ("maximum", "Maximum"),
    ("minimum", "Minimum"),
];

const FLOAT_OPS: [(&str, &str); 2] = [("swiglu", "SwiGlu"), ("geglu", "GeGlu")];

pub(crate) fn declare(table: &mut Table) {
    let mut binary = table.of::<BinaryArgs>(Family::Binary, BLOCK);
    for (op, function) in NUMBER_OPS {
        for t in Dtype::FLOATS.into_iter().chain(Dtype::INTS) {
            binary.add(op, &[t], "binary", &[function]);
        }
    }
    for (op, function) in FLOAT_OPS {
        for t in Dtype::FLOATS {
            binary.add(op, &[t], "binary", &[function]);
        }
    }
}

/// The launch of a binary op on a shape; `None` when there is no such kernel.
pub fn plan(op: &str, dtype: Dtype, shape: &Shape, device: &Device) -> Option<Launch> {
    Some(Launch::elementwise(find(op, "", &[dtype])?, shape, device))
}
