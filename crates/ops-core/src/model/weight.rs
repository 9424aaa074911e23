//! A weight of any type a model file holds.
use super::QuantTransformer;
use crate::mirror;
use crate::ops::{CastOps, IndexOps, IndexSelect, LinearOps, QuantOps};
use crate::quant::{Block, BlockQ4_0, BlockQ8_0};
use crate::{Backend, DType, Float, Ref, Result, Space, Tensor, TensorOf, bf16, f16};

/// The weight matrix `[n, k]` of a linear layer or an embedding table, float or quantized.
///
/// Floats are stored as they are; of the block formats the tensor is `[n, k / length]`.
#[derive(Debug)]
#[non_exhaustive]
pub enum Weight<S: Space> {
    /// In f32.
    F32(Tensor<S, f32>),
    /// In f16.
    F16(Tensor<S, f16>),
    /// In bf16.
    BF16(Tensor<S, bf16>),
    /// In blocks of 32 bytes and a scale.
    Q8_0(Tensor<S, BlockQ8_0>),
    /// In blocks of 32 half-bytes and a scale.
    Q4_0(Tensor<S, BlockQ4_0>),
}

impl<S: Space> Weight<S> {
    /// The type of the stored elements.
    pub fn dtype(&self) -> DType {
        match self {
            Weight::F32(w) => w.dtype(),
            Weight::F16(w) => w.dtype(),
            Weight::BF16(w) => w.dtype(),
            Weight::Q8_0(w) => w.dtype(),
            Weight::Q4_0(w) => w.dtype(),
        }
    }

    /// The extents counted in values.
    pub fn dims(&self) -> Vec<usize> {
        fn values<S: Space, Q: Block>(w: &Tensor<S, Q>) -> Vec<usize> {
            let mut dims = w.dims().to_vec();
            if let Some(last) = dims.last_mut() {
                *last = last.saturating_mul(Q::LEN);
            }
            dims
        }
        match self {
            Weight::F32(w) => w.dims().to_vec(),
            Weight::F16(w) => w.dims().to_vec(),
            Weight::BF16(w) => w.dims().to_vec(),
            Weight::Q8_0(w) => values(w),
            Weight::Q4_0(w) => values(w),
        }
    }

    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        fn bytes<S: Space, T: crate::Element>(w: &Tensor<S, T>) -> usize {
            w.layout().len().saturating_mul(size_of::<T>())
        }
        match self {
            Weight::F32(w) => bytes(w),
            Weight::F16(w) => bytes(w),
            Weight::BF16(w) => bytes(w),
            Weight::Q8_0(w) => bytes(w),
            Weight::Q4_0(w) => bytes(w),
        }
    }

    /// A copy in another backend's memory.
    ///
    /// # Errors
    /// A transfer or an allocation fails.
    pub fn mirror<P: Backend<Space = S>, Q: Backend>(&self, from: &P, to: &Q) -> Result<Weight<Q::Space>> {
        Ok(match self {
            Weight::F32(w) => Weight::F32(mirror::copy(w.as_ref(), from, to)?),
            Weight::F16(w) => Weight::F16(mirror::copy(w.as_ref(), from, to)?),
            Weight::BF16(w) => Weight::BF16(mirror::copy(w.as_ref(), from, to)?),
            Weight::Q8_0(w) => Weight::Q8_0(mirror::copy(w.as_ref(), from, to)?),
            Weight::Q4_0(w) => Weight::Q4_0(mirror::copy(w.as_ref(), from, to)?),
        })
    }

    /// `y[.., j] = Σ_k x[.., k] · self[j, k]`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    pub fn linear<T: Float, B: QuantTransformer<T> + Backend<Space = S>>(
        &self,
        backend: &B,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        match self {
            Weight::F32(w) => LinearOps::<T>::linear(backend, x, w),
            Weight::F16(w) => LinearOps::<T>::linear(backend, x, w),
            Weight::BF16(w) => LinearOps::<T>::linear(backend, x, w),
            Weight::Q8_0(w) => backend.qlinear(x, w.as_ref()),
            Weight::Q4_0(w) => backend.qlinear(x, w.as_ref()),
        }
    }

    /// The rows `ids` as `T`: an embedding lookup.
    ///
    /// # Errors
    /// [`Error::Index`](crate::Error::Index), [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    pub fn rows<T: Float, B: QuantTransformer<T> + Backend<Space = S>>(
        &self,
        backend: &B,
        ids: Ref<'_, B, u32>,
    ) -> Result<TensorOf<B, T>> {
        fn float<T: Float, W: Float, B: IndexOps<W> + CastOps<T>>(
            backend: &B,
            table: &TensorOf<B, W>,
            ids: Ref<'_, B, u32>,
        ) -> Result<TensorOf<B, T>> {
            let rows = backend.index_select(table.as_ref(), ids, IndexSelect::axis(0))?;
            backend.cast(rows.as_ref())
        }
        match self {
            Weight::F32(w) => float::<T, f32, B>(backend, w, ids),
            Weight::F16(w) => float::<T, f16, B>(backend, w, ids),
            Weight::BF16(w) => float::<T, bf16, B>(backend, w, ids),
            Weight::Q8_0(w) => QuantOps::<T, BlockQ8_0>::qembedding(backend, w.as_ref(), ids),
            Weight::Q4_0(w) => QuantOps::<T, BlockQ4_0>::qembedding(backend, w.as_ref(), ids),
        }
    }
}
