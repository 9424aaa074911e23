//! Ops on quantized tensors, whose elements are blocks.
use super::declare::family;
use super::options::no_options;
use crate::{
    AnyMut, AnyOf, AsAny, AsView, AsViewMut, Backend, DType, Error, Execute, Op, Operands, Result, Shape,
    TensorOf, Tolerance, Written, operands,
};
use core::hash::Hasher;

pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod quantize: Quantize { x: in f32 [.., k], y: out any [.., k] });
    operands!(pub mod dequantize: Dequantize { x: in any [.., k], y: out f32 [.., k] });
}

/// Quantizes each row of `x` to the nearest blocks, in the format of `y`.
///
/// Operands: `x[.., k]` in f32, with `k` a multiple of the block length; `y[.., k / length]` of any block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantize;
no_options!(Quantize);
impl Op for Quantize {
    fn name(&self) -> &'static str {
        "quantize"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::quantize::Shapes<'_>) -> Result<[Shape; 1]> {
        let DType::Block(format) = on.y else {
            return Err(Error::DType { op: self.name(), operand: "y", got: on.y, want: "a block format" });
        };
        if !format.encodes() {
            return Err(Error::DType {
                op: self.name(),
                operand: "y",
                got: on.y,
                want: "a block format that values can be quantized to, such as q4_k; this one is read-only",
            });
        }
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

/// Expands the blocks of `x` to f32.
///
/// Operands: `x[.., n]` of any block format; `y[.., n · length]` in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dequantize;
no_options!(Dequantize);
impl Op for Dequantize {
    fn name(&self) -> &'static str {
        "dequantize"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::dequantize::Shapes<'_>) -> Result<[Shape; 1]> {
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

family! {
    /// Conversion between f32 and any block format. Quantized products are [`Linear`](super::Linear), quantized lookups are
    /// [`Embedding`](super::Embedding).
    pub trait QuantOps: Execute<Quantize>, Execute<Dequantize>;
    methods QuantMethods;
}

/// The methods of [`QuantOps`].
pub trait QuantMethods: Backend {
    /// [`Quantize`] to blocks of `format`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 32], &[127.0f32; 32])?;
    /// let q8_0 = rocm_ops::DType::of::<rocm_ops::quant::BlockQ8_0>();
    /// let blocks = b.quantize(&x, q8_0)?;
    /// assert_eq!((blocks.dims(), blocks.dtype().name()), (&[1, 1][..], "q8_0"));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn quantize(&self, x: impl AsView<Self::Space, f32>, format: DType) -> Result<AnyOf<Self>>
    where
        Self: QuantOps,
    {
        let [shape] = Quantize.infer(&args::quantize::Shapes { x: x.view().layout(), y: format })?;
        let mut y = self.empty_any(format, shape)?;
        if let Some(y) = y.as_mut() {
            self.quantize_into(x, y)?;
        }
        Ok(y)
    }
    /// [`quantize`](Self::quantize) into `y`. The element type of `y` selects the format.
    ///
    /// # Errors
    /// As [`quantize`](Self::quantize), and for an output of another shape.
    fn quantize_into(&self, x: impl AsView<Self::Space, f32>, mut y: AnyMut<'_, Self::Space>) -> Result<()>
    where
        Self: QuantOps,
    {
        self.run(&Quantize, args::quantize::Args { x: x.view(), y: y.reborrow() })
    }
    /// [`Dequantize`]: expands blocks to f32.
    ///
    /// # Errors
    /// A tensor that is not of a block format, and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 32], &[127.0f32; 32])?;
    /// let q8_0 = rocm_ops::DType::of::<rocm_ops::quant::BlockQ8_0>();
    /// let blocks = b.quantize(&x, q8_0)?;
    /// assert_eq!(b.dequantize(&blocks)?.to_vec(&b)?, [127.0; 32]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn dequantize(&self, x: impl AsAny<Self::Space>) -> Result<TensorOf<Self, f32>>
    where
        Self: QuantOps,
    {
        let x = x.any_view();
        let [shape] = Dequantize.infer(&args::dequantize::Shapes { x: x.operand("x"), y: Written })?;
        let mut y = self.empty(shape)?;
        self.dequantize_into(x, &mut y)?;
        Ok(y)
    }
    /// [`dequantize`](Self::dequantize) into `y`.
    ///
    /// # Errors
    /// As [`dequantize`](Self::dequantize), and for an output of another shape.
    fn dequantize_into(
        &self,
        x: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, f32>,
    ) -> Result<()>
    where
        Self: QuantOps,
    {
        self.run(&Dequantize, args::dequantize::Args { x: x.any_view(), y: y.view_mut() })
    }
}
