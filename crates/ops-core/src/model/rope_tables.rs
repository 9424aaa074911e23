//! Tables of rotary embeddings, computed on the host in f64.
use crate::{Backend, Error, Float, Result, TensorOf};
use core::f64::consts::TAU;

/// How to map positions beyond the trained context to angles.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Leaves all frequencies as trained.
    None,
    /// Divides all positions by `factor`. Chen et al., "Extending Context Window via Positional Interpolation", 2023.
    Linear {
        /// The divisor of every position.
        factor: f64,
    },
    /// Llama 3.1: divides low frequencies by `factor`, keeps high ones, and blends linearly in between.
    Llama3 {
        /// The divisor of low frequencies.
        factor: f64,
        /// Frequencies with wavelengths above `original_context / low_freq_factor` are divided.
        low_freq_factor: f64,
        /// Frequencies with wavelengths below `original_context / high_freq_factor` are kept.
        high_freq_factor: f64,
        /// Length of the trained context in tokens.
        original_context: f64,
    },
    /// Peng et al., "YaRN: Efficient Context Window Extension of Large Language Models", 2023.
    Yarn {
        /// The divisor of low frequencies.
        factor: f64,
        /// Length of the trained context in tokens.
        original_context: f64,
        /// A frequency with more rotations than this over the trained context is kept (32 in the paper).
        beta_fast: f64,
        /// A frequency with fewer rotations than this is divided (1 in the paper).
        beta_slow: f64,
        /// Whether the range of blended frequencies is rounded outwards to whole indices, as in the paper's code.
        truncate: bool,
        /// The factor on both tables; `None` means `0.1 ln(factor) + 1`.
        attention_factor: Option<f64>,
    },
    /// One divisor for each of the `d/2` frequencies, as stored in some model files.
    Factors(Vec<f32>),
    /// One divisor for each of the `d/2` frequencies, from one of two lists. Tables for more tokens than the trained context take
    /// the long one. Ding et al., "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", 2024.
    LongRope {
        /// The divisors up to the trained context.
        short: Vec<f32>,
        /// The divisors beyond it.
        long: Vec<f32>,
        /// Length of the trained context in tokens.
        original_context: f64,
        /// The factor on both tables.
        attention_factor: f64,
    },
}

/// Cosines and sines, `[tokens, d/2]` each, row-major, of any float type.
///
/// ```
/// use rocm_ops::model::{RopeScaling, RopeTables};
///
/// let tables = RopeTables::<f64>::new(8, 4, 10_000.0, &RopeScaling::None)?;
/// assert_eq!(tables.dims, [8, 2]);
/// // Token 3, the first frequency, which is 1.
/// assert_eq!((tables.cos[3 * 2], tables.sin[3 * 2]), (3f64.cos(), 3f64.sin()));
/// let (cos, sin) = tables.upload(&rocm_ops::Cpu::new())?;
/// assert_eq!((cos.dims(), sin.dims()), (&[8, 2][..], &[8, 2][..]));
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RopeTables<T: Float = f32> {
    /// The cosines of the angles.
    pub cos: Vec<T>,
    /// The sines of the angles.
    pub sin: Vec<T>,
    /// Number of tokens and of frequencies.
    pub dims: [usize; 2],
}

impl<T: Float> RopeTables<T> {
    /// Computes tables for positions `0..tokens` and `d` rotated features: angle `p · base^(−2i/d)`, scaled. Angles, cosines and
    /// sines are computed in f64 and rounded once.
    ///
    /// # Errors
    /// [`Error::Param`] if `d` is odd, if `base` or a factor is not positive, or if there are too few factors.
    pub fn new(tokens: usize, d: usize, base: f64, scaling: &RopeScaling) -> Result<Self> {
        let positive = |param, v: f64| match v > 0.0 && v.is_finite() {
            true => Ok(v),
            false => Err(Error::param("rope", param, v, "a positive number")),
        };
        if !d.is_multiple_of(2) {
            return Err(Error::param("rope", "dimension", d, "an even number of features"));
        }
        let half = d / 2;
        let count =
            tokens.checked_mul(half).ok_or_else(|| Error::TooLarge { dims: [tokens, half].into() })?;
        let base = positive("base", base)?;
        let mut frequencies: Vec<f64> = (0..half).map(|i| base.powf(-2.0 * i as f64 / d as f64)).collect();
        let magnitude = scaling.apply(&mut frequencies, tokens, base, positive)?;

        let mut tables = RopeTables { cos: Vec::new(), sin: Vec::new(), dims: [tokens, half] };
        for table in [&mut tables.cos, &mut tables.sin] {
            table.try_reserve_exact(count).map_err(|_| Error::OutOfMemory {
                backend: "host",
                bytes: count.saturating_mul(size_of::<T>()),
                detail: "rope tables".into(),
            })?;
        }
        for p in 0..tokens {
            for f in &frequencies {
                let (sin, cos) = (p as f64 * f).sin_cos();
                tables.cos.push(T::from_f64(cos * magnitude));
                tables.sin.push(T::from_f64(sin * magnitude));
            }
        }
        Ok(tables)
    }

    /// Uploads the tables `(cos, sin)` to a backend's memory.
    ///
    /// # Errors
    /// As [`Backend::tensor`].
    pub fn upload<B: Backend>(&self, backend: &B) -> Result<(TensorOf<B, T>, TensorOf<B, T>)> {
        Ok((backend.tensor(&self.dims, &self.cos)?, backend.tensor(&self.dims, &self.sin)?))
    }
}

impl RopeScaling {
    /// Scales the frequencies for `tokens` tokens and returns the factor on the tables.
    fn apply(
        &self,
        frequencies: &mut [f64],
        tokens: usize,
        base: f64,
        positive: impl Fn(&'static str, f64) -> Result<f64>,
    ) -> Result<f64> {
        match self {
            RopeScaling::None => {}
            RopeScaling::Linear { factor } => {
                let factor = positive("factor", *factor)?;
                frequencies.iter_mut().for_each(|f| *f /= factor);
            }
            RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
                let (factor, context) =
                    (positive("factor", *factor)?, positive("original_context", *original_context)?);
                for f in frequencies {
                    // The number of rotations over the trained context decides. Between the two factors, blend.
                    let rotations = context * *f / TAU;
                    let kept = (rotations - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    let kept = if kept.is_nan() { 1.0 } else { kept.clamp(0.0, 1.0) };
                    *f *= kept + (1.0 - kept) / factor;
                }
            }
            RopeScaling::Yarn {
                factor,
                original_context,
                beta_fast,
                beta_slow,
                truncate,
                attention_factor,
            } => {
                let (factor, context) =
                    (positive("factor", *factor)?, positive("original_context", *original_context)?);
                // The paper's code bounds the range by the number of features, which is twice the number of
                // frequencies.
                let last = (2 * frequencies.len()).saturating_sub(1) as f64;
                // The fractional index of the frequency that makes `rotations` rotations over the context.
                let index = |rotations: f64| {
                    (frequencies.len() as f64) * (context / (rotations * TAU)).ln() / base.ln()
                };
                let (low, high) = (index(*beta_fast), index(*beta_slow));
                let (low, high) = if *truncate { (low.floor(), high.ceil()) } else { (low, high) };
                let (low, high) = (low.max(0.0), high.min(last));
                let width = (high - low).max(0.001);
                for (i, f) in frequencies.iter_mut().enumerate() {
                    let divided = ((i as f64 - low) / width).clamp(0.0, 1.0);
                    *f *= divided / factor + (1.0 - divided);
                }
                return Ok(attention_factor.unwrap_or(if factor > 1.0 {
                    0.1 * factor.ln() + 1.0
                } else {
                    1.0
                }));
            }
            RopeScaling::Factors(factors) => divide(frequencies, factors, positive)?,
            RopeScaling::LongRope { short, long, original_context, attention_factor } => {
                let is_long = tokens as f64 > *original_context;
                divide(frequencies, if is_long { long } else { short }, &positive)?;
                return positive("attention_factor", *attention_factor);
            }
        }
        Ok(1.0)
    }
}

/// Divides each frequency by its factor.
fn divide(
    frequencies: &mut [f64],
    factors: &[f32],
    positive: impl Fn(&'static str, f64) -> Result<f64>,
) -> Result<()> {
    let (got, wanted) = (factors.len(), frequencies.len());
    if got != wanted {
        return Err(Error::param("rope", "factors", got, format!("{wanted} factors")));
    }
    for (f, factor) in frequencies.iter_mut().zip(factors) {
        *f /= positive("factors", f64::from(*factor))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{bf16, f16};

    fn frequencies(scaling: &RopeScaling) -> Vec<f64> {
        let tables = RopeTables::<f32>::new(2, 128, 500_000.0, scaling).unwrap();
        tables.sin[64..]
            .iter()
            .zip(&tables.cos[64..])
            .map(|(s, c)| f64::from(*s).atan2(f64::from(*c)))
            .collect()
    }

    #[test]
    fn unscaled_angles_fall_geometrically() {
        let f = frequencies(&RopeScaling::None);
        assert!((f[0] - 1.0).abs() < 1e-6);
        assert!((f[32] - 500_000f64.powf(-0.5)).abs() < 1e-9);
    }

    #[test]
    fn llama3_keeps_the_fast_and_divides_the_slow() {
        let scaling = RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 8192.0,
        };
        let (plain, scaled) = (frequencies(&RopeScaling::None), frequencies(&scaling));
        assert!((scaled[0] / plain[0] - 1.0).abs() < 1e-6);
        assert!((scaled[63] / plain[63] - 0.125).abs() < 1e-4);
        // Values of the published rule at a blended frequency: i = 30, wavelength 2944.
        let rotations = 8192.0 * plain[30] / TAU;
        let kept = (rotations - 1.0) / 3.0;
        assert!((0.0..1.0).contains(&kept));
        assert!((scaled[30] / plain[30] - (kept + (1.0 - kept) / 8.0)).abs() < 1e-4);
    }

    #[test]
    fn yarn_stretches_the_tables_too() {
        let scaling = RopeScaling::Yarn {
            factor: 4.0,
            original_context: 4096.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            truncate: true,
            attention_factor: None,
        };
        let tables = RopeTables::<f32>::new(1, 128, 10_000.0, &scaling).unwrap();
        assert!((f64::from(tables.cos[0]) - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-6);
    }

    #[test]
    fn yarn_blends_over_the_range_of_the_published_code() {
        let frequency = |context: f64, truncate: bool, i: usize| {
            let scaling = RopeScaling::Yarn {
                factor: 4.0,
                original_context: context,
                beta_fast: 32.0,
                beta_slow: 1.0,
                truncate,
                attention_factor: Some(1.0),
            };
            let tables = RopeTables::<f32>::new(2, 64, 10_000.0, &scaling).unwrap();
            f64::from(tables.sin[32 + i]).atan2(f64::from(tables.cos[32 + i]))
                * 10_000f64.powf(2.0 * i as f64 / 64.0)
        };
        // 4096 tokens are 10.47 and 22.51 as indices; those of 10 to 23 are blended if the range is rounded.
        let index = |rotations: f64| 32.0 * (4096.0 / (rotations * TAU)).ln() / 10_000f64.ln();
        let blended = |low: f64, high: f64, i: f64| 1.0 - 0.75 * ((i - low) / (high - low)).clamp(0.0, 1.0);
        for i in [5, 11, 16, 22, 23, 30] {
            let want = blended(index(32.0), index(1.0), i as f64);
            assert!((frequency(4096.0, false, i) - want).abs() < 1e-4, "{i}");
            let want = blended(index(32.0).floor(), index(1.0).ceil(), i as f64);
            assert!((frequency(4096.0, true, i) - want).abs() < 1e-4, "{i}");
        }
        // A context so long that the range ends beyond the last frequency.
        let high = (32.0 * (200_000.0 / TAU).ln() / 10_000f64.ln()).ceil();
        let low = (32.0 * (200_000.0 / (32.0 * TAU)).ln() / 10_000f64.ln()).floor();
        assert!(high > 32.0 && (frequency(200_000.0, true, 31) - blended(low, high, 31.0)).abs() < 1e-4);
    }

    #[test]
    fn long_tables_have_factors_of_their_own() {
        let scaling = RopeScaling::LongRope {
            short: vec![1.0, 2.0],
            long: vec![1.0, 8.0],
            original_context: 16.0,
            attention_factor: 1.25,
        };
        let angle = |tokens: usize| {
            let tables = RopeTables::<f32>::new(tokens, 4, 100.0, &scaling).unwrap();
            assert_eq!(tables.cos[0], 1.25);
            f64::from(tables.sin[3]).atan2(f64::from(tables.cos[3]))
        };
        // The second frequency is 1/10.
        assert!((angle(16) - 0.05).abs() < 1e-6 && (angle(17) - 0.0125).abs() < 1e-6);
        assert!(RopeTables::<f32>::new(1, 8, 1e4, &scaling).is_err());
    }

    #[test]
    fn tables_of_every_type_are_those_of_f64_rounded_once() {
        fn check<T: Float + PartialEq>() {
            let wide = RopeTables::<f64>::new(50, 8, 10_000.0, &RopeScaling::None).unwrap();
            let tables = RopeTables::<T>::new(50, 8, 10_000.0, &RopeScaling::None).unwrap();
            let rounded = |table: &[f64]| table.iter().map(|v| T::from_f64(*v)).collect::<Vec<_>>();
            assert_eq!((tables.cos, tables.sin), (rounded(&wide.cos), rounded(&wide.sin)));
            // Exact where f32 would have lost digits.
            assert_eq!(wide.cos[49 * 4 + 1], (49.0 * 10_000f64.powf(-0.25)).cos());
        }
        check::<f64>();
        check::<f32>();
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(RopeTables::<f32>::new(1, 7, 1e4, &RopeScaling::None).is_err());
        assert!(RopeTables::<f32>::new(1, 8, f64::NAN, &RopeScaling::None).is_err());
        assert!(RopeTables::<f32>::new(1, 8, 1e4, &RopeScaling::Linear { factor: 0.0 }).is_err());
        assert!(RopeTables::<f32>::new(1, 8, 1e4, &RopeScaling::Factors(vec![1.0; 3])).is_err());
        assert!(RopeTables::<f32>::new(usize::MAX, 8, 1e4, &RopeScaling::None).is_err());
        assert!(RopeTables::<f32>::new(usize::MAX / 64, 8, 1e4, &RopeScaling::None).is_err());
    }
}
