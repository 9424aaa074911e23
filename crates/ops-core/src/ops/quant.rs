//! Ops on quantized tensors, whose elements are [`Block`]s.
use crate::quant::Block;
use crate::{
    DType, Error, Execute, Layout, Op, Operands, Ref, Result, Shape, TensorOf, Tolerance, View, Written,
    operands,
};
use core::marker::PhantomData;

/// `y` = the nearest blocks to `x`, row by row.
///
/// Operands: `x[.., k]` in f32, `k` a multiple of the block's length; `y[.., k / length]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantize<Q>(PhantomData<Q>);
impl<Q> Quantize<Q> {
    /// The op: it has no options.
    pub const OP: Self = Quantize(PhantomData);
}
operands!(Quantize<Q: Block> { x: in f32, y: out Q });
impl<Q: Block> Op for Quantize<Q> {
    fn name(&self) -> &'static str {
        "quantize"
    }
    fn infer(&self, on: &QuantizeShapes<'_>) -> Result<[Shape; 1]> {
        match on.x.dims() {
            [.., k] if k % len::<Q>() == 0 => Ok([on.x.shape().with_last(k / len::<Q>())?]),
            _ => Err(Error::shape(self.name(), "x", on.x, format!("[.., a multiple of {}]", len::<Q>()))),
        }
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// `y` = the values of the blocks of `x`.
///
/// Operands: `x[.., n]` of blocks; `y[.., n · length]` in f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dequantize<Q>(PhantomData<Q>);
impl<Q> Dequantize<Q> {
    /// The op: it has no options.
    pub const OP: Self = Dequantize(PhantomData);
}
operands!(Dequantize<Q: Block> { x: in Q, y: out f32 });
impl<Q: Block> Op for Dequantize<Q> {
    fn name(&self) -> &'static str {
        "dequantize"
    }
    fn infer(&self, on: &DequantizeShapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape().with_last(values::<Q>(self.name(), "x", on.x)?)?])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Values in a block, as kernels know it: by the type's [`BlockInfo`](crate::BlockInfo).
const fn len<Q: Block>() -> usize {
    DType::of::<Q>().values()
}

/// Values along the last axis of a tensor of blocks.
fn values<Q: Block>(op: &'static str, operand: &'static str, x: &Layout) -> Result<usize> {
    let blocks = x.dims().last().ok_or_else(|| Error::shape(op, operand, x, "[.., n]"))?;
    blocks.checked_mul(len::<Q>()).ok_or_else(|| Error::TooLarge { dims: x.dims().into() })
}

/// Values to blocks of `Q` and back. Products with blocks are [`Linear`](super::Linear), look-ups
/// [`Embedding`](super::Embedding).
pub trait QuantOps<Q: Block>: Execute<Quantize<Q>> + Execute<Dequantize<Q>> {
    /// [`Quantize`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn quantize(&self, x: Ref<'_, Self, f32>) -> Result<TensorOf<Self, Q>> {
        let op = Quantize::<Q>::OP;
        let [shape] = op.infer(&QuantizeShapes { x: x.layout(), y: Written })?;
        let mut y = self.empty(shape)?;
        self.run(&op, QuantizeArgs { x: x.shorten(), y: y.as_mut() })?;
        Ok(y)
    }
    /// [`Dequantize`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn dequantize(&self, x: Ref<'_, Self, Q>) -> Result<TensorOf<Self, f32>> {
        let op = Dequantize::<Q>::OP;
        let [shape] = op.infer(&DequantizeShapes { x: x.layout(), y: Written })?;
        let mut y = self.empty(shape)?;
        self.run(&op, DequantizeArgs { x: x.shorten(), y: y.as_mut() })?;
        Ok(y)
    }
}
impl<Q: Block, B: Execute<Quantize<Q>> + Execute<Dequantize<Q>>> QuantOps<Q> for B {}
