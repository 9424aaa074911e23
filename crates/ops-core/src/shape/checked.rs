//! Shapes that may not exist: what makes them returns errors.
use super::{MAX_RANK, Shape};
use crate::{Error, Result};

impl Shape {
    /// A shape of these extents.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] axes, or more elements than the address space holds.
    #[inline]
    pub fn new(dims: &[usize]) -> Result<Self> {
        if dims.len() > MAX_RANK {
            return Err(Error::Rank { got: dims.len(), max: MAX_RANK });
        }
        let mut shape = Shape { rank: dims.len() as u8, dims: [1; MAX_RANK] };
        shape.dims[..dims.len()].copy_from_slice(dims);
        let mut elements = 1usize;
        for &d in dims {
            elements = elements
                .checked_mul(d.max(1))
                .filter(|n| isize::try_from(*n).is_ok())
                .ok_or_else(|| Error::TooLarge { dims: dims.into() })?;
        }
        Ok(shape)
    }

    /// The shape with its innermost extent replaced.
    ///
    /// # Errors
    /// As [`Shape::new`]; a scalar has no innermost axis.
    #[inline]
    pub fn with_last(&self, n: usize) -> Result<Self> {
        let Some(outer) = self.rank().checked_sub(1) else {
            return Err(Error::Axis { of: None, axis: -1, rank: 0 });
        };
        let mut dims = self.dims;
        dims[outer] = n;
        Shape::new(&dims[..self.rank()])
    }

    /// Resolves an axis, which may count from the end, to an index.
    ///
    /// # Errors
    /// The shape has no such axis.
    #[inline]
    pub fn axis(&self, axis: isize) -> Result<usize> {
        let from_start = if axis < 0 { axis + self.rank() as isize } else { axis };
        usize::try_from(from_start).ok().filter(|a| *a < self.rank()).ok_or(Error::Axis {
            of: None,
            axis,
            rank: self.rank(),
        })
    }

    /// The shape to which both broadcast, with axes aligned at the innermost.
    ///
    /// # Errors
    /// Two extents differ and neither is 1.
    pub fn broadcast_with(&self, other: &Shape) -> Result<Shape> {
        let rank = self.rank().max(other.rank());
        let mut dims = [1; MAX_RANK];
        for (i, dim) in dims.iter_mut().enumerate().take(rank) {
            let at = |s: &Shape| (i + s.rank()).checked_sub(rank).map_or(1, |j| s.dims[j]);
            *dim = match (at(self), at(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return Err(Error::broadcast(self, other)),
            };
        }
        Shape::new(&dims[..rank])
    }
}
