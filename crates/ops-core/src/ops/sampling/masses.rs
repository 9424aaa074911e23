//! Probabilities as integers, and random numbers.
use super::Sample;

/// The arithmetic of [`Sample`] for kernels: probabilities as integers.
///
/// Sums of integers are exact, so backends that sum in different orders, on any number of threads, draw the
/// same id. The mass of a logit is `2⁶²⁻ˢ · 2⁻ʸ`, rounded down, with `y = (largest − logit) · log₂(e) /
/// temperature` and `2ˢ ≥ v`, so the masses of `v` logits sum to less than 2⁶³. It is computed in f32 with
/// operations that round identically everywhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masses {
    rate: f32,
    shift: u32,
}

/// `2⁻ᶠ` for `f` in 0..1, as the series of `e^(−f ln 2)`: its coefficients from f⁹ down to f.
const POWERS: [f32; 9] = [
    -1.017_808_6e-7,
    1.321_548_7e-6,
    -1.525_273_4e-5,
    1.540_353e-4,
    -1.333_355_8e-3,
    9.618_129e-3,
    -5.550_411e-2,
    2.402_265e-1,
    -6.931_472e-1,
];

impl Masses {
    /// The mass of a logit that is `below` less than the largest of its row. The caller computes the
    /// difference in the logits' own type, or in f32 if that type is narrower, and rounds it to f32; it is 0
    /// for logits equal to the largest.
    #[inline]
    pub fn of(&self, below: f32) -> u64 {
        let y = below * self.rate;
        if y >= 64.0 {
            return 0;
        }
        let whole = y as u32;
        let part = y - whole as f32;
        let power = POWERS.iter().fold(0.0, |sum, c| (sum + c) * part) + 1.0;
        // A float of 24 bits in 1/2..=1 is a multiple of 2⁻³¹.
        let mass = ((power * 2_147_483_648.0) as u64) << 31;
        mass.checked_shr(whole + self.shift).unwrap_or(0)
    }
    /// The factor of `below`.
    pub fn rate(&self) -> f32 {
        self.rate
    }
    /// s in the formula.
    pub fn shift(&self) -> u32 {
        self.shift
    }
}

/// The value 1 as a [`share`](Sample::share).
const WHOLE: u64 = 1 << 63;

impl<T> Sample<T> {
    /// The masses of a row of `v` logits, for a temperature above 0.
    pub fn masses(&self, v: usize) -> Masses {
        // Bounded, so that the product is not NaN for a difference of 0 or infinity.
        let rate = (core::f64::consts::LOG2_E / self.temperature) as f32;
        let rate = rate.clamp(f32::MIN_POSITIVE, f32::MAX);
        Masses { rate, shift: (v.max(1) as u64).next_power_of_two().trailing_zeros() }
    }
    /// `top_p` in units of 2⁻⁶³.
    pub fn share(&self) -> u64 {
        self.top_p.map_or(WHOLE, |p| (p * WHOLE as f64) as u64)
    }
    /// The smallest mass that is at least `top_p` of `mass`, and at least 1.
    pub fn needed(&self, mass: u64) -> u64 {
        let product = u128::from(self.share()) * u128::from(mass);
        (product.div_ceil(WHOLE.into()) as u64).max(1)
    }
    /// `u · mass`, rounded down: the result is the first id at which the running sum of masses exceeds it.
    pub fn target(&self, counter: i64, mass: u64) -> u64 {
        let words = |v: u64| [v as u32, (v >> 32) as u32];
        let [low, high] = words(counter as u64);
        let [word, ..] = philox4x32([low, high, 0, 0], words(self.seed));
        let product = (u128::from(word) * 2 + 1) * u128::from(mass);
        (product >> 33) as u64
    }
}

/// Philox-4×32-10: four random words for each counter and key (Salmon et al., SC 2011).
///
/// ```
/// use rocm_ops::ops::philox4x32;
/// assert_eq!(philox4x32([0; 4], [0; 2]), [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
/// ```
pub fn philox4x32(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    const MULTIPLIERS: [u32; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const STEPS: [u32; 2] = [0x9e37_79b9, 0xbb67_ae85];
    let product = |a: u32, b: u32| {
        let product = u64::from(a) * u64::from(b);
        [product as u32, (product >> 32) as u32]
    };
    let mut key = key;
    (0..10).fold(counter, |c, _| {
        let [low0, high0] = product(MULTIPLIERS[0], c[0]);
        let [low1, high1] = product(MULTIPLIERS[1], c[2]);
        let next = [high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0];
        key = [key[0].wrapping_add(STEPS[0]), key[1].wrapping_add(STEPS[1])];
        next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers of the Random123 distribution (`kat_vectors`).
    #[test]
    fn philox_gives_the_known_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        for (counter, key, want) in [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ] {
            assert_eq!(philox4x32(counter, key), want);
        }
    }

    #[test]
    fn masses_are_powers() {
        for (temperature, v) in [(1.0, 1), (0.7, 33), (2.0, 262_144)] {
            let masses = Sample::<f32>::temperature(temperature).masses(v);
            let whole = 2f64.powi(62 - masses.shift() as i32);
            assert_eq!(masses.of(0.0) as f64, whole);
            for step in 0..4000 {
                let below = step as f32 / 100.0;
                let want = whole * (-f64::from(below) / temperature).exp();
                let got = masses.of(below) as f64;
                let limit = want * 1e-6 * (1.0 + f64::from(below)) + 1.0;
                assert!((got - want).abs() <= limit, "{below} {temperature} {v}: {got} {want}");
            }
            assert_eq!((masses.of(f32::INFINITY), masses.of(1e30)), (0, 0));
        }
        // Temperatures whose inverse f32 cannot represent.
        let [cold, hot] = [1e-300, 1e300].map(|t| Sample::<f32>::temperature(t).masses(2));
        assert_eq!((cold.of(0.0), cold.of(1.0)), (1 << 61, 0));
        assert_eq!((hot.of(1e30), hot.of(f32::INFINITY)), (1 << 61, 0));
    }

    #[test]
    fn the_largest_sums_fit() {
        let op = Sample::<f32>::temperature(1.0);
        for v in [1usize, 2, 3, 262_144, 262_145, 1 << 31, 1 << 32] {
            let mass = op.masses(v).of(0.0).checked_mul(v as u64).filter(|mass| *mass < 1 << 63);
            assert!(mass.is_some_and(|mass| op.target(-1, mass) < mass), "{v}");
        }
    }

    #[test]
    fn shares_of_equal_masses_are_exact() {
        let needed = |p: f64, mass: u64| Sample::<f32>::temperature(1.0).top_p(p).needed(mass);
        let one = Sample::<f32>::temperature(1.0).masses(4).of(0.0);
        assert_eq!([0.25, 0.5, 0.75, 1.0].map(|p| needed(p, 4 * one) / one), [1, 2, 3, 4]);
        assert_eq!((needed(0.0, 100), needed(0.5, 101), needed(1.0, 1)), (1, 51, 1));
        assert_eq!(Sample::<f32>::temperature(1.0).needed(77), 77);
    }
}
