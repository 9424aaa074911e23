//! Tensors joined along an axis: copies into parts of the result.
use super::{CopyMethods, CopyOps};
use crate::error::About;
use crate::{AsView, Element, Error, Result, Shape, Space, TensorMut, TensorOf, TensorRef};

/// The extents of `tensors` one after another along `axis`.
fn shape<S: Space, T: Element>(
    op: &'static str,
    tensors: &[TensorRef<'_, S, T>],
    axis: isize,
) -> Result<Shape> {
    let Some(first) = tensors.first() else {
        return Err(Error::param(op, "the number of tensors", 0, "at least 1"));
    };
    let along = first.shape().axis(axis).about(op, "tensor 0")?;
    let mut dims = first.dims().to_vec();
    for (i, tensor) in tensors.iter().enumerate().skip(1) {
        if tensor.dims().len() != dims.len() {
            let want = format!("rank {}, as tensor 0 has; it is tensor {i} of {}", dims.len(), tensors.len());
            return Err(Error::shape(op, "a tensor", tensor.layout(), want));
        }
        let differs = |k: &usize| *k != along && tensor.dims()[*k] != dims[*k];
        if let Some(k) = (0..dims.len()).find(differs) {
            let want = format!(
                "extent {} in axis {k}, as tensor 0 has; it is tensor {i} of {}, and only axis {along} may differ",
                dims[k],
                tensors.len()
            );
            return Err(Error::shape(op, "a tensor", tensor.layout(), want));
        }
        dims[along] = dims[along]
            .checked_add(tensor.dims()[along])
            .ok_or_else(|| Error::TooLarge { dims: tensor.dims().into() })?;
    }
    Shape::new(&dims)
}

/// A new tensor of `tensors`, one after another along `axis`.
pub(super) fn joined<T: Element, B: CopyOps>(
    b: &B,
    op: &'static str,
    tensors: &[TensorRef<'_, B::Space, T>],
    axis: isize,
) -> Result<TensorOf<B, T>> {
    let shape = shape(op, tensors, axis)?;
    let mut y = b.empty(shape)?;
    copy_parts(b, tensors, y.as_mut(), shape.axis(axis)?)?;
    Ok(y)
}

/// [`joined`] into `y`.
pub(super) fn joined_into<T: Element, B: CopyOps>(
    b: &B,
    op: &'static str,
    tensors: &[TensorRef<'_, B::Space, T>],
    y: TensorMut<'_, B::Space, T>,
    axis: isize,
) -> Result<()> {
    let shape = shape(op, tensors, axis)?;
    if y.dims() != shape.dims() {
        return Err(Error::shape(op, "y", y.layout(), shape.to_string()));
    }
    copy_parts(b, tensors, y, shape.axis(axis)?)
}

/// Copies `tensors` into `y`, whose extents they fill along `axis`.
fn copy_parts<T: Element, B: CopyOps>(
    b: &B,
    tensors: &[TensorRef<'_, B::Space, T>],
    mut y: TensorMut<'_, B::Space, T>,
    axis: usize,
) -> Result<()> {
    let mut start = 0;
    for tensor in tensors {
        let len = tensor.dims()[axis];
        b.copy_into(tensor, y.reborrow().narrow(axis as isize, start, len)?)?;
        start += len;
    }
    Ok(())
}

/// The tensors with an axis of 1 at `axis`.
pub(super) fn unsqueezed<'x, S: Space, T: Element>(
    tensors: &'x [impl AsView<S, T>],
    axis: isize,
) -> Result<Vec<TensorRef<'x, S, T>>> {
    tensors.iter().map(|x| x.view().unsqueeze(axis).about("stack", "a tensor")).collect()
}
