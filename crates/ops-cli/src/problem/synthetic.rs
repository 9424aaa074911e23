//! Values that follow from their positions: they are the same on every backend, and in every part of a
//! tensor.
use ops_core::{BlockInfo, DType, Error, Result, Scalar, Wide, with_type};
use ops_cpu::Cpu;
use std::ops::Range;
use std::sync::Arc;

/// The kind of values in a tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fill {
    /// Uniform in −1..1; integers in −100..=100.
    Signed,
    /// Uniform in 1/2..3/2, for logarithms, roots and divisors; integers from 50 to 150.
    Positive,
    /// Multiples of 1/128 in −1..=1, so that unequal values stay unequal in every function that ranks them.
    Ranked,
    /// 0 or 1.
    Flag,
    /// Integers below this bound.
    Below(usize),
    /// The starts of equally long parts of this many rows, and the number of rows: this many entries.
    Starts { entries: usize, rows: usize },
    /// Cosines of angles.
    Cos,
    /// Sines of the same angles.
    Sin,
    /// Integers from the first to the second, both included.
    Within(i64, i64),
    /// Integers from the first to the second in order, repeated.
    Counted(i64, i64),
    /// These bytes.
    Bytes(Arc<[u8]>),
}

/// A prime, so that no two rows of a weight have the same blocks in the same positions.
const PERIOD: usize = 4099;

/// The rule that gives an operand its values.
#[derive(Clone, Debug)]
pub(super) struct Recipe {
    seed: u64,
    fill: Fill,
}

impl Recipe {
    /// Operands with different names get different values.
    pub(super) fn new(operand: &str, fill: Fill) -> Self {
        let name = if matches!(fill, Fill::Cos | Fill::Sin) { "angle" } else { operand };
        let seed =
            name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        Recipe { seed, fill }
    }

    /// The elements at these positions, as bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub(super) fn bytes(&self, dtype: DType, positions: Range<usize>) -> Result<Vec<u8>> {
        let (len, mut bytes) = (positions.len().saturating_mul(dtype.size()), Vec::new());
        if let Fill::Bytes(all) = &self.fill {
            let (start, count) = (positions.start, positions.len());
            let known = all.get(start.saturating_mul(dtype.size())..).and_then(|from| from.get(..len));
            let short = || Error::Range { call: "read", start, count, len: all.len() / dtype.size() };
            return known.map(<[u8]>::to_vec).ok_or_else(short);
        }
        let full = |_| Error::OutOfMemory { backend: "host", bytes: len, detail: String::new() };
        bytes.try_reserve_exact(len).map_err(full)?;
        bytes.resize(len, 0);
        self.write(dtype, positions.start, &mut bytes);
        Ok(bytes)
    }

    fn write(&self, dtype: DType, first: usize, dst: &mut [u8]) {
        const CHUNK: usize = 1 << 16;
        if let DType::Block(info) = dtype {
            return self.repeated_blocks(info, first, dst);
        }
        each_chunk(dst, CHUNK * dtype.size(), |i, chunk| {
            let at = first + i * CHUNK;
            // The list of ops has no other types; if it did, zeros would be valid values.
            with_type!(scalars, dtype, T => self.scalars::<T>(at, chunk), _ => chunk.fill(0));
        });
    }

    /// Blocks repeat with period [`PERIOD`], because some formats take long to encode.
    fn repeated_blocks(&self, info: &BlockInfo, first: usize, dst: &mut [u8]) {
        let size = info.bytes();
        let needed = (dst.len() / size).min(PERIOD);
        let mut distinct = vec![0; needed * size];
        each_chunk(&mut distinct, size, |i, block| self.blocks(info, (first + i) % PERIOD, block));
        each_chunk(dst, needed.max(1) * size, |_, part| part.copy_from_slice(&distinct[..part.len()]));
    }

    fn scalars<T: Scalar>(&self, first: usize, dst: &mut [u8]) {
        let integer = T::DTYPE.precision().is_none();
        for (i, element) in dst.chunks_exact_mut(size_of::<T>()).enumerate() {
            let value = match self.fill {
                Fill::Within(least, greatest) => {
                    T::from_wide(Wide::Int(self.within(first + i, least, greatest)))
                }
                Fill::Counted(least, greatest) => {
                    let count = greatest.saturating_sub(least).saturating_add(1).max(1);
                    T::from_wide(Wide::Int(least + (first + i) as i64 % count))
                }
                _ => T::from_f64(self.value(first + i, integer)),
            };
            element.copy_from_slice(bytemuck::bytes_of(&value));
        }
    }

    fn blocks(&self, info: &BlockInfo, first: usize, dst: &mut [u8]) {
        let mut values = vec![0.0f32; info.values()];
        for (i, block) in dst.chunks_exact_mut(info.bytes()).enumerate() {
            let start = (first + i) * info.values();
            for (k, value) in values.iter_mut().enumerate() {
                *value = self.value(start + k, false) as f32;
            }
            // A read-only format has no encoder; zeros are valid blocks of every format.
            if !info.encode(&values, block) {
                block.fill(0);
            }
        }
    }

    /// The value at a position; `integer` says whether the type holds integers.
    fn value(&self, at: usize, integer: bool) -> f64 {
        let hash = splitmix64(self.seed.wrapping_add(at as u64));
        // 53 bits make a float in 0..1.
        let unit = (hash >> 11) as f64 / (1u64 << 53) as f64;
        let scale = if integer { 100.0 } else { 1.0 };
        match self.fill {
            Fill::Signed => (2.0 * unit - 1.0) * scale,
            Fill::Ranked => ((2.0 * unit - 1.0) * 128.0).round() / 128.0 * scale,
            Fill::Positive => (unit + 0.5) * scale,
            Fill::Flag => f64::from(hash & 1 == 1),
            Fill::Starts { entries, rows } => (at * rows / entries.saturating_sub(1).max(1)) as f64,
            Fill::Below(bound) => (hash % bound.max(1) as u64) as f64,
            Fill::Cos => (unit * core::f64::consts::TAU).cos(),
            Fill::Sin => (unit * core::f64::consts::TAU).sin(),
            // These kinds do not derive values from positions.
            Fill::Within(..) | Fill::Counted(..) | Fill::Bytes(_) => 0.0,
        }
    }

    /// The integer at a position.
    fn within(&self, at: usize, least: i64, greatest: i64) -> i64 {
        let hash = splitmix64(self.seed.wrapping_add(at as u64));
        // Wraps only for the range of all integers, whose length does not fit a u64.
        match greatest.wrapping_sub(least).wrapping_add(1) as u64 {
            0 => hash as i64,
            count => least.wrapping_add((hash % count) as i64),
        }
    }
}

/// Calls `f` with each chunk and its number, on the threads of the CPU backend.
fn each_chunk(bytes: &mut [u8], size: usize, f: impl Fn(usize, &mut [u8]) + Sync) {
    let chunks = bytes.chunks_mut(size).enumerate().collect();
    Cpu::new().for_each_part(chunks, |(i, chunk): (usize, &mut [u8])| f(i, chunk));
}

fn splitmix64(counter: u64) -> u64 {
    let mut z = counter.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::Element;

    fn read<T: Element>(recipe: Recipe, positions: Range<usize>) -> Vec<T> {
        bytemuck::pod_collect_to_vec(&recipe.bytes(T::DTYPE, positions).unwrap())
    }

    #[test]
    fn a_part_has_the_values_of_the_whole() {
        let recipe = Recipe::new("x", Fill::Signed);
        let whole = read::<f32>(recipe.clone(), 0..200_000);
        assert_eq!(read::<f32>(recipe, 70_000..70_005), whole[70_000..70_005]);
        assert!(whole.iter().any(|v| *v < -0.9) && whole.iter().any(|v| *v > 0.9));
        assert!(whole.iter().all(|v| v.abs() <= 1.0));
    }

    #[test]
    fn blocks_come_again() {
        let (recipe, q8_0) = (Recipe::new("weight", Fill::Signed), DType::Block(&ops_core::quant::Q8_0));
        let whole = recipe.bytes(q8_0, 0..10_000).unwrap();
        let size = q8_0.size();
        assert_eq!(whole[..size], whole[PERIOD * size..][..size]);
        assert_ne!(whole[..size], whole[size..2 * size]);
        assert_eq!(recipe.bytes(q8_0, 4000..9000).unwrap(), whole[4000 * size..9000 * size]);
    }

    #[test]
    fn recorded_bytes_are_read_by_position() {
        let recipe = Recipe::new("x", Fill::Bytes([1, 0, 2, 0, 3, 0].into()));
        assert_eq!(recipe.bytes(DType::F16, 1..3).unwrap(), [2, 0, 3, 0]);
        assert!(recipe.bytes(DType::F16, 1..4).is_err() && recipe.bytes(DType::F16, 7..9).is_err());
    }

    #[test]
    fn values_keep_to_their_fill() {
        let ids = read::<u32>(Recipe::new("ids", Fill::Below(7)), 0..1000);
        assert!(ids.iter().all(|i| *i < 7) && ids.contains(&6));
        let positive = read::<u8>(Recipe::new("x", Fill::Positive), 0..1000);
        assert!(positive.iter().all(|v| (50..=150).contains(v)));
        let (cos, sin) = (Recipe::new("cos", Fill::Cos), Recipe::new("sin", Fill::Sin));
        let counted = read::<u32>(Recipe::new("slots", Fill::Counted(2, 5)), 1..7);
        assert_eq!(counted, [3, 4, 5, 2, 3, 4]);
        let bounds = [(-3, 4), (i64::MIN, i64::MAX), (9, 9)];
        for (least, greatest) in bounds {
            let within = read::<i64>(Recipe::new("x", Fill::Within(least, greatest)), 0..1000);
            assert!(within.iter().all(|v| (least..=greatest).contains(v)));
        }
        for (c, s) in read::<f64>(cos, 0..9).iter().zip(read::<f64>(sin, 0..9)) {
            assert!((c * c + s * s - 1.0).abs() < 1e-12);
        }
    }
}
