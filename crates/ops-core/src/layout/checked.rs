//! Layouts that may not exist: what makes them returns errors.
use super::Layout;
use crate::{Error, Result, Shape};

impl Layout {
    /// The row-major layout of these extents.
    ///
    /// # Errors
    /// As [`Shape::new`].
    #[inline]
    pub fn contiguous(dims: &[usize]) -> Result<Self> {
        Ok(Self::of(Shape::new(dims)?))
    }

    /// A layout with any strides. Stride 0 repeats an axis; negative strides walk backwards from `offset`. Strides of an empty
    /// layout lead nowhere: it is given row-major ones.
    ///
    /// # Errors
    /// As [`Shape::new`]; also if the number of strides differs from the number of extents, or if a position
    /// is below 0 or beyond the address space.
    pub fn strided(dims: &[usize], strides: &[isize], offset: usize) -> Result<Self> {
        let shape = Shape::new(dims)?;
        let wrong = |why| Error::Strides { shape: Box::new(shape), why };
        if strides.len() != dims.len() {
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
