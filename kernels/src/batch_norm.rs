//! batch_norm with given statistics.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::quant::kind;
use crate::shape::List;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// A vector whose float type is a value. Mirrors `Parameter` in the source.
    #[derive(Default)]
    pub struct Parameter {
        pub data: u64,
        pub stride: i64,
        pub kind: u32,
        pub reserved: u32,
    }
}

impl Parameter {
    fn of(view: Option<OperandView<'_>>) -> Result<Self, Refused> {
        let Some(view) = view else { return Ok(Parameter::default()) };
        let stride = view.strides.last().copied().unwrap_or(0);
        Ok(Parameter { data: view.data, stride, kind: kind(view.dtype)?, reserved: 0 })
    }
}

arguments! {
    /// Arguments of batch_norm.
    pub struct BatchNormArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub channel: StridedPointer,
        pub weight: Parameter,
        pub bias: Parameter,
        pub mean: Parameter,
        pub var: Parameter,
        pub eps: f64,
        pub wide: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut batch = table.of::<BatchNormArgs>(Family::BatchNorm, BLOCK);
    for t in ElementType::FLOATS {
        batch.add("batch_norm", &[t], "batch_norm", &[]);
    }
}

/// Operands of a batch norm: x\[b, c, ..\], y of the same shape, and vectors of c elements.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct BatchNorm<'a> {
    pub x: OperandView<'a>,
    pub y: OperandView<'a>,
    pub weight: Option<OperandView<'a>>,
    pub bias: Option<OperandView<'a>>,
    pub mean: OperandView<'a>,
    pub var: OperandView<'a>,
    pub eps: f64,
}

/// Prepares batch_norm of x with these dimensions.
pub fn prepare(
    dims: &[u64],
    on: &BatchNorm<'_>,
    device: &Device,
) -> Result<(Launch, BatchNormArgs), Refused> {
    if dims.len() < 2 {
        return Err(Refused::Rank(dims.len()));
    }
    // An operand whose offset is the channel number.
    let steps: List<i64> = (0..dims.len()).map(|axis| i64::from(axis == 1)).collect();
    let channel = OperandView { data: 0, strides: &steps, dtype: on.x.dtype };
    let (mut shape, [x, y, channel]) = elementwise(dims, [on.x, on.y, channel])?;
    if channel.stride[5] != 0 {
        shape = shape.unpacked();
    }
    let parameters = [on.weight, on.bias, Some(on.mean), Some(on.var)];
    let wide = parameters.into_iter().flatten().any(|view| view.dtype == ElementType::F64);
    let [weight, bias, mean, var] = parameters.map(Parameter::of);
    let (weight, bias, mean, var) = (weight?, bias?, mean?, var?);
    let instance = need("batch_norm", "", &[on.x.dtype])?;
    let args =
        BatchNormArgs { shape, x, y, channel, weight, bias, mean, var, eps: on.eps, wide: wide.into() };
    Ok((Launch::elementwise(instance, &shape, device), args))
}
