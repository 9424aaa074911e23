//! Layouts: where in its buffer a view's elements are.
use crate::{MAX_RANK, Shape};
use core::fmt;
use core::ops::Range;

mod checked;
mod views;

/// The shape, strides and offset of a view, all in elements.
///
/// `Copy`, without heap memory. Every position lies in `0..=isize::MAX`, and every view's positions are among those of the layout
/// that it was made from. The constructors check this and views preserve it. An empty layout has no positions, and no view of it
/// has any.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    shape: Shape,
    strides: [isize; MAX_RANK],
    offset: usize,
}

impl Layout {
    /// The row-major layout of `shape`, starting at position 0.
    #[inline]
    pub fn of(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut step = 1usize;
        for i in (0..shape.rank()).rev() {
            strides[i] = step as isize;
            step *= shape.dims()[i].max(1);
        }
        Layout { shape, strides, offset: 0 }
    }

    /// The extents.
    #[inline]
    pub fn shape(&self) -> Shape {
        self.shape
    }
    /// The extents as a slice.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.shape.dims()
    }
    /// Stride of each axis, in elements.
    #[inline]
    pub fn strides(&self) -> &[isize] {
        &self.strides[..self.rank()]
    }
    /// Position of the first element.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }
    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }
    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.shape.len()
    }
    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shape.is_empty()
    }
    /// The innermost extent; 1 for a scalar.
    #[inline]
    pub fn last(&self) -> usize {
        self.shape.last()
    }
    /// The stride of the innermost axis; 1 for a scalar.
    #[inline]
    pub fn last_stride(&self) -> isize {
        self.strides().last().copied().unwrap_or(1)
    }

    /// Whether the elements are contiguous in row-major order, from any offset.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        let mut want = 1isize;
        for (d, s) in self.dims().iter().zip(self.strides()).rev() {
            if *d == 0 {
                return true;
            }
            if *d != 1 {
                if *s != want {
                    // An empty layout has no gaps.
                    return self.is_empty();
                }
                want *= *d as isize;
            }
        }
        true
    }

    /// Whether each row along the innermost axis is contiguous.
    #[inline]
    pub fn is_last_contiguous(&self) -> bool {
        self.last() <= 1 || self.last_stride() == 1
    }

    /// The positions from the lowest to one past the highest, none from the offset on if the layout is empty; `None` if one of them is
    /// below 0 or above `isize::MAX`.
    #[inline]
    fn reach(&self) -> Option<Range<usize>> {
        // Every call of an op comes here for each operand. Almost all layouts have elements, no negative strides, and numbers so small
        // that 6 products, each below 2^59, and the offset cannot overflow. Unused axes have extent 1.
        let axes = || self.shape.padded().iter().zip(&self.strides);
        let or =
            |all: (usize, usize), (d, s): (&usize, &isize)| (all.0 | d.wrapping_sub(1), all.1 | *s as usize);
        let (extents, strides) = axes().fold((0, 0), or);
        if extents < 1 << 24 && strides < 1 << 35 && self.offset < 1 << 62 {
            let span: usize = axes().map(|(d, s)| (d - 1) * *s as usize).sum();
            return Some(self.offset..self.offset + span + 1);
        }
        self.checked_reach()
    }

    /// [`reach`](Self::reach) of any layout.
    #[cold]
    #[inline(never)]
    fn checked_reach(&self) -> Option<Range<usize>> {
        let (mut low, mut high) = (self.offset, self.offset);
        if !self.is_empty() {
            for (d, s) in self.dims().iter().zip(self.strides()) {
                let span = (*d - 1).checked_mul(s.unsigned_abs())?;
                if *s < 0 { low = low.checked_sub(span)? } else { high = high.checked_add(span)? }
            }
        }
        (high <= isize::MAX as usize).then(|| low..if self.is_empty() { high } else { high + 1 })
    }

    /// The positions from the lowest to one past the highest; empty if the layout is empty.
    #[inline]
    pub fn extent(&self) -> Range<usize> {
        // The constructors reject a layout that reaches too far. If there was one, it would fit no buffer.
        self.reach().unwrap_or(0..usize::MAX)
    }

    /// Whether every element lies in a buffer of `len` elements.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        self.extent().end <= len
    }

    /// Whether no two indices share an element, so that the view may be written.
    ///
    /// The check is sufficient but not necessary: each stride, in ascending order, must step over the span of the smaller ones.
    #[inline]
    pub fn is_injective(&self) -> bool {
        if self.is_contiguous() {
            return true;
        }
        let (mut axes, mut n) = ([(0usize, 0usize); MAX_RANK], 0);
        for (d, s) in self.dims().iter().zip(self.strides()) {
            if *d > 1 {
                axes[n] = (s.unsigned_abs(), *d);
                n += 1;
            }
        }
        axes[..n].sort_unstable();
        let mut span = 1u128;
        axes[..n].iter().all(|(s, d)| {
            let clear = *s as u128 >= span;
            span = span.saturating_add((*d as u128 - 1) * *s as u128);
            clear
        })
    }

    /// The position of the element at `index`, which must lie inside the shape.
    ///
    /// # Panics
    /// The position of an index outside the shape does not fit the address space.
    #[inline]
    pub fn position(&self, index: &[usize]) -> usize {
        let mut steps = index.iter().zip(self.strides());
        let steps =
            steps.try_fold(0isize, |sum, (i, s)| sum.checked_add(isize::try_from(*i).ok()?.checked_mul(*s)?));
        match steps.and_then(|steps| self.offset.checked_add_signed(steps)) {
            Some(position) => position,
            None => panic!("index {index:?} lies outside {self}"),
        }
    }

    /// The position of every element, in row-major order of the indices.
    pub fn positions(&self) -> Positions {
        Positions::new(self.shape, self.strides, self.offset)
    }

    /// The position of the first element of every row along the innermost axis, in row-major order.
    pub fn rows(&self) -> Positions {
        let mut outer = *self.shape.padded();
        if let Some(last) = self.rank().checked_sub(1) {
            // A row of length 0 still counts as a row.
            outer[last] = 1;
        }
        let shape = Shape::new(&outer[..self.rank()]).unwrap_or(self.shape);
        // Rows without elements all start at the offset: strides of an empty layout may lead anywhere.
        let strides = if self.is_empty() { [0; MAX_RANK] } else { self.strides };
        Positions::new(shape, strides, self.offset)
    }

    /// The index of the `n`-th element in row-major order.
    pub fn index_of(&self, n: usize) -> Vec<usize> {
        let mut rest = n;
        let mut index = vec![0; self.rank()];
        for (i, d) in index.iter_mut().zip(self.dims()).rev() {
            *i = rest % d.max(&1);
            rest /= d.max(&1);
        }
        index
    }
}

/// Iterator over the positions of a layout; see [`Layout::positions`].
#[derive(Clone, Debug)]
pub struct Positions {
    dims: [usize; MAX_RANK],
    strides: [isize; MAX_RANK],
    index: [usize; MAX_RANK],
    rank: usize,
    next: usize,
    left: usize,
}

impl Positions {
    fn new(shape: Shape, strides: [isize; MAX_RANK], offset: usize) -> Self {
        let (dims, rank) = (*shape.padded(), shape.rank());
        Positions { dims, strides, index: [0; MAX_RANK], rank, next: offset, left: shape.len() }
    }
}

impl Iterator for Positions {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let now = self.next;
        for i in (0..self.rank).rev() {
            self.index[i] += 1;
            self.next = self.next.wrapping_add_signed(self.strides[i]);
            if self.index[i] < self.dims[i] {
                break;
            }
            self.index[i] = 0;
            // Wrapping arithmetic: this steps back from one step past the last element, which may not be a valid position. Results
            // are exact modulo 2^64, and every position returned is valid.
            let span = self.strides[i].wrapping_mul(self.dims[i] as isize);
            self.next = self.next.wrapping_add_signed(span.wrapping_neg());
        }
        Some(now)
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}
impl ExactSizeIterator for Positions {}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.shape)?;
        if !self.is_contiguous() {
            write!(f, " strides {:?}", self.strides())?;
        }
        if self.offset != 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The methods of a type with a field `layout` that describe its extents.
macro_rules! extents {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> $type {
            /// The layout, counted in elements.
            #[inline]
            pub fn layout(&self) -> &Layout {
                &self.layout
            }
            /// The extents, counted in elements.
            #[inline]
            pub fn shape(&self) -> crate::Shape {
                self.layout.shape()
            }
            /// The extents as a slice.
            #[inline]
            pub fn dims(&self) -> &[usize] {
                self.layout.dims()
            }
        }
    };
}
pub(crate) use extents;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_merge_where_every_layout_walks_on() {
        let a = Layout::contiguous(&[2, 1, 3, 4]).unwrap();
        let [m] = Layout::merged([&a]);
        assert_eq!((m.dims(), m.strides()), (&[24][..], &[1][..]));
        // A gap after each row of the second layout keeps the rows from merging in both.
        let b = Layout::strided(&[2, 1, 3, 4], &[15, 15, 5, 1], 2).unwrap();
        let [m, n] = Layout::merged([&a, &b]);
        assert_eq!((m.dims(), m.strides()), (&[6, 4][..], &[4, 1][..]));
        assert_eq!((n.dims(), n.strides(), n.offset()), (&[6, 4][..], &[5, 1][..], 2));
        assert!(n.positions().eq(b.positions()));
    }

    #[test]
    fn a_step_keeps_every_nth_index_from_the_first_on() {
        let t = Layout::contiguous(&[2, 5]).unwrap();
        let at = |l: Layout| l.positions().collect::<Vec<_>>();
        assert_eq!(at(t.step(-1, 2).unwrap()), [0, 2, 4, 5, 7, 9]);
        assert_eq!(at(t.step(1, 5).unwrap()), [0, 5]);
        assert_eq!(at(t.step(1, usize::MAX).unwrap()), [0, 5]);
        assert_eq!(t.step(1, 1).unwrap(), t);
        let backwards = Layout::strided(&[5], &[-1], 4).unwrap();
        assert_eq!(at(backwards.step(0, 3).unwrap()), [4, 1]);
        let refused = t.step(0, 0).unwrap_err().to_string();
        assert_eq!(refused, "cannot step [2, 5]: axis 0 cannot be walked in steps of 0; 1 keeps every index");
        assert!(t.step(2, 1).is_err());
    }

    #[test]
    fn reshape_follows_strides_where_it_can() {
        let t = Layout::contiguous(&[4, 6]).unwrap().narrow(1, 0, 4).unwrap();
        assert_eq!(t.reshape(&[2, 2, 2, 2]).unwrap().strides(), &[12, 6, 2, 1]);
        assert!(t.reshape(&[16]).is_err());
        assert!(Layout::contiguous(&[2, 3]).unwrap().transpose(0, 1).unwrap().reshape(&[6]).is_err());
    }
}
