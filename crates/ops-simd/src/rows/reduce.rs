//! Reductions of rows to numbers.

use super::fold::{Maximum, Squares, Sum, flip_of, fold, total, totals_from};
use crate::element::{Element, View};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// The mean of a row and the mean squared deviation from it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// Σx / n
    pub mean: f32,
    /// Σ(x − mean)² / n
    pub variance: f32,
}

/// `y[r] = Σ x[r, i]` over rows of length `n`; 0 for empty rows.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` elements for each element of `y`.
pub fn sum<T: Element>(isa: Isa, x: &[T], n: usize, y: &mut [f32]) -> Result<(), Error> {
    check(x.len(), n, y.len())?;
    each_row(isa, T::view(x), n, y, Total(Sum));
    Ok(())
}

/// `y[r] = Σ x[r, i]²` over rows of length `n`; 0 for empty rows.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` elements for each element of `y`.
pub fn sum_of_squares<T: Element>(isa: Isa, x: &[T], n: usize, y: &mut [f32]) -> Result<(), Error> {
    check(x.len(), n, y.len())?;
    each_row(isa, T::view(x), n, y, Total(Squares));
    Ok(())
}

/// y\[r\] = the largest of x\[r, ..\]: NaN if any is NaN, −∞ for empty rows.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` elements for each element of `y`.
pub fn max<T: Element>(isa: Isa, x: &[T], n: usize, y: &mut [f32]) -> Result<(), Error> {
    check(x.len(), n, y.len())?;
    each_row(isa, T::view(x), n, y, Largest(flip_of(false)));
    Ok(())
}

/// y\[r\] = the smallest of x\[r, ..\]: NaN if any is NaN, ∞ for empty rows.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` elements for each element of `y`.
pub fn min<T: Element>(isa: Isa, x: &[T], n: usize, y: &mut [f32]) -> Result<(), Error> {
    check(x.len(), n, y.len())?;
    each_row(isa, T::view(x), n, y, Largest(flip_of(true)));
    Ok(())
}

/// The index of the largest (or smallest) element of `x`: of the first NaN if there is one, otherwise of the first among equal
/// elements; 0 for an empty row. `x` has at most 2³² elements.
pub fn arg<T: Element>(isa: Isa, smallest: bool, x: &[T]) -> usize {
    let flip = flip_of(smallest);
    let found = match T::view(x) {
        View::F32(x) => isa.run(Arg { x, flip }),
        View::F16(x) => isa.run(Arg { x, flip }),
        View::Bf16(x) => isa.run(Arg { x, flip }),
    };
    found.or_else(|| find(isa, x, f32::NAN)).unwrap_or(0)
}

/// The first element of `x` that equals `value`; the first NaN if `value` is NaN.
pub fn find<T: Element>(isa: Isa, x: &[T], value: f32) -> Option<usize> {
    match T::view(x) {
        View::F32(x) => isa.run(Find { x, value }),
        View::F16(x) => isa.run(Find { x, value }),
        View::Bf16(x) => isa.run(Find { x, value }),
    }
}

/// y\[r\] = mean and biased variance of x\[r, ..\]; NaN for empty rows. The row's first element is subtracted before summing,
/// so a mean far larger than the deviation costs no precision.
///
/// # Errors
/// [`Error::Length`] if `x` does not have `n` elements for each element of `y`.
pub fn moments<T: Element>(isa: Isa, x: &[T], n: usize, y: &mut [Moments]) -> Result<(), Error> {
    check(x.len(), n, y.len())?;
    each_row(isa, T::view(x), n, y, MeanAndVariance);
    Ok(())
}

fn check(len: usize, n: usize, rows: usize) -> Result<(), Error> {
    same_len("x", len, n.saturating_mul(rows))
}

/// A function from a row to a value.
pub(crate) trait Row: Copy {
    type Value;
    fn row<S: Simd, T: Element>(self, s: S, x: &[T]) -> Self::Value;
}

fn each_row<R: Row>(isa: Isa, x: View<'_>, n: usize, y: &mut [R::Value], row: R) {
    match x {
        View::F32(x) => isa.run(EachRow { x, n, y, row }),
        View::F16(x) => isa.run(EachRow { x, n, y, row }),
        View::Bf16(x) => isa.run(EachRow { x, n, y, row }),
    }
}

struct EachRow<'a, T, R: Row> {
    x: &'a [T],
    n: usize,
    y: &'a mut [R::Value],
    row: R,
}

impl<T: Element, R: Row> VectorFn for EachRow<'_, T, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        for (r, y) in self.y.iter_mut().enumerate() {
            *y = self.row.row(s, &self.x[r * self.n..][..self.n]);
        }
    }
}

#[derive(Clone, Copy)]
struct Total<F>(F);

impl<F: super::fold::Fold> Row for Total<F> {
    type Value = f32;
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T]) -> f32 {
        total(s, x, self.0) as f32
    }
}

/// The largest after these bits are flipped.
#[derive(Clone, Copy)]
struct Largest(i32);

impl Row for Largest {
    type Value = f32;
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T]) -> f32 {
        let largest = s.reduce_maximum(fold(s, x, Maximum(self.0)));
        f32::from_bits(largest.to_bits() ^ self.0 as u32)
    }
}

/// The index of the largest element after the bits are flipped; `None` if any is NaN.
struct Arg<'a, T> {
    x: &'a [T],
    flip: i32,
}

impl<T: Element> VectorFn for Arg<'_, T> {
    type Output = Option<usize>;

    /// Finds the part that holds the largest element first, and then the element in it.
    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Option<usize> {
        let Arg { x, flip } = self;
        let flipped = |x: f32| f32::from_bits(x.to_bits() ^ flip as u32);
        let part = 32 * S::LANES;
        let (mut largest, mut found) = (f32::NEG_INFINITY, 0);
        for (i, x) in x.chunks_exact(part).enumerate() {
            let mut best = [s.splat(f32::NEG_INFINITY); 4];
            for x in x.chunks_exact(4 * S::LANES) {
                let mut k = 0;
                while k < 4 {
                    let v = T::load(s, &x[k * S::LANES..(k + 1) * S::LANES]);
                    best[k] = s.maximum(s.from_bits(s.xor_i(s.to_bits(v), s.splat_i(flip))), best[k]);
                    k += 1;
                }
            }
            let best = s.maximum(s.maximum(best[0], best[1]), s.maximum(best[2], best[3]));
            if !s.all(s.le(best, s.splat(largest))) {
                largest = s.reduce_maximum(best);
                if largest.is_nan() {
                    return None;
                }
                found = i * part;
            }
        }
        let rest = x.len() - x.len() % part;
        let mut index = None;
        for (i, v) in x[rest..].iter().enumerate() {
            let v = flipped(v.to_f32());
            if v.is_nan() {
                return None;
            }
            if v > largest {
                (largest, index) = (v, Some(rest + i));
            }
        }
        // The first of equal elements lies in the first part that holds one. If none is above -∞, it is the first of all.
        index.or_else(|| {
            let x = &x[found..x.len().min(found + part)];
            Find { x, value: flipped(largest) }.run(s).map(|i| found + i)
        })
    }
}

struct Find<'a, T> {
    x: &'a [T],
    value: f32,
}

impl<T: Element> VectorFn for Find<'_, T> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> Option<usize> {
        let Find { x, value } = self;
        let (wanted, nan) = (s.splat(value), value.is_nan());
        let is = |x: f32| if nan { x.is_nan() } else { x == value };
        let mut at = 0;
        while x.len() - at >= S::LANES {
            let v = T::load(s, &x[at..at + S::LANES]);
            if s.any(if nan { s.is_nan(v) } else { s.eq(v, wanted) }) {
                break;
            }
            at += S::LANES;
        }
        x[at..].iter().position(|x| is(x.to_f32())).map(|i| at + i)
    }
}

#[derive(Clone, Copy)]
struct MeanAndVariance;

impl Row for MeanAndVariance {
    type Value = Moments;
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T]) -> Moments {
        let shifted = shifted_moments(s, x);
        Moments { mean: shifted.first + shifted.mean, variance: shifted.variance }
    }
}

/// Moments of a row after its first element is subtracted.
pub(crate) struct Shifted {
    pub(crate) first: f32,
    pub(crate) mean: f32,
    pub(crate) variance: f32,
}

#[inline(always)]
pub(crate) fn shifted_moments<S: Simd, T: Element>(s: S, x: &[T]) -> Shifted {
    let mut shift = x.first().map_or(f32::NAN, |x| x.to_f32());
    let mut again = true;
    loop {
        let (shifted, near) = moments_from(s, x, shift);
        if near || !again {
            return shifted;
        }
        // The first element is far from the mean, so it is a poor shift. Use the mean computed with it instead, once.
        shift = shifted.first + shifted.mean;
        again = false;
    }
}

/// The moments relative to `shift`, and whether it is close enough to the mean for the variance to be precise.
#[inline(always)]
fn moments_from<S: Simd, T: Element>(s: S, x: &[T], shift: f32) -> (Shifted, bool) {
    let n = x.len() as f64;
    let [sum, squares] = totals_from(s, x, shift);
    let mean = sum / n;
    let variance = squares / n - mean * mean;
    let near = mean * mean <= 4.0 * variance;
    // A difference of nearly equal numbers may be below 0; NaN stays.
    let variance = if variance < 0.0 { 0.0 } else { variance };
    (Shifted { first: shift, mean: mean as f32, variance: variance as f32 }, near)
}
