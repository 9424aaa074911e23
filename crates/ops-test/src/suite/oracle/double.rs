//! Double-double numbers: an unevaluated sum of two f64, with about 106 significant bits.
//!
//! Expected values are computed in these, so that ops in f64 are checked with more than f64 precision.
//! Sums and products follow Dekker (1971), Knuth and Shewchuk (1997); dot products follow Ogita, Rump and
//! Oishi (2005). Infinities and NaN behave as in f64; subnormal results have the precision of f64.
use core::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::LazyLock;

/// `hi + lo`, with `lo` at most half an ulp of `hi`; `lo` is 0 if `hi` is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Double {
    hi: f64,
    lo: f64,
}

const LN_2: Double = Double { hi: core::f64::consts::LN_2, lo: 2.319_046_813_846_299_6e-17 };
pub(super) const PI: Double = Double { hi: core::f64::consts::PI, lo: 1.224_646_799_147_353_2e-16 };

/// `1 / n`: multiplying by it is several times faster than dividing by n.
pub(super) static INVERSE: LazyLock<Vec<Double>> =
    LazyLock::new(|| (0..840).map(|n| Double::ONE / Double::of(f64::from(n))).collect());

/// `a + b` without rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `a · b` without rounding error, unless the error is subnormal.
fn two_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

impl Double {
    pub(super) const ZERO: Self = Self::of(0.0);
    pub(super) const ONE: Self = Self::of(1.0);

    /// Exactly `v`.
    pub(super) const fn of(v: f64) -> Self {
        Double { hi: v, lo: 0.0 }
    }
    /// The nearest f64.
    pub(super) const fn nearest(self) -> f64 {
        self.hi
    }
    fn normal(hi: f64, lo: f64) -> Self {
        let sum = hi + lo;
        if !hi.is_finite() || !sum.is_finite() {
            return Self::of(if hi.is_finite() { sum } else { hi });
        }
        Double { hi: sum, lo: lo - (sum - hi) }
    }

    /// `Σ a · b`.
    pub(super) fn dot(terms: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self::weighted(terms.into_iter().map(|(a, b)| (Self::of(a), b)))
    }
    /// `Σ a · b` for double-double factors.
    pub(super) fn weighted(terms: impl IntoIterator<Item = (Self, f64)>) -> Self {
        let mut sum = Self::ZERO;
        terms.into_iter().for_each(|(a, b)| sum.add_product(a, b));
        sum.normalized()
    }
    /// Adds `a · b` to an unfinished sum, which [`normalized`](Self::normalized) finishes.
    pub(super) fn add_product(&mut self, a: Self, b: f64) {
        let (product, error) = two_product(a.hi, b);
        let (sum, lost) = two_sum(self.hi, product);
        *self = Double { hi: sum, lo: self.lo + (lost + (error + a.lo * b)) };
    }
    /// The result of a sum of products.
    pub(super) fn normalized(self) -> Self {
        Self::normal(self.hi, self.lo)
    }
    /// `Σ v`.
    pub(super) fn total(values: impl IntoIterator<Item = Self>) -> Self {
        values.into_iter().fold(Self::ZERO, Self::add)
    }

    pub(super) fn abs(self) -> Self {
        if self.hi < 0.0 { -self } else { self }
    }
    pub(super) fn squared(self) -> Self {
        self * self
    }

    pub(super) fn sqrt(self) -> Self {
        let root = self.hi.sqrt();
        if root == 0.0 || !root.is_finite() {
            return Self::of(root);
        }
        let (square, error) = two_product(root, root);
        let rest = (self.hi - square) - error + self.lo;
        Self::normal(root, rest / (2.0 * root))
    }

    /// `self · 2^power`, for powers that f64 can represent or whose results leave its range.
    fn scaled(self, power: i32) -> Self {
        let (first, second) = (2f64.powi(power / 2), 2f64.powi(power - power / 2));
        Self::normal(self.hi * first * second, self.lo * first * second)
    }

    /// `eˣ − 1` for |x| below one.
    pub(super) fn exp_minus_one_near_zero(self) -> Self {
        const HALVINGS: i32 = 9;
        let x = self.scaled(-HALVINGS);
        // Horner's form of x + x²/2! + … + x⁹/9!, with |x| below 2⁻⁹.
        let mut y =
            INVERSE[2..=9].iter().rev().fold(Self::ONE, |sum, inverse| Self::ONE + sum * x * *inverse);
        y = y * x;
        for _ in 0..HALVINGS {
            y = y + y + y.squared();
        }
        y
    }

    pub(super) fn exp(self) -> Self {
        if self.hi.is_nan() || self.hi > 710.0 || self.hi < -746.0 {
            return Self::of(self.hi.exp());
        }
        let power = (self.hi / LN_2.hi).round();
        let rest = self - LN_2 * Self::of(power);
        (Self::ONE + rest.exp_minus_one_near_zero()).scaled(power as i32)
    }

    pub(super) fn ln(self) -> Self {
        if !(self.hi > 0.0 && self.hi.is_finite()) {
            return Self::of(self.hi.ln());
        }
        // Scale to a range where exp is far from its limits.
        for (out, power) in [(self.hi < 1e-150, 600), (self.hi > 1e150, -600)] {
            if out {
                return self.scaled(power).ln() - LN_2 * Self::of(f64::from(power));
            }
        }
        // One step of Newton's method, starting at the f64 result.
        let near = Self::of(self.hi.ln());
        near + (self * (-near).exp() - Self::ONE)
    }

    pub(super) fn tanh(self) -> Self {
        let magnitude = self.hi.abs();
        if magnitude.is_nan() || magnitude < 1e-100 {
            return self;
        }
        let tanh = if magnitude > 50.0 {
            Self::ONE
        } else {
            let twice = self.abs() + self.abs();
            let e = if twice.hi < 0.5 { twice.exp_minus_one_near_zero() } else { twice.exp() - Self::ONE };
            e / (e + Self::of(2.0))
        };
        if self.hi < 0.0 { -tanh } else { tanh }
    }
}

impl Neg for Double {
    type Output = Self;
    fn neg(self) -> Self {
        Double { hi: -self.hi, lo: -self.lo }
    }
}
impl Add for Double {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (hi, error) = two_sum(self.hi, other.hi);
        let (low, lost) = two_sum(self.lo, other.lo);
        let near = Self::normal(hi, error + low);
        Self::normal(near.hi, near.lo + lost)
    }
}
impl Sub for Double {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}
impl Mul for Double {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let (hi, error) = two_product(self.hi, other.hi);
        Self::normal(hi, error + (self.hi * other.lo + self.lo * other.hi))
    }
}
impl Div for Double {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let first = self.hi / other.hi;
        // 0 divided, division by 0 or ∞, and overflow.
        if first == 0.0 || !first.is_finite() || !other.hi.is_finite() {
            return Self::of(first);
        }
        let rest = self - other * Self::of(first);
        let second = rest.hi / other.hi;
        let rest = rest - other * Self::of(second);
        let near = Self::normal(first, second);
        Self::normal(near.hi, near.lo + rest.hi / other.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two numbers agree to 28 digits.
    fn close(a: Double, b: Double) -> bool {
        (a - b).hi.abs() <= 1e-28 * b.hi.abs()
    }
    fn parts(hi: f64, lo: f64) -> Double {
        Double { hi, lo }
    }

    #[test]
    fn arithmetic_undoes_itself_to_28_digits() {
        for i in 1..2000 {
            let (a, b) = (Double::of(f64::from(i) * 0.37) / Double::of(7.0), Double::of(1.0 / f64::from(i)));
            assert!(close(a * b / b, a), "{i}");
            assert!(close(a + b - b, a), "{i}");
            assert!(close(a.sqrt().squared(), a), "{i}");
        }
    }

    #[test]
    fn constants_and_functions_have_known_digits() {
        // e, ln 10 and √2 to 32 digits: the f64, and the remainder to its own precision.
        assert!(close(Double::ONE.exp(), parts(core::f64::consts::E, 1.445_646_891_729_250_2e-16)));
        assert!(close(Double::of(10.0).ln(), parts(core::f64::consts::LN_10, -2.170_756_223_382_249_4e-16)));
        assert!(close(Double::of(2.0).sqrt(), parts(core::f64::consts::SQRT_2, -9.667_293_313_452_913e-17)));
        assert!(close(LN_2.exp(), Double::of(2.0)));
    }

    #[test]
    fn functions_obey_their_identities() {
        for i in -400i32..400 {
            let x = Double::of(f64::from(i) * 0.173);
            assert!(close(x.exp() * (-x).exp(), Double::ONE), "{i}");
            assert!(i == 0 || close(x.exp().ln(), x), "{i}");
            let (plus, minus) = (x.exp(), (-x).exp());
            // Near 0 the quotient cancels, while tanh does not.
            assert!(i.abs() < 2 || close(x.tanh(), (plus - minus) / (plus + minus)), "{i}");
            assert!((x.tanh().nearest() - x.nearest().tanh()).abs() <= 2e-16, "{i}");
            assert!((x.exp().nearest() / x.nearest().exp() - 1.0).abs() <= 4e-16, "{i}");
        }
    }

    #[test]
    fn a_dot_product_survives_cancellation() {
        let terms = [(1e17, 1.0), (3.0, 0.5), (-1e17, 1.0), (0.1, 10.0), (-1.0, 1.0)];
        let expected = 1.5 + 0.1f64.mul_add(10.0, -1.0);
        assert_eq!(Double::dot(terms).nearest(), expected);
    }

    #[test]
    fn infinities_nan_and_the_ends_of_the_range() {
        let (inf, nan, of) = (f64::INFINITY, f64::NAN, Double::of);
        assert!((of(inf) - of(inf)).nearest().is_nan() && (of(inf) * of(0.0)).nearest().is_nan());
        assert!((of(nan) + of(1.0)).nearest().is_nan() && of(-1.0).sqrt().nearest().is_nan());
        assert!((of(0.0) / of(0.0)).nearest().is_nan() && of(nan).exp().nearest().is_nan());
        assert!(of(nan).tanh().nearest().is_nan() && of(nan).ln().nearest().is_nan());
        assert_eq!((of(1.0) / of(0.0)).nearest(), inf);
        assert_eq!((of(1.0) / of(inf)).nearest(), 0.0);
        assert_eq!((of(f64::MAX) + of(f64::MAX)).nearest(), inf);
        assert_eq!((of(f64::MAX) * of(0.5)).nearest(), f64::MAX / 2.0);
        assert_eq!((of(inf).exp().nearest(), of(-inf).exp().nearest()), (inf, 0.0));
        assert_eq!((of(inf).tanh().nearest(), of(-inf).tanh().nearest()), (1.0, -1.0));
        assert_eq!((of(0.0).ln().nearest(), of(inf).ln().nearest()), (-inf, inf));
        assert_eq!(of(5e-324).sqrt().nearest(), 5e-324f64.sqrt());
        assert_eq!(of(5e-324).ln().nearest(), 5e-324f64.ln());
        assert_eq!(of(f64::MAX).ln().nearest(), f64::MAX.ln());
        assert_eq!((of(-745.0).exp().nearest(), of(-750.0).exp().nearest()), (5e-324, 0.0));
        assert_eq!(of(1e-310).tanh().nearest(), 1e-310);
        assert_eq!(Double::dot([]).nearest(), 0.0);
    }
}
