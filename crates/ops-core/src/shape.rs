//! The extents of a tensor.
use core::fmt;

mod checked;
mod into;

pub use into::IntoShape;

/// The largest number of axes a tensor may have.
pub const MAX_RANK: usize = 6;

/// The extents of a tensor, outermost first. Small and `Copy`.
///
/// The product of the non-zero extents fits an `isize`, so strides and element counts computed from a `Shape`
/// cannot overflow, whatever a file or a user requests.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

impl Shape {
    /// One element, no axes.
    pub const SCALAR: Self = Shape { rank: 0, dims: [1; MAX_RANK] };

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The extents, outermost first.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// Number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }

    /// Whether an extent is 0.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    /// The innermost extent; 1 for a scalar.
    #[inline]
    pub fn last(&self) -> usize {
        self.dims().last().copied().unwrap_or(1)
    }

    pub(crate) fn padded(&self) -> &[usize; MAX_RANK] {
        &self.dims
    }
}

// Unused extents are 1, so all six can be compared at once. The derived comparison would call `memcmp`, which
// is slower here.
impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        let differ = self.dims.iter().zip(&other.dims).fold(0, |d, (a, b)| d | (a ^ b));
        self.rank == other.rank && differ == 0
    }
}
impl core::hash::Hash for Shape {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Default for Shape {
    fn default() -> Self {
        Self::SCALAR
    }
}
impl core::ops::Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        self.dims()
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.dims(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_shapes_are_errors() {
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[0, usize::MAX, 2]).is_err(), "a zero must not hide an overflow");
        assert!(Shape::new(&[1; MAX_RANK + 1]).is_err());
        assert!(Shape::new(&[0, 5]).unwrap().is_empty());
    }

    #[test]
    fn broadcasting_aligns_at_the_innermost_axis() {
        let s = |d: &[usize]| Shape::new(d).unwrap();
        assert_eq!(s(&[3, 1, 5]).broadcast_with(&s(&[4, 1])).unwrap(), s(&[3, 4, 5]));
        assert_eq!(s(&[]).broadcast_with(&s(&[2])).unwrap(), s(&[2]));
        assert_eq!(s(&[1]).broadcast_with(&s(&[0])).unwrap(), s(&[0]));
        assert!(s(&[3]).broadcast_with(&s(&[4])).is_err());
    }
}
