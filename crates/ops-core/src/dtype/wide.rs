//! Numbers of any type.
use super::Scalar;

/// A number wide enough to hold any [`Scalar`] without loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wide {
    /// The value of any integer type.
    Int(i64),
    /// The value of any float type.
    Float(f64),
}

impl Wide {
    /// The value as `f64`; exact except for large integers.
    #[inline]
    pub fn to_f64(self) -> f64 {
        match self {
            Wide::Int(v) => v as f64,
            Wide::Float(v) => v,
        }
    }
    /// Equality for exact tolerances: −0 equals 0, and NaN equals NaN.
    pub fn same(self, other: Self) -> bool {
        match (self, other) {
            (Wide::Float(a), Wide::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            _ => self == other,
        }
    }
}

impl<T: Scalar> From<T> for Wide {
    fn from(value: T) -> Self {
        value.to_wide()
    }
}
