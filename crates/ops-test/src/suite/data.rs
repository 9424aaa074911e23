//! Deterministic data: a case has the same numbers on every backend and machine.
use crate::Array;
use ops_core::DType;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// A small generator: xorshift with a multiplied output (Marsaglia 2003, Vigna 2016).
pub(crate) struct Random(u64);

impl Random {
    /// Seeds the generator with a name.
    pub(crate) fn of(name: &str) -> Self {
        // FNV-1a; the extra bit keeps the state from being 0.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3));
        Random(hash | 1)
    }
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    /// In `0.0..1.0`.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Roughly normal with mean 0 and deviation 1, within ±3.5: a sum of uniform numbers.
    pub(crate) fn normal(&mut self) -> f64 {
        ((0..4).map(|_| self.unit()).sum::<f64>() - 2.0) * 3f64.sqrt()
    }
}

/// A distribution of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Distribution {
    /// Roughly normal, with mean and deviation.
    Normal(f64, f64),
    /// Positive: at least 0.1.
    Positive,
    /// Of either sign, bounded away from zero.
    Nonzero,
    /// Uniform between two bounds.
    Between(f64, f64),
    /// Uniform over all bit patterns of an integer type.
    Bits,
}

/// The default distribution.
pub(crate) const NORMAL: Distribution = Distribution::Normal(0.0, 1.0);

/// Draws `n` numbers of a scalar type.
pub(crate) fn draw(random: &mut Random, dtype: DType, n: usize, numbers: Distribution) -> Array {
    let values: Vec<f64> = match numbers {
        Distribution::Bits => return bits(random, dtype, n),
        Distribution::Normal(mean, deviation) => (0..n).map(|_| mean + deviation * random.normal()).collect(),
        Distribution::Positive => (0..n).map(|_| 0.1 + random.normal().abs()).collect(),
        Distribution::Nonzero => (0..n).map(|_| nonzero(random)).collect(),
        Distribution::Between(low, high) => (0..n).map(|_| low + (high - low) * random.unit()).collect(),
    };
    values_of(dtype, &values)
}

/// Bytes of drawn numbers that a thread keeps.
const KEPT_BYTES: usize = 16 << 20;

/// What was drawn from a seed.
type OfSeed = Vec<(Distribution, Rc<Array>)>;

/// Numbers drawn lately by this thread, by seed, type and count. Cases of one op differ mostly in layout and options, and
/// so use the same numbers.
#[derive(Default)]
struct Drawn {
    arrays: HashMap<(u64, DType, usize), OfSeed>,
    bytes: usize,
}

/// As [`draw`], with a generator of this seed.
pub(crate) fn drawn(seed: u64, dtype: DType, n: usize, numbers: Distribution) -> Rc<Array> {
    thread_local!(static KEPT: RefCell<Drawn> = RefCell::default());
    KEPT.with_borrow_mut(|kept| {
        let known = kept.arrays.entry((seed, dtype, n)).or_default();
        if let Some((_, array)) = known.iter().find(|(of, _)| *of == numbers) {
            return array.clone();
        }
        let array = Rc::new(draw(&mut Random::of(&seed.to_string()), dtype, n, numbers));
        kept.bytes += array.bytes().len();
        if kept.bytes > KEPT_BYTES {
            *kept = Drawn::default();
        } else {
            known.push((numbers, array.clone()));
        }
        array
    })
}

fn nonzero(random: &mut Random) -> f64 {
    let v = random.normal();
    v + if v < 0.0 { -0.25 } else { 0.25 }
}

fn bits(random: &mut Random, dtype: DType, n: usize) -> Array {
    let mut array = zeroed(dtype, n);
    array.bytes_mut().iter_mut().for_each(|b| *b = random.next() as u8);
    array
}

/// These values, rounded to a scalar type.
pub(crate) fn values_of(dtype: DType, values: &[f64]) -> Array {
    Array::from_f64(dtype, values).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}

/// `n` zeros.
pub(crate) fn zeroed(dtype: DType, n: usize) -> Array {
    Array::zeroed(dtype, n).unwrap_or_else(|e| unreachable!("the suite's own data: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_numbers_are_those_of_their_seed_and_distribution() {
        for numbers in [NORMAL, Distribution::Positive, NORMAL, Distribution::Positive] {
            let fresh = draw(&mut Random::of("7"), DType::F32, 100, numbers);
            assert_eq!(*drawn(7, DType::F32, 100, numbers), fresh, "{numbers:?}");
        }
    }

    #[test]
    fn numbers_are_reproducible_and_as_asked_for() {
        let of = |name| {
            draw(&mut Random::of(name), DType::F64, 1000, Distribution::Normal(3.0, 2.0)).to_f64().unwrap()
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        let (mean, n) = (of("a").iter().sum::<f64>() / 1000.0, of("a"));
        let variance = n.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / 1000.0;
        assert!((mean - 3.0).abs() < 0.3 && (variance - 4.0).abs() < 0.5, "{mean} {variance}");
    }
}
