//! What may be given as a shape.
use super::Shape;
use crate::Result;

/// The extents of a tensor as an argument: `[2, 3]`, a slice or a `Vec` of `usize`, a [`Shape`], one `usize` for a vector, or `()`
/// for a scalar; also by reference.
///
/// ```
/// use rocm_ops::{IntoShape, Shape};
///
/// let shape = Shape::new(&[2, 3])?;
/// assert_eq!([2, 3].into_shape()?, shape);
/// assert_eq!(vec![2, 3].into_shape()?, shape);
/// assert_eq!(shape.dims()[..1].into_shape()?, 2usize.into_shape()?);
/// assert_eq!(().into_shape()?, Shape::SCALAR);
/// assert!([1; 7].into_shape().is_err());
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a shape",
    label = "expected extents: `[2, 3]`, a slice or a `Vec` of `usize`, a `Shape`, a `usize`, or `()`",
    note = "extents are of type `usize`"
)]
pub trait IntoShape {
    /// The shape.
    ///
    /// # Errors
    /// As [`Shape::new`].
    fn into_shape(self) -> Result<Shape>;
}

impl IntoShape for Shape {
    #[inline]
    fn into_shape(self) -> Result<Shape> {
        Ok(self)
    }
}
impl IntoShape for &Shape {
    #[inline]
    fn into_shape(self) -> Result<Shape> {
        Ok(*self)
    }
}
impl IntoShape for usize {
    #[inline]
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&[self])
    }
}
impl IntoShape for () {
    #[inline]
    fn into_shape(self) -> Result<Shape> {
        Ok(Shape::SCALAR)
    }
}

/// Implements [`IntoShape`] for types that are lists of extents.
macro_rules! extents {
    ($([$($generics:tt)*] $type:ty),+ $(,)?) => {$(
        impl<$($generics)*> IntoShape for $type {
            #[inline]
            fn into_shape(self) -> Result<Shape> {
                Shape::new(&self[..])
            }
        }
    )+};
}
extents! {
    [] &[usize],
    [const N: usize] [usize; N],
    [const N: usize] &[usize; N],
    [] Vec<usize>,
    [] &Vec<usize>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, MAX_RANK};

    fn shape(extents: impl IntoShape) -> Shape {
        extents.into_shape().unwrap()
    }

    #[test]
    fn every_form_gives_the_same_shape() {
        let (vec, want) = (vec![2, 3], Shape::new(&[2, 3]).unwrap());
        assert_eq!(shape([2, 3]), want);
        assert_eq!(shape(&[2, 3]), want);
        assert_eq!(shape(&vec[..]), want);
        assert_eq!(shape(&vec), want);
        assert_eq!(shape(vec), want);
        assert_eq!(shape(&want), want);
        assert_eq!(shape(want), want);
        assert_eq!(shape(3), Shape::new(&[3]).unwrap());
        assert_eq!((shape(()), shape([])), (Shape::SCALAR, Shape::SCALAR));
    }

    #[test]
    fn shapes_that_cannot_be_are_errors() {
        assert!(matches!([1; MAX_RANK + 1].into_shape(), Err(Error::Rank { .. })));
        assert!(matches!(vec![usize::MAX, 2].into_shape(), Err(Error::TooLarge { .. })));
        assert!(matches!(usize::MAX.into_shape(), Err(Error::TooLarge { .. })));
    }
}
