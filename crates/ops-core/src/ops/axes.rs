//! The axes of a reduction.
use crate::error::About;
use crate::{Error, Layout, MAX_RANK, Result, Shape};

/// A set of axes to reduce over, and whether the result keeps them with extent 1.
///
/// It is made from one axis, an array of axes, or [`Axes::ALL`]. Negative axes count from the end. An empty
/// set reduces nothing.
///
/// ```
/// use rocm_ops::ops::Axes;
///
/// let last = Axes::from(-1);
/// let two = Axes::from([0, 2]).keep_dims();
/// assert_ne!(last, two);
/// assert_ne!(Axes::ALL, Axes::from([]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axes {
    list: [isize; MAX_RANK],
    /// `None` for all axes.
    len: Option<u8>,
    keep: bool,
}

/// The layouts of a reduction, each with as few axes as possible.
#[derive(Clone, Copy, Debug)]
pub struct Reduction {
    /// The axes of `x` that are kept, at index 0 of the others.
    pub kept: Layout,
    /// The same axes of `y`.
    pub y: Layout,
    /// The axes of `x` that are reduced, at index 0 of the others. Its offset is that of `kept`.
    pub reduced: Layout,
}

impl Axes {
    /// All axes.
    pub const ALL: Self = Axes { list: [0; MAX_RANK], len: None, keep: false };

    /// The given axes.
    ///
    /// # Errors
    /// [`Error::Rank`] if there are more than a tensor can have.
    pub fn new(axes: &[isize]) -> Result<Self> {
        if axes.len() > MAX_RANK {
            return Err(Error::Rank { got: axes.len(), max: MAX_RANK });
        }
        let mut list = [0; MAX_RANK];
        list[..axes.len()].copy_from_slice(axes);
        Ok(Axes { list, len: Some(axes.len() as u8), keep: false })
    }

    /// Keeps the reduced axes, with extent 1.
    pub fn keep_dims(self) -> Self {
        Axes { keep: true, ..self }
    }

    /// The axes; `None` for all.
    pub fn list(&self) -> Option<&[isize]> {
        self.len.map(|len| &self.list[..usize::from(len)])
    }
    /// Whether the reduced axes are kept.
    pub fn keeps_dims(&self) -> bool {
        self.keep
    }

    /// Whether each axis of a tensor of this shape is reduced.
    ///
    /// # Errors
    /// [`Error::Axis`], and [`Error::Param`] for an axis that is given twice.
    pub fn mask(&self, op: &'static str, x: &Shape) -> Result<[bool; MAX_RANK]> {
        let Some(len) = self.len else { return Ok([true; MAX_RANK]) };
        let mut mask = [false; MAX_RANK];
        for axis in &self.list[..usize::from(len)] {
            if core::mem::replace(&mut mask[x.axis(*axis).about(op, "x")?], true) {
                let given = &self.list[..usize::from(len)];
                return Err(Error::param(op, "axes", format!("{given:?}"), "each axis once"));
            }
        }
        Ok(mask)
    }

    /// The shape of a reduction of `x` over these axes. With `needs_elements`, a reduced axis of extent 0 is an error.
    pub(super) fn infer(&self, op: &'static str, x: &Layout, needs_elements: bool) -> Result<Shape> {
        let mask = self.mask(op, &x.shape())?;
        let (mut dims, mut rank) = ([0; MAX_RANK], 0);
        for (d, reduced) in x.dims().iter().zip(mask) {
            if reduced && needs_elements && *d == 0 {
                return Err(Error::shape(op, "x", x, "at least one element along every reduced axis"));
            }
            if !reduced || self.keep {
                dims[rank] = if reduced { 1 } else { *d };
                rank += 1;
            }
        }
        Shape::new(&dims[..rank])
    }

    /// The layouts of a reduction of `x` to `y`, for kernels.
    ///
    /// # Errors
    /// As [`mask`](Self::mask), and if `y` does not have the shape of the result.
    pub fn split(&self, op: &'static str, x: &Layout, y: &Layout) -> Result<Reduction> {
        let mask = self.mask(op, &x.shape())?;
        let (mut kept, mut reduced) = (Vec6::new(), Vec6::new());
        for (axis, is_reduced) in mask.into_iter().enumerate().take(x.rank()) {
            if is_reduced { reduced.push(axis) } else { kept.push(axis) }
        }
        let kept_of_x = along(x, kept.list())?;
        let y = if self.keep { y.pick(kept.list())? } else { *y };
        super::extents(op, "y", &y, kept_of_x.dims())?;
        let [kept, y] = Layout::merged([&kept_of_x, &y]);
        let [reduced] = Layout::merged([&along(x, reduced.list())?]);
        Ok(Reduction { kept, y, reduced })
    }
}

/// The layout of `x` along these axes. If `x` is empty, kernels visit no element: every position is the offset.
fn along(x: &Layout, axes: &[usize]) -> Result<Layout> {
    if !x.is_empty() {
        return x.pick(axes);
    }
    let mut dims = [0; MAX_RANK];
    dims.iter_mut().zip(axes).for_each(|(d, a)| *d = x.dims()[*a]);
    Layout::strided(&dims[..axes.len()], &[0; MAX_RANK][..axes.len()], x.offset())
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Axes::from([axis])
    }
}
impl<const N: usize> From<&[isize; N]> for Axes {
    fn from(axes: &[isize; N]) -> Self {
        Axes::from(*axes)
    }
}
impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        const { assert!(N <= MAX_RANK, "a tensor has fewer axes") }
        let mut list = [0; MAX_RANK];
        list[..N].copy_from_slice(&axes);
        Axes { list, len: Some(N as u8), keep: false }
    }
}

/// A list of axes without heap memory.
struct Vec6([usize; MAX_RANK], usize);

impl Vec6 {
    fn new() -> Self {
        Vec6([0; MAX_RANK], 0)
    }
    fn push(&mut self, axis: usize) {
        self.0[self.1] = axis;
        self.1 += 1;
    }
    fn list(&self) -> &[usize] {
        &self.0[..self.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(axes: Axes, dims: &[usize]) -> Result<Vec<usize>> {
        axes.infer("sum", &Layout::contiguous(dims)?, false).map(|shape| shape.dims().to_vec())
    }

    #[test]
    fn reduced_axes_disappear_or_stay_with_extent_1() {
        assert_eq!(shape(Axes::from([0, -1]), &[2, 3, 4]).unwrap(), [3]);
        assert_eq!(shape(Axes::from([0, -1]).keep_dims(), &[2, 3, 4]).unwrap(), [1, 3, 1]);
        assert_eq!(shape(Axes::ALL, &[2, 3, 4]).unwrap(), []);
        assert_eq!(shape(Axes::ALL.keep_dims(), &[2, 3]).unwrap(), [1, 1]);
        assert_eq!(shape(Axes::from([]), &[2, 3]).unwrap(), [2, 3]);
        assert_eq!(shape(Axes::ALL, &[]).unwrap(), []);
    }

    #[test]
    fn wrong_axes_are_errors() {
        assert!(matches!(shape(Axes::from(2), &[2, 3]), Err(Error::Axis { axis: 2, rank: 2, .. })));
        assert!(matches!(shape(Axes::from([1, -1]), &[2, 3]), Err(Error::Param { param: "axes", .. })));
        assert!(matches!(Axes::new(&[0; 7]), Err(Error::Rank { .. })));
        let empty = Layout::contiguous(&[0, 5]).unwrap();
        assert!(Axes::from(1).infer("max", &empty, true).is_ok());
        let error = Axes::from(0).infer("max", &empty, true).unwrap_err().to_string();
        assert_eq!(error, "max: x has shape [0, 5], expected at least one element along every reduced axis");
    }

    #[test]
    fn kernels_see_merged_axes() {
        let x = Layout::contiguous(&[2, 3, 4, 5]).unwrap();
        let y = Layout::contiguous(&[2, 3, 1, 1]).unwrap();
        let split = Axes::from([2, 3]).keep_dims().split("sum", &x, &y).unwrap();
        assert_eq!((split.kept.dims(), split.kept.strides()), (&[6][..], &[20][..]));
        assert_eq!((split.reduced.dims(), split.reduced.strides()), (&[20][..], &[1][..]));
        assert_eq!(split.y.dims(), [6]);
        assert!(Axes::from(0).split("sum", &x, &y).is_err());
    }
}
