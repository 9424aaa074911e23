//! Arithmetic, accumulators and indices.
use super::{Scalar, Wide, bf16, f16};
use core::ops::{BitAnd, BitOr, BitXor, Not};

/// A number with arithmetic, by the rules of all ops. Integers wrap, `x / 0` is 0 and `MIN / -1` is `MIN`. Floats round once,
/// and NaN propagates through maximum, minimum and relu.
pub trait Num: Scalar {
    /// Whether this is a [`Float`].
    const IS_FLOAT: bool;
    /// `self + other`.
    fn add(self, other: Self) -> Self;
    /// `self - other`.
    fn sub(self, other: Self) -> Self;
    /// `self * other`.
    fn mul(self, other: Self) -> Self;
    /// `self / other`; integer division truncates, and division by zero gives 0.
    fn div(self, other: Self) -> Self;
    /// The larger; NaN if either is NaN.
    fn maximum(self, other: Self) -> Self;
    /// The smaller; NaN if either is NaN.
    fn minimum(self, other: Self) -> Self;
    /// `self` to the power of `other`, with the special values of C's `pow`. For integers, the power wraps,
    /// and a negative exponent gives `1 / self^-other`, truncated: 1 or −1 if `self` is 1 or −1, otherwise 0.
    fn pow(self, other: Self) -> Self;
    /// `-self`.
    fn neg(self) -> Self;
    /// The absolute value; `MIN` stays `MIN`.
    fn abs(self) -> Self;
    /// `max(self, 0)`.
    fn relu(self) -> Self;
    /// −1, 0 or 1; NaN gives 0.
    fn sign(self) -> Self;
    /// `mul * self + add`; integers are computed in `f64` and cast back.
    fn affine(self, mul: f64, add: f64) -> Self;
}

/// An integer, whose bits can be combined and shifted. Negative numbers are in two's complement.
pub trait Integer:
    Num + Eq + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> + Not<Output = Self>
{
    /// `self · 2^by`, wrapping. 0 if `by` is negative or at least the number of bits.
    fn shift_left(self, by: Self) -> Self;
    /// `⌊self / 2^by⌋`. If `by` is negative or at least the number of bits: 0, or −1 of a negative number.
    fn shift_right(self, by: Self) -> Self;
}

/// A floating-point element.
///
/// The accumulation rule of the whole workspace: load as `Self`, compute in [`Float::Acc`], round once to nearest even when
/// storing. `f16` and `bf16` accumulate in `f32`.
pub trait Float: Num + Mask {
    /// The type in which sums and functions are computed.
    type Acc: Float<Acc = Self::Acc> + num_traits::Float + Default;
    /// The value, widened.
    fn acc(self) -> Self::Acc;
    /// The nearest value.
    fn from_acc(acc: Self::Acc) -> Self;
}

/// An element of an attention mask: a float to add to the score, or a `u8` flag.
pub trait Mask: Scalar {
    /// Whether elements are flags (non-zero means visible) instead of values to add.
    const FLAG: bool;
    /// The value to add to the score; −∞ hides the key.
    #[inline]
    fn bias(self) -> f64 {
        match (Self::FLAG, self.to_f64()) {
            (false, value) => value,
            (true, 0.0) => f64::NEG_INFINITY,
            (true, _) => 0.0,
        }
    }
}
impl Mask for u8 {
    const FLAG: bool = true;
}

/// An integer that may be a row index, or a condition in `where`.
pub trait Index: Num + Eq {
    /// Resolves the index in `0..bound`. Returns `Ok(None)` for the largest value of the type, which means "no element", and
    /// `Err` with the value if it is out of range.
    #[inline]
    fn resolve(self, bound: usize) -> Result<Option<usize>, i64> {
        if self == Self::NONE {
            return Ok(None);
        }
        let at = self.to_i64();
        usize::try_from(at).ok().filter(|at| *at < bound).map(Some).ok_or(at)
    }
    /// The value that means "no element".
    const NONE: Self;
    /// The value, widened.
    fn to_i64(self) -> i64;
}

/// A power of integers, by squaring. For negative exponents, only the parity matters.
fn integer_power<T: Num>(base: T, exponent: T) -> T {
    let integer = |v: T| match v.to_wide() {
        Wide::Int(v) => v,
        Wide::Float(v) => v as i64,
    };
    let (one, mut left) = (T::from_wide(Wide::Int(1)), integer(exponent));
    if left < 0 {
        return match integer(base) {
            1 => one,
            -1 if left % 2 == 0 => one,
            -1 => base,
            _ => T::from_wide(Wide::Int(0)),
        };
    }
    let (mut power, mut square) = (one, base);
    while left > 0 {
        if left % 2 == 1 {
            power = power.mul(square);
        }
        square = square.mul(square);
        left /= 2;
    }
    power
}

/// Implements [`Num`] for integers, with the wrapping arithmetic of the standard library.
macro_rules! num_int {
    ($($t:ty: |$n:ident| neg $neg:expr, abs $abs:expr, sign $sign:expr;)+) => {$(
        impl Num for $t {
            const IS_FLOAT: bool = false;
            #[inline] fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline] fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            #[inline] fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline] fn div(self, o: Self) -> Self { if o == 0 { 0 } else { self.wrapping_div(o) } }
            #[inline] fn maximum(self, o: Self) -> Self { self.max(o) }
            #[inline] fn minimum(self, o: Self) -> Self { self.min(o) }
            #[inline] fn pow(self, o: Self) -> Self { integer_power(self, o) }
            #[inline] fn neg(self) -> Self { let $n = self; $neg }
            #[inline] fn abs(self) -> Self { let $n = self; $abs }
            #[inline] fn relu(self) -> Self { self.max(0) }
            #[inline] fn sign(self) -> Self { let $n = self; $sign }
            #[inline] fn affine(self, mul: f64, add: f64) -> Self { (self as f64 * mul + add) as $t }
        }
        impl Integer for $t {
            #[inline] fn shift_left(self, by: Self) -> Self {
                // Negative numbers become large ones.
                if (by as u64) < u64::from(Self::BITS) { self << by } else { 0 }
            }
            #[inline] fn shift_right(self, by: Self) -> Self {
                if (by as u64) < u64::from(Self::BITS) { self >> by } else { self >> (Self::BITS - 1) >> 1 }
            }
        }
    )+};
}
num_int! {
    u8:  |x| neg x.wrapping_neg(), abs x, sign x.min(1);
    u32: |x| neg x.wrapping_neg(), abs x, sign x.min(1);
    i8:  |x| neg x.wrapping_neg(), abs x.wrapping_abs(), sign x.signum();
    i16: |x| neg x.wrapping_neg(), abs x.wrapping_abs(), sign x.signum();
    i32: |x| neg x.wrapping_neg(), abs x.wrapping_abs(), sign x.signum();
    i64: |x| neg x.wrapping_neg(), abs x.wrapping_abs(), sign x.signum();
}

/// Implements [`Num`] and [`Float`] for a float and its accumulator.
macro_rules! num_float {
    ($($t:ty, $acc:ty: |$x:ident| $up:expr, |$y:ident| $down:expr;)+) => {$(
        impl Num for $t {
            const IS_FLOAT: bool = true;
            #[inline] fn add(self, o: Self) -> Self { Self::from_acc(self.acc() + o.acc()) }
            #[inline] fn sub(self, o: Self) -> Self { Self::from_acc(self.acc() - o.acc()) }
            #[inline] fn mul(self, o: Self) -> Self { Self::from_acc(self.acc() * o.acc()) }
            #[inline] fn div(self, o: Self) -> Self { Self::from_acc(self.acc() / o.acc()) }
            #[inline] fn maximum(self, o: Self) -> Self {
                let (a, b) = (self.acc(), o.acc());
                if a.is_nan() || a > b { self } else { o }
            }
            #[inline] fn minimum(self, o: Self) -> Self {
                let (a, b) = (self.acc(), o.acc());
                if a.is_nan() || a < b { self } else { o }
            }
            #[inline] fn pow(self, o: Self) -> Self { Self::from_f64(self.to_f64().powf(o.to_f64())) }
            #[inline] fn neg(self) -> Self { -self }
            #[inline] fn abs(self) -> Self { Self::from_acc(self.acc().abs()) }
            #[inline] fn relu(self) -> Self { if self.acc() < 0.0 { Self::from_acc(0.0) } else { self } }
            #[inline] fn sign(self) -> Self {
                let a = self.acc();
                Self::from_acc(if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { 0.0 })
            }
            #[inline] fn affine(self, mul: f64, add: f64) -> Self { Self::from_f64(self.to_f64() * mul + add) }
        }
        impl Mask for $t {
            const FLAG: bool = false;
        }
        impl Float for $t {
            type Acc = $acc;
            #[inline] fn acc(self) -> $acc { let $x = self; $up }
            #[inline] fn from_acc($y: $acc) -> Self { $down }
        }
    )+};
}
num_float! {
    f64, f64: |x| x, |y| y;
    f32, f32: |x| x, |y| y;
    f16, f32: |x| x.to_f32(), |y| f16::from_f32(y);
    bf16, f32: |x| x.to_f32(), |y| bf16::from_f32(y);
}

/// Implements [`Index`]. The largest value of the type means "no element".
macro_rules! index {
    ($($t:ty),+) => {$(
        impl Index for $t {
            const NONE: Self = <$t>::MAX;
            #[inline] fn to_i64(self) -> i64 { self.into() }
        }
    )+};
}
index!(u8, u32, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_never_trap() {
        assert_eq!(Num::div(7i32, 0), 0);
        assert_eq!(Num::div(i32::MIN, -1), i32::MIN);
        assert_eq!(Num::add(250u8, 10), 4);
        assert_eq!(Num::abs(i64::MIN), i64::MIN);
        assert_eq!(Num::neg(1u32), u32::MAX);
        assert_eq!((Num::pow(3i8, 5), Num::pow(2u8, 8), Num::pow(0i32, 0)), (-13, 0, 1));
        assert_eq!((Num::pow(-1i32, -3), Num::pow(-1i64, i64::MIN), Num::pow(2i16, -1)), (-1, 1, 0));
    }

    #[test]
    fn shifts_are_defined_for_every_number_of_places() {
        assert_eq!([0, 7, 8, 255].map(|by| 0x81u8.shift_left(by)), [0x81, 0x80, 0, 0]);
        assert_eq!([0, 7, 8, 255].map(|by| 0x81u8.shift_right(by)), [0x81, 1, 0, 0]);
        assert_eq!([0, 6, 7, 8, -1, i8::MIN].map(|by| (-127i8).shift_right(by)), [-127, -2, -1, -1, -1, -1]);
        assert_eq!([1, 63, 64, -1].map(|by| 3i64.shift_left(by)), [6, i64::MIN, 0, 0]);
        assert_eq!([1, 63, 64, -1].map(|by| i64::MAX.shift_right(by)), [i64::MAX / 2, 0, 0, 0]);
    }

    #[test]
    fn nan_propagates_from_either_side() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN)] {
            assert!(Num::maximum(a, b).is_nan() && Num::minimum(a, b).is_nan());
        }
        assert!(Num::relu(f16::NAN).is_nan());
        assert_eq!(Num::sign(bf16::NAN).to_f32(), 0.0);
    }

    #[test]
    fn indices_know_their_sentinel_and_bound() {
        assert_eq!(3u8.resolve(4), Ok(Some(3)));
        assert_eq!(u8::MAX.resolve(4), Ok(None));
        assert_eq!(4u32.resolve(4), Err(4));
        assert_eq!((-1i64).resolve(4), Err(-1));
    }
}
