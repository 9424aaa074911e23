//! Views: new layouts over the same elements.
use super::Layout;
use crate::{Error, MAX_RANK, Result, Shape};

impl Layout {
    fn refuse(&self, view: &'static str, why: String) -> Error {
        Error::View { view, layout: Box::new(*self), why }
    }

    /// `len` elements from `start` along `axis`.
    ///
    /// # Errors
    /// The axis does not exist or is shorter than `start + len`.
    pub fn narrow(&self, axis: isize, start: usize, len: usize) -> Result<Self> {
        let a = self.shape.axis(axis)?;
        let extent = self.dims()[a];
        if start.checked_add(len).is_none_or(|end| end > extent) {
            return Err(self
                .refuse("narrow", format!("axis {a} has {extent} elements, asked for {len} from {start}")));
        }
        let mut view = *self;
        let mut dims = *self.shape.padded();
        dims[a] = len;
        view.shape = Shape::new(&dims[..self.rank()])?;
        if !view.is_empty() {
            view.offset = self.offset.wrapping_add_signed(self.strides[a] * start as isize);
        }
        Ok(view)
    }

    /// Two views that meet at `mid` along `axis`.
    ///
    /// # Errors
    /// The axis does not exist or is shorter than `mid`.
    pub fn split_at(&self, axis: isize, mid: usize) -> Result<(Self, Self)> {
        let extent = self.dims()[self.shape.axis(axis)?];
        let rest = extent
            .checked_sub(mid)
            .ok_or_else(|| self.refuse("split_at", format!("{mid} lies beyond the axis of {extent}")))?;
        Ok((self.narrow(axis, 0, mid)?, self.narrow(axis, mid, rest)?))
    }

    /// The axes in another order.
    ///
    /// # Errors
    /// `order` is not a permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Result<Self> {
        let mut seen = [false; MAX_RANK];
        let fresh = |a: &usize| *a < self.rank() && !core::mem::replace(&mut seen[*a], true);
        if order.len() != self.rank() || !order.iter().all(fresh) {
            return Err(self.refuse("permute", format!("{order:?} is not an order of {} axes", self.rank())));
        }
        let (mut dims, mut strides) = ([1; MAX_RANK], [0; MAX_RANK]);
        for (i, &a) in order.iter().enumerate() {
            (dims[i], strides[i]) = (self.dims()[a], self.strides[a]);
        }
        Ok(Layout { shape: Shape::new(&dims[..order.len()])?, strides, offset: self.offset })
    }

    /// Two axes exchanged.
    ///
    /// # Errors
    /// An axis does not exist.
    pub fn transpose(&self, a: isize, b: isize) -> Result<Self> {
        let (a, b) = (self.shape.axis(a)?, self.shape.axis(b)?);
        let mut order = [0, 1, 2, 3, 4, 5];
        order.swap(a, b);
        self.permute(&order[..self.rank()])
    }

    /// Repeats axes of extent 1, and new outer axes, by stride 0.
    ///
    /// # Errors
    /// An extent differs and is not 1, or `dims` has fewer axes.
    pub fn broadcast(&self, dims: &[usize]) -> Result<Self> {
        let shape = Shape::new(dims)?;
        let wrong = || Error::broadcast(&self.shape, &shape);
        let new_axes = shape.rank().checked_sub(self.rank()).ok_or_else(wrong)?;
        let mut strides = [0; MAX_RANK];
        for (i, (d, s)) in self.dims().iter().zip(self.strides()).enumerate() {
            strides[new_axes + i] = match (*d, dims[new_axes + i]) {
                (from, to) if from == to => *s,
                (1, _) => 0,
                _ => return Err(wrong()),
            };
        }
        Ok(Layout { shape, strides, offset: self.offset })
    }

    /// Without the axis, which must have extent 1.
    ///
    /// # Errors
    /// The axis does not exist or is longer.
    pub fn squeeze(&self, axis: isize) -> Result<Self> {
        let a = self.shape.axis(axis)?;
        if self.dims()[a] != 1 {
            return Err(self.refuse("squeeze", format!("axis {a} has {} elements, not 1", self.dims()[a])));
        }
        let (mut dims, mut strides) = (self.dims().to_vec(), self.strides().to_vec());
        dims.remove(a);
        strides.remove(a);
        Self::strided(&dims, &strides, self.offset)
    }

    /// With a new axis of extent 1 before `axis` (`-1` puts it innermost).
    ///
    /// # Errors
    /// The place does not exist or there are [`MAX_RANK`] axes already.
    pub fn unsqueeze(&self, axis: isize) -> Result<Self> {
        let places = self.rank() as isize + 1;
        let a = if axis < 0 { axis + places } else { axis };
        let Some(a) = usize::try_from(a).ok().filter(|a| *a <= self.rank()) else {
            return Err(Error::Axis { axis, rank: self.rank() });
        };
        let (mut dims, mut strides) = (self.dims().to_vec(), self.strides().to_vec());
        dims.insert(a, 1);
        strides.insert(a, 1);
        Self::strided(&dims, &strides, self.offset)
    }

    /// The same elements in the same order under other extents, where strides allow it.
    ///
    /// # Errors
    /// The number of elements differs, or an axis would have to be cut where the memory has a gap:
    /// make the tensor contiguous first.
    pub fn reshape(&self, dims: &[usize]) -> Result<Self> {
        let shape = Shape::new(dims)?;
        if shape.len() != self.len() {
            return Err(
                self.refuse("reshape", format!("{shape} has {} elements, not {}", shape.len(), self.len()))
            );
        }
        if self.is_empty() || self.is_contiguous() {
            return Ok(Layout { offset: self.offset, ..Self::of(shape) });
        }
        let strides = self.reshape_strides(&shape).ok_or_else(|| {
            self.refuse(
                "reshape",
                format!("{shape} would cross a gap in memory; copy to a contiguous tensor first"),
            )
        })?;
        Ok(Layout { shape, strides, offset: self.offset })
    }

    /// Walks both shapes from the innermost axis, matching groups of axes of equal size; inside a
    /// group the old axes must follow one another in memory.
    fn reshape_strides(&self, shape: &Shape) -> Option<[isize; MAX_RANK]> {
        let mut strides = [0; MAX_RANK];
        let mut old = self.dims().iter().zip(self.strides()).filter(|(d, _)| **d != 1).rev().peekable();
        // What is left of the current group: elements still to hand out, and the stride of the next.
        let (mut left, mut step) = (1usize, 1isize);
        for (i, &d) in shape.dims().iter().enumerate().rev() {
            if d == 1 {
                continue;
            }
            while left % d != 0 || left == 1 {
                let (&extent, &stride) = old.next()?;
                if left == 1 {
                    (left, step) = (extent, stride);
                } else {
                    // Extending a group: its elements so far must end where the next axis steps.
                    if step * left as isize != stride {
                        return None;
                    }
                    left *= extent;
                }
            }
            strides[i] = step;
            step *= d as isize;
            left /= d;
        }
        Some(strides)
    }

    /// The same elements in the same order with as few axes as all of `layouts` allow: axes of
    /// extent 1 are dropped, and neighbours that every layout walks in one stride become one.
    ///
    /// All layouts have one shape, which the results share too.
    pub fn merged<const N: usize>(layouts: [&Layout; N]) -> [Layout; N] {
        let mut merged = layouts.map(|l| Layout { shape: Shape::SCALAR, ..*l });
        let Some(first) = layouts.first() else { return merged };
        let mut rank = 0;
        let mut dims = [1; MAX_RANK];
        for (axis, &d) in first.dims().iter().enumerate().filter(|(_, d)| **d != 1) {
            let joins = rank > 0
                && merged
                    .iter()
                    .zip(layouts)
                    .all(|(m, l)| m.strides[rank - 1] == l.strides[axis] * d as isize);
            if !joins {
                rank += 1;
            }
            dims[rank - 1] *= d;
            for (m, l) in merged.iter_mut().zip(layouts) {
                m.strides[rank - 1] = l.strides[axis];
            }
        }
        // A product of extents that fitted before fits still.
        let shape = Shape::new(&dims[..rank]).unwrap_or(first.shape);
        merged.map(|m| Layout { shape, ..m })
    }

    /// The same view of a buffer that starts `by` elements later. Positions below `by` must not be in use.
    pub(crate) fn rebase(&self, by: usize) -> Self {
        Layout { offset: self.offset - by, ..*self }
    }
}
