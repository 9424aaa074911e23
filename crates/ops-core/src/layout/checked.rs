//! Layouts that may not exist: what makes them returns errors.
use super::Layout;
use crate::{Error, IntoShape, Result};

impl Layout {
    /// The row-major layout of `shape`, starting at position 0.
    ///
    /// # Errors
    /// As [`Shape::new`](crate::Shape::new).
    #[inline]
    pub fn contiguous(shape: impl IntoShape) -> Result<Self> {
        Ok(Self::of(shape.into_shape()?))
    }

    /// A layout with any strides. Stride 0 repeats an axis; negative strides walk backwards from `offset`. Strides of an empty
    /// layout lead nowhere: it is given row-major ones.
    ///
    /// # Errors
    /// As [`Shape::new`](crate::Shape::new); also if the number of strides differs from the number of extents, or if a position
    /// is below 0 or beyond the address space.
    pub fn strided(shape: impl IntoShape, strides: &[isize], offset: usize) -> Result<Self> {
        let shape = shape.into_shape()?;
        let wrong = |why| Error::Strides { shape: Box::new(shape), why };
        if strides.len() != shape.rank() {
            return Err(wrong("every axis needs exactly one stride"));
        }
        let mut layout = Layout { offset, ..Layout::of(shape) };
        if !shape.is_empty() {
            layout.strides[..strides.len()].copy_from_slice(strides);
        }
        match layout.reach() {
            Some(_) => Ok(layout),
            None => Err(wrong("positions must lie between 0 and isize::MAX")),
        }
    }
}
