//! Ops on quantized tensors, whose elements are [`Block`]s.
use super::matmul::rows_times;
use crate::quant::Block;
use crate::{
    DType, Error, Execute, Float, Index, Layout, Mut, Op, Ref, Result, Shape, TensorOf, Tolerance, View,
    Written, operands,
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
    fn tolerance(&self, _: &'static str, _: DType) -> Tolerance {
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
    fn tolerance(&self, _: &'static str, _: DType) -> Tolerance {
        Tolerance::Exact
    }
}

/// [`Linear`](super::Linear) with a quantized weight: `y[.., j] = Σ_k x[.., k] · weight[j, k]`.
///
/// Operands: `x[.., k]`, `weight[n, k / length]` of blocks; `y[.., n]`. A backend may round the
/// activations to 8 bits per block of 32, as the tolerance says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QLinear<T, Q>(PhantomData<(T, Q)>);
impl<T, Q> QLinear<T, Q> {
    /// The op: it has no options.
    pub const OP: Self = QLinear(PhantomData);
}
operands!(QLinear<T: Float, Q: Block> { x: in T, weight: in Q, y: out T });
impl<T: Float, Q: Block> Op for QLinear<T, Q> {
    fn name(&self) -> &'static str {
        "qlinear"
    }
    fn infer(&self, on: &QLinearShapes<'_>) -> Result<[Shape; 1]> {
        let &[n, _] = on.weight.dims() else {
            return Err(Error::shape(self.name(), "weight", on.weight, format!("[n, k / {}]", len::<Q>())));
        };
        Ok([rows_times(self.name(), on.x, n, values::<Q>(self.name(), "weight", on.weight)?)?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType) -> Tolerance {
        match Tolerance::summed(dtype) {
            // Eight-bit activations: 1/127 of the block's largest, uniformly rounded, for values
            // whose mean square is a tenth of their largest square or more.
            Tolerance::Nmse { rounding, .. } => Tolerance::Nmse { base: 1e-4, rounding },
            exact => exact,
        }
    }
}

/// `y[i] = table[ids[i]]`, dequantized: an embedding lookup in a quantized table.
///
/// Operands: `table[rows, k / length]` of blocks, `ids[n]`; `y[n, k]`. Indices as in
/// [`IndexSelect`](super::IndexSelect).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QEmbedding<T, Q, I>(PhantomData<(T, Q, I)>);
impl<T, Q, I> QEmbedding<T, Q, I> {
    /// The op: it has no options.
    pub const OP: Self = QEmbedding(PhantomData);
}
operands!(QEmbedding<T: Float, Q: Block, I: Index> { table: in Q, ids: in I, y: out T });
impl<T: Float, Q: Block, I: Index> Op for QEmbedding<T, Q, I> {
    fn name(&self) -> &'static str {
        "qembedding"
    }
    fn infer(&self, on: &QEmbeddingShapes<'_>) -> Result<[Shape; 1]> {
        let &[_, _] = on.table.dims() else {
            return Err(Error::shape(self.name(), "table", on.table, format!("[rows, k / {}]", len::<Q>())));
        };
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(self.name(), "ids", on.ids, "[n]"));
        };
        Ok([Shape::new(&[n, values::<Q>(self.name(), "table", on.table)?])?])
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

/// Quantized tensors of `Q` beside activations of `T`.
pub trait QuantOps<T: Float, Q: Block>:
    Execute<Quantize<Q>> + Execute<Dequantize<Q>> + Execute<QLinear<T, Q>> + Execute<QEmbedding<T, Q, u32>>
{
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
    /// [`QLinear`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn qlinear_into(
        &self,
        x: Ref<'_, Self, T>,
        weight: Ref<'_, Self, Q>,
        mut y: Mut<'_, Self, T>,
    ) -> Result<()> {
        self.run(&QLinear::OP, QLinearArgs { x: x.shorten(), weight: weight.shorten(), y: y.reborrow() })
    }
    /// [`QLinear`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn qlinear(&self, x: Ref<'_, Self, T>, weight: Ref<'_, Self, Q>) -> Result<TensorOf<Self, T>> {
        let shapes = QLinearShapes { x: x.layout(), weight: weight.layout(), y: Written };
        let [shape] = QLinear::<T, Q>::OP.infer(&shapes)?;
        let mut y = self.empty(shape)?;
        self.qlinear_into(x, weight, y.as_mut())?;
        Ok(y)
    }
    /// [`QEmbedding`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Index`] and what the backend reports.
    fn qembedding(&self, table: Ref<'_, Self, Q>, ids: Ref<'_, Self, u32>) -> Result<TensorOf<Self, T>> {
        let op = QEmbedding::<T, Q, u32>::OP;
        let [shape] = op.infer(&QEmbeddingShapes { table: table.layout(), ids: ids.layout(), y: Written })?;
        let mut y = self.empty(shape)?;
        self.run(&op, QEmbeddingArgs { table: table.shorten(), ids: ids.shorten(), y: y.as_mut() })?;
        Ok(y)
    }
}
impl<T: Float, Q: Block, B> QuantOps<T, Q> for B where
    B: Execute<Quantize<Q>>
        + Execute<Dequantize<Q>>
        + Execute<QLinear<T, Q>>
        + Execute<QEmbedding<T, Q, u32>>
{
}
