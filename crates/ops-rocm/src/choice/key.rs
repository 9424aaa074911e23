//! Keys of the cache of decisions: 128-bit hashes of what a decision may depend on.
use ops_core::{Layout, Op, Operands};
use std::any::TypeId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A 128-bit hash. Two problems with the same key would share a decision; with the few thousand that are
/// cached, the odds are below 1e-30.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u64, u64);

/// A map by key, which does not hash the keys again.
pub(super) type ByKey<V> = HashMap<Key, V, BuildHasherDefault<Low>>;

impl Key {
    /// The op with its options, every operand's type and layout, and whether the call is recorded.
    pub(super) fn of_problem<O: Op>(op: &O, on: &dyn Operands, recorded: bool) -> Key {
        let mut mix = Mix::default();
        TypeId::of::<O>().hash(&mut mix);
        mix.write_u8(recorded.into());
        op.hash_options(&mut mix);
        for place in 0..on.count() {
            if let Some(operand) = on.operand(place) {
                operand.dtype.hash(&mut mix);
                layout(place, operand.layout, &mut mix);
            }
        }
        mix.key()
    }

    /// Every operand's name and type.
    pub(super) fn of_types(on: &dyn Operands) -> Key {
        let mut mix = Mix::default();
        on.iter().for_each(|operand| (operand.name, operand.dtype).hash(&mut mix));
        mix.key()
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Hashes only the axes in use: a layout has room for more.
#[inline]
fn layout(place: usize, layout: &Layout, mix: &mut Mix) {
    // Place and rank are small.
    mix.write_pair((place << 32 | layout.rank()) as u64, layout.offset() as u64);
    for (dim, stride) in layout.dims().iter().zip(layout.strides()) {
        mix.write_pair(*dim as u64, *stride as u64);
    }
}

/// Takes the low half of a key as its hash.
#[derive(Default)]
pub(super) struct Low(u64);

impl Hasher for Low {
    fn write(&mut self, bytes: &[u8]) {
        // Keys write one word and nothing else.
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Two sums of products: each word is multiplied by a key for its position. The products depend only on the
/// words, so a processor computes several at once.
struct Mix {
    sums: [u64; 2],
    keys: [u64; 2],
}

/// Odd random numbers, by which the keys grow from word to word.
const STEPS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xf39c_c060_5ced_c835];

impl Default for Mix {
    fn default() -> Self {
        // The fractional digits of pi.
        Mix { sums: [0; 2], keys: [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344] }
    }
}

impl Mix {
    /// Two words for the price of one. =>
    #[inline]
    fn write_pair(&mut self, first: u64, second: u64) {
        let [a, b] = self.keys;
        self.sums[0] = self.sums[0].wrapping_add(folded(first ^ a, second ^ b));
        self.sums[1] = self.sums[1].wrapping_add(folded(first.wrapping_add(b), second.wrapping_add(a)));
        self.keys = [a.wrapping_add(STEPS[0]), b.wrapping_add(STEPS[1])];
    }
    fn key(self) -> Key {
        let [a, b] = self.sums;
        // The keys encode the number of words.
        Key(folded(a ^ self.keys[0], STEPS[0]), folded(b ^ self.keys[1], STEPS[1]))
    }
}

#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.write_u64(u64::from_le_bytes(std::array::from_fn(|i| chunk.get(i).copied().unwrap_or(0))));
        }
        self.write_usize(bytes.len());
    }
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let [a, b] = self.keys;
        self.sums[0] = self.sums[0].wrapping_add(folded(word ^ a, b));
        self.sums[1] = self.sums[1].wrapping_add(folded(word.wrapping_add(b), a));
        self.keys = [a.wrapping_add(STEPS[0]), b.wrapping_add(STEPS[1])];
    }
    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.write_u64(value.into());
    }
    #[inline]
    fn write_u16(&mut self, value: u16) {
        self.write_u64(value.into());
    }
    #[inline]
    fn write_u32(&mut self, value: u32) {
        self.write_u64(value.into());
    }
    #[inline]
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn finish(&self) -> u64 {
        folded(self.sums[0] ^ self.keys[0], STEPS[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(words: &[u64]) -> (u64, u64) {
        let mut mix = Mix::default();
        words.iter().for_each(|word| mix.write_u64(*word));
        let Key(a, b) = mix.key();
        (a, b)
    }

    fn key_of_pairs(words: &[u64]) -> (u64, u64) {
        let mut mix = Mix::default();
        words.chunks(2).for_each(|pair| mix.write_pair(pair[0], pair[1]));
        let Key(a, b) = mix.key();
        (a, b)
    }

    #[test]
    fn small_changes_anywhere_change_both_halves() {
        changes_change_both_halves(key);
        changes_change_both_halves(key_of_pairs);
        assert_ne!(key_of_pairs(&[1, 2]), key_of_pairs(&[2, 1]));
    }

    fn changes_change_both_halves(key: impl Fn(&[u64]) -> (u64, u64)) {
        let (mut low, mut high) = (HashSet::new(), HashSet::new());
        let mut count = 0;
        for at in 0..6 {
            for value in 0..2000u64 {
                for value in [value, value << 20, value.wrapping_neg()] {
                    let mut words = [1, 0, 512, 4096, 4096, 1];
                    if words[at] == value {
                        continue;
                    }
                    words[at] = value;
                    let (a, b) = key(&words);
                    count += usize::from(low.insert(a) | high.insert(b));
                }
            }
        }
        assert_eq!((low.len(), high.len()), (count, count));
        assert!((1..50).all(|len| low.insert(key(&vec![0; 2 * len]).0)), "zeros of different lengths");
    }
}
