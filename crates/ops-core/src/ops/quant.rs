//! Ops on quantized tensors, whose elements are blocks.
use crate::{
    AnyMut, AnyOf, AsAny, DType, Error, Execute, Op, Operands, Ref, Result, Shape, TensorOf, Tolerance, View,
    Written, operands,
};
use core::hash::Hasher;

/// `y` = the nearest blocks to `x`, row by row, in the format of `y`.
///
/// Operands: `x[.., k]` in f32, `k` a multiple of the block's length; `y[.., k / length]` of any block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantize;
operands!(pub mod quantize: Quantize { x: in f32, y: out any });
impl Op for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &quantize::Shapes<'_>) -> Result<[Shape; 1]> {
        let DType::Block(format) = on.y else {
            return Err(Error::DType { op: self.name(), operand: "y", got: on.y, want: "a block format" });
        };
        let len = format.values();
        match on.x.dims() {
            [.., k] if k % len == 0 => Ok([on.x.shape().with_last(k / len)?]),
            _ => Err(Error::shape(self.name(), "x", on.x, format!("[.., a multiple of {len}]"))),
        }
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// `y` = the values of the blocks of `x`.
///
/// Operands: `x[.., n]` of any block format; `y[.., n · length]` in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dequantize;
operands!(pub mod dequantize: Dequantize { x: in any, y: out f32 });
impl Op for Dequantize {
    fn name(&self) -> &'static str {
        "dequantize"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &dequantize::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.require(self.name(), DType::is_block, "a block format")?;
        if on.x.dims().is_empty() {
            return Err(Error::shape(self.name(), "x", on.x.layout, "[.., n]"));
        }
        Ok([on.x.layout.shape().with_last(on.x.last_values()?)?])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Values to blocks of any format and back. Products with blocks are [`Linear`](super::Linear), look-ups
/// [`Embedding`](super::Embedding).
pub trait QuantOps: Execute<Quantize> + Execute<Dequantize> {
    /// [`Quantize`] into `y`, whose type is the format.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and what the backend reports.
    fn quantize_into(&self, x: Ref<'_, Self, f32>, mut y: AnyMut<'_, Self::Space>) -> Result<()> {
        self.run(&Quantize, quantize::Args { x: x.shorten(), y: y.reborrow() })
    }
    /// [`Quantize`] to blocks of `format`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and what the backend reports.
    fn quantize(&self, x: Ref<'_, Self, f32>, format: DType) -> Result<AnyOf<Self>> {
        let [shape] = Quantize.infer(&quantize::Shapes { x: x.layout(), y: format })?;
        let mut y = self.empty_any(format, shape)?;
        if let Some(y) = y.as_mut() {
            self.quantize_into(x, y)?;
        }
        Ok(y)
    }
    /// [`Dequantize`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and what the backend reports.
    fn dequantize_into(&self, x: impl AsAny<Self::Space>, mut y: crate::Mut<'_, Self, f32>) -> Result<()> {
        self.run(&Dequantize, dequantize::Args { x: x.any_view(), y: y.reborrow() })
    }
    /// [`Dequantize`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and what the backend reports.
    fn dequantize(&self, x: impl AsAny<Self::Space>) -> Result<TensorOf<Self, f32>> {
        let [shape] = Dequantize.infer(&dequantize::Shapes { x: x.any_view().operand("x"), y: Written })?;
        let mut y = self.empty(shape)?;
        self.dequantize_into(x, y.as_mut())?;
        Ok(y)
    }
}
impl<B: Execute<Quantize> + Execute<Dequantize>> QuantOps for B {}
