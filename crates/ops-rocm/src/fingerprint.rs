//! A 128-bit hash that is the same in every process and Rust version, for lookups by content.
//!
//! It does not resist deliberate collisions.
use std::fmt;
use std::hash::Hasher;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fingerprint(u128);

impl Fingerprint {
    pub(crate) fn new() -> Self {
        // The fractional digits of pi, an arbitrary choice.
        Fingerprint(0x243f_6a88_85a3_08d3_1319_8a2e_0370_7344)
    }

    /// The hash of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> u128 {
        let mut hash = Self::new();
        hash.write(bytes);
        hash.value()
    }

    pub(crate) fn value(self) -> u128 {
        let mut last = self;
        last.word(0);
        last.word(0);
        last.0
    }

    /// Hashes a text and its end, so that two consecutive texts differ from their concatenation.
    pub(crate) fn text(&mut self, text: &str) {
        self.write(text.as_bytes());
    }

    #[inline]
    fn word(&mut self, word: u64) {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let mixed = (self.0 ^ u128::from(word)).wrapping_mul(ODD);
        // The high bits of a product depend on all bits of the factors; this mixes them into the low bits.
        self.0 = mixed ^ (mixed >> 64);
    }
}

impl Hasher for Fingerprint {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }
    fn write_u8(&mut self, value: u8) {
        self.word(value.into());
    }
    fn write_u32(&mut self, value: u32) {
        self.word(value.into());
    }
    fn write_u64(&mut self, value: u64) {
        self.word(value);
    }
    fn write_usize(&mut self, value: usize) {
        self.word(value as u64);
    }
    fn finish(&self) -> u64 {
        self.value() as u64
    }
}

impl fmt::Write for Fingerprint {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.text(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_change_of_a_bit_and_of_the_length_shows() {
        let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(37) | 1).collect();
        let mut seen = HashSet::from([Fingerprint::of(&bytes)]);
        for bit in 0..800 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(Fingerprint::of(&changed)), "bit {bit}");
        }
        for length in 1..100 {
            assert!(seen.insert(Fingerprint::of(&bytes[..length])), "{length} bytes");
            assert!(seen.insert(Fingerprint::of(&vec![0; length])), "{length} zeros");
        }
    }

    const FIXED: u128 = 0x163f0a54f9b3d8b6928bfc18aefa597c;

    #[test]
    fn the_value_is_fixed_since_files_are_found_by_it() {
        assert_eq!(Fingerprint::of(b"rocm"), FIXED);
    }
}
