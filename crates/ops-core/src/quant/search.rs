//! Scales of groups of values by least squares.
//!
//! A group is stored as `scale · q + offset` with small integers `q`. Both searches round the values with several trial scales.
//! For the integers of each trial, least squares gives the best scale and offset, and the trial with the smallest squared error
//! wins. Sums are in f64, so the result does not depend on their order.

use super::padded;
use crate::f16;

/// How far trial scales reach on both sides of the one that maps the extremes to the first and the last integer, in steps of a
/// tenth of an integer.
const REACH: i32 = 10;

/// `v` rounded to an integer in `low..=high`; NaN gives `low` or 0.
pub(super) fn nearest(v: f32, low: i32, high: i32) -> i32 {
    (v.round_ties_even() as i32).clamp(low, high)
}

/// `1 / v`, or 0 for 0.
pub(super) fn inverse(v: f32) -> f32 {
    if v == 0.0 { 0.0 } else { 1.0 / v }
}

/// The scale and the minimum of `x ≈ scale · q − min` with `q` in `0..=most`; neither is negative.
pub(super) fn scale_and_min(x: &[f32], most: i32) -> (f32, f32) {
    let (low, high) = x.iter().fold((0.0f32, f32::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
    let range = high - low;
    if !(range > 0.0 && range.is_finite()) {
        return (0.0, if low.is_finite() { -low } else { 0.0 });
    }
    let mut best = (f64::INFINITY, range / most as f32, -low);
    for step in -REACH..=REACH {
        let steps = (most as f32 + step as f32 * 0.1) / range;
        let fit = Affine::of(x, |v| nearest((v - low) * steps, 0, most));
        if let Some((scale, offset, error)) = fit.solve().filter(|(_, _, error)| *error < best.0) {
            best = (error, scale as f32, -offset as f32);
        }
    }
    (best.1, best.2)
}

/// The signed scale of `x ≈ scale · q` with `q` in `-most..most`.
pub(super) fn signed_scale(x: &[f32], most: i32) -> f32 {
    signed_scale_by(x, most as f32, 0.1, |v| nearest(v, -most, most - 1) as f32)
}

/// The signed scale of `x ≈ scale · q`, where `round` gives the allowed number nearest to its argument and
/// the one of largest magnitude is `-most`. Trials are `apart` units apart.
pub(super) fn signed_scale_by(x: &[f32], most: f32, apart: f32, round: impl Fn(f32) -> f32) -> f32 {
    let larger =
        |(extreme, most): (f32, f32), v: &f32| if v.abs() > most { (*v, v.abs()) } else { (extreme, most) };
    let (extreme, magnitude) = x.iter().fold((0.0, 0.0), larger);
    if !(magnitude > 0.0 && magnitude.is_finite()) {
        return 0.0;
    }
    let (mut best, mut scale) = (0.0, 0.0);
    // The error is Σx² − (Σxq)² / Σq². The extreme may map to the end of the range with either sign.
    for (step, sign) in (-REACH..=REACH).flat_map(|step| [(step, -1.0), (step, 1.0)]) {
        let steps = sign * (most + step as f32 * apart) / extreme;
        let (mut xq, mut qq) = (0.0, 0.0);
        for v in x {
            let q = f64::from(round(v * steps));
            xq += f64::from(*v) * q;
            qq += q * q;
        }
        if qq > 0.0 && xq * xq > best * qq {
            (best, scale) = (xq * xq / qq, xq / qq);
        }
    }
    scale as f32
}

/// A block of `N` groups whose scales and minima are integers in units that the whole block shares.
pub(super) struct Groups<const N: usize> {
    /// The unit of scales.
    pub(super) scale: f16,
    /// The unit of minima.
    pub(super) min: f16,
    pub(super) scales: [u8; N],
    pub(super) minima: [u8; N],
    /// The codes of all values.
    pub(super) q: [u8; 256],
}

/// Quantizes 256 values to codes in `0..=most`, with scales and minima in `0..=top`.
pub(super) fn groups<const N: usize>(values: &[f32], most: i32, top: i32) -> Groups<N> {
    let (x, len) = (padded::<256>(values), 256 / N);
    let mut fitted = [(0.0, 0.0); N];
    for (fit, x) in fitted.iter_mut().zip(x.chunks_exact(len)) {
        *fit = scale_and_min(x, most);
    }
    let unit =
        |of: fn(&(f32, f32)) -> f32| f16::from_f32(fitted.iter().map(of).fold(0.0, f32::max) / top as f32);
    let (scale, min) = (unit(|fit| fit.0), unit(|fit| fit.1));
    let (by_scale, by_min) = (inverse(scale.to_f32()), inverse(min.to_f32()));
    let scales = fitted.map(|fit| nearest(fit.0 * by_scale, 0, top) as u8);
    let minima = fitted.map(|fit| nearest(fit.1 * by_min, 0, top) as u8);
    let mut q = [0; 256];
    for (at, (q, x)) in q.iter_mut().zip(x).enumerate() {
        let steps = inverse(scale.to_f32() * f32::from(scales[at / len]));
        *q = nearest((x + min.to_f32() * f32::from(minima[at / len])) * steps, 0, most) as u8;
    }
    Groups { scale, min, scales, minima, q }
}

/// Integers in `-top..top` for the scales of groups, and their unit. The scale of largest magnitude becomes `-top`.
pub(super) fn scales_in_units<const N: usize>(fitted: [f32; N], top: i32) -> (f16, [i8; N]) {
    let larger = |a: f32, b: &f32| if b.abs() > a.abs() { *b } else { a };
    let unit = f16::from_f32(fitted.iter().fold(0.0, larger) / -top as f32);
    let by_unit = inverse(unit.to_f32());
    (unit, fitted.map(|fit| nearest(fit * by_unit, -top, top - 1) as i8))
}

/// The signed scales of `N` groups of `x`.
pub(super) fn signed_scales<const N: usize>(x: &[f32; 256], fit: impl Fn(&[f32]) -> f32) -> [f32; N] {
    core::array::from_fn(|j| fit(&x[j * (256 / N)..][..256 / N]))
}

/// The sums of a linear regression of `x` on integers.
struct Affine {
    n: f64,
    q: f64,
    qq: f64,
    x: f64,
    xq: f64,
    xx: f64,
}

impl Affine {
    fn of(x: &[f32], q: impl Fn(f32) -> i32) -> Self {
        let mut sums = Affine { n: x.len() as f64, q: 0.0, qq: 0.0, x: 0.0, xq: 0.0, xx: 0.0 };
        for v in x {
            let (q, v) = (f64::from(q(*v)), f64::from(*v));
            sums.q += q;
            sums.qq += q * q;
            sums.x += v;
            sums.xq += v * q;
            sums.xx += v * v;
        }
        sums
    }

    /// Scale, offset and squared error. The offset must not be positive, because formats store its negative without a sign.
    fn solve(&self) -> Option<(f64, f64, f64)> {
        let Affine { n, q, qq, x, xq, xx } = *self;
        let determinant = n * qq - q * q;
        if determinant <= 0.0 {
            return None;
        }
        let (mut scale, mut offset) = ((n * xq - x * q) / determinant, (x * qq - q * xq) / determinant);
        if offset > 0.0 {
            (scale, offset) = (xq / qq, 0.0);
        }
        if scale <= 0.0 {
            return None;
        }
        let error = xx
            + scale * scale * qq
            + n * offset * offset
            + 2.0 * (scale * offset * q - scale * xq - offset * x);
        Some((scale, offset, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_groups_are_found_exactly() {
        let x: Vec<f32> = (0..32).map(|i| (i % 16) as f32 * 0.25 - 1.5).collect();
        let (scale, min) = scale_and_min(&x, 15);
        assert!((scale - 0.25).abs() < 1e-6 && (min - 1.5).abs() < 1e-6, "{scale} {min}");
        let x: Vec<f32> = (-32..32).map(|i| i as f32 * -0.5).collect();
        assert!((signed_scale(&x, 32) + 0.5).abs() < 1e-6);
    }

    #[test]
    fn groups_without_a_range_have_no_scale() {
        assert_eq!(scale_and_min(&[0.0; 32], 15), (0.0, 0.0));
        assert_eq!(scale_and_min(&[-2.0; 32], 15), (0.0, 2.0));
        assert_eq!(signed_scale(&[0.0; 16], 32), 0.0);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [1.0; 16];
            x[3] = odd;
            assert!(signed_scale(&x, 32).is_finite() && scale_and_min(&x, 15).0.is_finite(), "{odd}");
        }
    }
}
