//! Copies of tensors in another backend's memory, for the combinators.
use crate::{
    AnyOf, AnyRef, AnyTensor, Backend, Element, Result, Tensor, TensorMut, TensorOf, TensorRef, View,
};

/// The extent of a view, copied into `to`'s memory under the same strides.
///
/// # Errors
/// A transfer or an allocation fails.
pub fn copy<P: Backend, Q: Backend, T: Element>(
    x: TensorRef<'_, P::Space, T>,
    from: &P,
    to: &Q,
) -> Result<TensorOf<Q, T>> {
    let extent = x.layout().extent();
    let host = from.read_vec(x.data(), extent.start, extent.len())?;
    Tensor::new(to.upload(&host)?, x.layout().rebase(extent.start))
}

/// As [`copy`], of a view whose element type is a value.
///
/// # Errors
/// A transfer or an allocation fails.
pub fn copy_any<P: Backend, Q: Backend>(x: AnyRef<'_, P::Space>, from: &P, to: &Q) -> Result<AnyOf<Q>> {
    let (extent, size) = (x.layout().extent(), x.dtype().size());
    let host = from.read_vec(x.bytes(), extent.start * size, extent.len() * size)?;
    AnyTensor::new(to.upload(&host)?, x.dtype(), x.layout().rebase(extent.start))
}

/// Memory in `to` under the strides of a view that is to be written: a copy where the view has gaps,
/// since [`write_back`] returns the whole extent.
///
/// # Errors
/// A transfer or an allocation fails.
pub fn like<P: Backend, Q: Backend, T: Element>(
    x: TensorRef<'_, P::Space, T>,
    from: &P,
    to: &Q,
) -> Result<TensorOf<Q, T>> {
    let extent = x.layout().extent();
    if extent.len() != x.layout().len() {
        return copy(x, from, to);
    }
    Tensor::new(to.alloc(extent.len())?, x.layout().rebase(extent.start))
}

/// Copies a mirrored output over the extent it was made from.
///
/// # Errors
/// A transfer fails.
pub fn write_back<P: Backend, Q: Backend, T: Element>(
    mirrored: &TensorOf<Q, T>,
    mut x: TensorMut<'_, P::Space, T>,
    from: &Q,
    to: &P,
) -> Result<()> {
    let extent = x.layout().extent();
    let host = from.read_vec(mirrored.as_ref().data(), 0, extent.len())?;
    to.write(&host, x.data_mut(), extent.start)
}
