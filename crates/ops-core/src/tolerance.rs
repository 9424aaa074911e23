//! How far a result may differ from the exact one.
use crate::{DType, Wide};

/// The accuracy an op promises for one output.
///
/// A float output passes if `nmse(got, want) ≤ base + rounding · nmse(round(want), want)`. Here `want` is the
/// exact result, `round` rounds it to the output's type, and `nmse` is the sum of squared errors over the sum
/// of squares of `want`. The second term is the rounding error that every result in that type has. NaNs and
/// signed infinities (of the rounded result) must be at the same positions; they are left out of the sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal values, where −0 equals 0 and NaN equals NaN.
    Exact,
    /// Normalised mean squared error.
    Nmse {
        /// Error allowed in addition to rounding.
        base: f64,
        /// Multiple of the rounding error of the output's type.
        rounding: f64,
    },
}

impl Tolerance {
    /// For results that are computed in a wide type and rounded once. Exact for integers and blocks.
    pub const fn rounded(dtype: DType) -> Self {
        match dtype {
            DType::F64 => Tolerance::Nmse { base: 1e-22, rounding: 2.0 },
            d if d.is_float() => Tolerance::Nmse { base: 1e-11, rounding: 2.0 },
            _ => Tolerance::Exact,
        }
    }

    /// For long sums: matrix products, convolutions, reductions.
    pub const fn summed(dtype: DType) -> Self {
        match Self::rounded(dtype) {
            Tolerance::Exact => Tolerance::Exact,
            Tolerance::Nmse { rounding, .. } => {
                Tolerance::Nmse { base: if matches!(dtype, DType::F64) { 1e-20 } else { 1e-10 }, rounding }
            }
        }
    }

    /// For attention, where a backend may round probabilities to the operands' type to use matrix units.
    pub const fn attention(dtype: DType) -> Self {
        match Self::summed(dtype) {
            Tolerance::Nmse { base, .. } => Tolerance::Nmse { base, rounding: 4.0 },
            exact => exact,
        }
    }

    /// Compares `got` with the exact result `want`; `rounded` is `want` in the output's type.
    ///
    /// All three must have one value per element of the output.
    pub fn judge(self, got: &[f64], want: &[f64], rounded: &[f64]) -> Verdict {
        match self {
            Tolerance::Exact => Verdict::exact(got.iter().zip(rounded).map(|(g, w)| same(*g, *w))),
            Tolerance::Nmse { base, rounding } => {
                let limit = base + rounding * nmse(rounded, want, rounded);
                Verdict::measured(got, want, rounded, limit)
            }
        }
    }

    /// Compares two computed results, for a reference that computes in the same type.
    ///
    /// Both results are rounded, so the distance between them may be what [`judge`](Tolerance::judge) allows plus one more
    /// rounding: `(√limit + √ν)²`, with ν the mean squared rounding error of the type at these values (an ulp squared over
    /// twelve).
    ///
    /// Both must have the same number of elements of `dtype`. Elements that are not numbers must be equal.
    pub fn judge_pair(self, dtype: DType, got: &[u8], want: &[u8]) -> Verdict {
        let pairs = || got.chunks_exact(dtype.size()).zip(want.chunks_exact(dtype.size()));
        let wide = |bytes: &[u8]| {
            bytes.chunks_exact(dtype.size()).map(|e| dtype.number(e).map(Wide::to_f64)).collect()
        };
        let (left, right): (Option<Vec<f64>>, Option<Vec<f64>>) = (wide(got), wide(want));
        match (self, left, right) {
            (Tolerance::Nmse { base, rounding }, Some(got), Some(want)) => {
                let noise = rounding_noise(dtype, &want);
                let limit = ((base + rounding * noise).sqrt() + noise.sqrt()).powi(2);
                Verdict::measured(&got, &want, &want, limit)
            }
            _ => Verdict::exact(pairs().map(|(g, w)| dtype.same(g, w))),
        }
    }
}

/// Equality for exact tolerances.
fn same(a: f64, b: f64) -> bool {
    Wide::Float(a).same(Wide::Float(b))
}

/// The outcome of checking a result against a [`Tolerance`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// Error over the whole output; 0 for exact comparison.
    pub nmse: f64,
    /// The limit of the error.
    pub limit: f64,
    /// The first bad element, in row-major order; `None` if the result passes.
    pub bad: Option<usize>,
}

impl Verdict {
    /// Whether the result is within the tolerance.
    pub fn passes(&self) -> bool {
        self.bad.is_none()
    }

    fn exact(same: impl Iterator<Item = bool>) -> Self {
        let mut same = same;
        Verdict { nmse: 0.0, limit: 0.0, bad: same.position(|ok| !ok) }
    }

    fn measured(got: &[f64], want: &[f64], rounded: &[f64], limit: f64) -> Self {
        let special = |g: f64, r: f64| !r.is_finite() && !same(g, r) || r.is_finite() && !g.is_finite();
        if let Some(bad) = got.iter().zip(rounded).position(|(g, r)| special(*g, *r)) {
            return Verdict { nmse: f64::INFINITY, limit, bad: Some(bad) };
        }
        let nmse = nmse(got, want, rounded);
        let bad = (nmse.is_nan() || nmse > limit).then(|| first_outlier(got, want, rounded, limit));
        Verdict { nmse, limit, bad }
    }
}

/// The first element whose own error exceeds the limit on the mean error.
fn first_outlier(got: &[f64], want: &[f64], rounded: &[f64], limit: f64) -> usize {
    let finite = || rounded.iter().enumerate().filter(|(_, r)| r.is_finite()).map(|(i, _)| i);
    let count = finite().count().max(1) as f64;
    let scale = unit_scale(finite().map(|i| want[i]));
    let mean = finite().map(|i| (want[i] * scale).powi(2)).sum::<f64>() / count;
    let allowed = limit * if mean > 0.0 { mean } else { 1.0 };
    finite().find(|&i| (got[i] * scale - want[i] * scale).powi(2) > allowed).unwrap_or(0)
}

/// The sum of squared errors over the sum of squares of `want`, or the mean squared error if `want` is all zero. Leaves out
/// elements whose `rounded` is not finite.
fn nmse(got: &[f64], want: &[f64], rounded: &[f64]) -> f64 {
    let (mut error, mut signal, mut count) = (0.0, 0.0, 0usize);
    let finite = || got.iter().zip(want).zip(rounded).filter(|(_, r)| r.is_finite()).map(|(pair, _)| pair);
    let scale = unit_scale(finite().map(|(_, w)| *w));
    for (g, w) in finite().map(|(g, w)| (g * scale, w * scale)) {
        error += (g - w) * (g - w);
        signal += w * w;
        count += 1;
    }
    match (count, signal) {
        (0, _) => 0.0,
        (_, 0.0) => error / count as f64,
        _ => error / signal,
    }
}

/// A power of two that brings the largest of the values near 1, so that their squares neither overflow nor vanish.
fn unit_scale(values: impl Iterator<Item = f64>) -> f64 {
    let largest = values.filter(|v| v.is_finite()).fold(0.0, |largest: f64, v| largest.max(v.abs()));
    if largest == 0.0 { 1.0 } else { (-largest.log2().floor()).min(1000.0).exp2() }
}

/// The expected nmse of rounding values like these to `dtype`.
fn rounding_noise(dtype: DType, values: &[f64]) -> f64 {
    let Some(precision) = dtype.precision() else { return 0.0 };
    let lowest = dtype.lowest_exponent();
    let (mut noise, mut signal) = (0.0, 0.0);
    let scale = unit_scale(values.iter().copied());
    for v in values.iter().filter(|v| v.is_finite() && **v != 0.0) {
        let exponent = v.abs().log2().floor().max(f64::from(lowest));
        let ulp = (exponent - f64::from(precision - 1)).exp2() * scale;
        noise += ulp * ulp / 12.0;
        signal += (v * scale).powi(2);
    }
    if signal == 0.0 { 0.0 } else { noise / signal }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn one_rounding_passes_and_a_few_do_not() {
        let want: Vec<f64> = (1..500).map(|i| (f64::from(i) * 0.7).sin() * 3.0).collect();
        let once: Vec<f64> = want.iter().map(|v| f16::from_f64(*v).to_f64()).collect();
        let coarse: Vec<f64> = want.iter().map(|v| (v * 256.0).round() / 256.0).collect();
        let t = Tolerance::rounded(DType::F16);
        assert!(t.judge(&once, &want, &once).passes());
        assert!(!t.judge(&coarse, &want, &once).passes());
    }

    #[test]
    fn infinities_and_nan_must_match() {
        let t = Tolerance::rounded(DType::F32);
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        assert!(t.judge(&[nan, inf, 1.0], &[nan, inf, 1.0], &[nan, inf, 1.0]).passes());
        for wrong in [[0.0, inf, 1.0], [nan, -inf, 1.0], [nan, 1e30, 1.0], [nan, inf, nan], [nan, inf, inf]] {
            assert!(!t.judge(&wrong, &[nan, inf, 1.0], &[nan, inf, 1.0]).passes(), "{wrong:?}");
        }
        // A result too large for the type becomes infinite, whatever its exact value.
        assert!(Tolerance::rounded(DType::F16).judge(&[inf], &[1e6], &[inf]).passes());
    }

    #[test]
    fn squares_that_leave_the_range_of_f64_do_not_decide() {
        let t = Tolerance::rounded(DType::F64);
        for want in [[1.7e308, 1e307], [-3e-200, 1e-300], [5e-324, 1e-323]] {
            let near = want.map(|w| w * (1.0 - 1e-14));
            let far = want.map(|w| w * 0.5);
            assert!(t.judge(&near, &want, &want).passes(), "{want:?}");
            assert!(!t.judge(&far, &want, &want).passes(), "{want:?}");
            assert!(!t.judge(&[-want[0], want[1]], &want, &want).passes(), "{want:?}");
        }
    }

    #[test]
    fn the_first_bad_element_is_named() {
        let (mut got, want) = (vec![1.0f32; 100], vec![1.0f32; 100]);
        got[41] = 1.5;
        assert_eq!(
            Tolerance::rounded(DType::F32)
                .judge_pair(DType::F32, bytemuck::cast_slice(&got), bytemuck::cast_slice(&want))
                .bad,
            Some(41)
        );
        assert_eq!(
            Tolerance::Exact
                .judge_pair(DType::F32, bytemuck::cast_slice(&got), bytemuck::cast_slice(&want))
                .bad,
            Some(41)
        );
    }

    #[test]
    fn neighbours_pass_as_a_pair_and_larger_errors_do_not() {
        let value = |i: i32| f16::from_f64((f64::from(i) * 0.37).sin());
        let want: Vec<f16> = (1..1000).map(value).collect();
        // A tenth of the elements are one ulp off, as between two results that round differently near ties.
        let near: Vec<f16> = want
            .iter()
            .enumerate()
            .map(|(i, v)| f16::from_bits(v.to_bits() + u16::from(i % 10 == 0)))
            .collect();
        let far: Vec<f16> = want.iter().map(|v| f16::from_bits(v.to_bits() + 2)).collect();
        let t = Tolerance::rounded(DType::F16);
        let judge = |got: &[f16]| {
            t.judge_pair(DType::F16, bytemuck::cast_slice(got), bytemuck::cast_slice(&want)).passes()
        };
        assert!(judge(&near) && !judge(&far));
    }

    #[test]
    fn empty_and_zero_outputs() {
        let t = Tolerance::rounded(DType::F32);
        assert!(t.judge(&[], &[], &[]).passes());
        assert!(t.judge(&[0.0, -0.0], &[0.0, 0.0], &[0.0, 0.0]).passes());
        assert!(!t.judge(&[1e-3, 0.0], &[0.0, 0.0], &[0.0, 0.0]).passes());
    }
}
