//! A word of each of sixteen rows: what blocks are unpacked in.

use super::super::tiles::TILE_ROWS;

/// Four bytes of each row of a tile, the first in the lowest bits.
///
/// Bytes are computed on four at a time: a sum or product of words is right if none of its bytes exceeds 255. Plain loops suffice,
/// since they become vectors of whatever instruction set the caller was compiled for.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Words(pub(super) [u32; TILE_ROWS]);

/// A number for each row.
pub(super) type Lanes = [f32; TILE_ROWS];

impl Words {
    #[inline(always)]
    pub(super) fn splat(word: u32) -> Self {
        Words([word; TILE_ROWS])
    }

    #[inline(always)]
    fn zip(mut self, other: Self, f: impl Fn(u32, u32) -> u32) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = f(*a, b);
        }
        self
    }

    #[inline(always)]
    pub(super) fn map(mut self, f: impl Fn(u32) -> u32) -> Self {
        for a in &mut self.0 {
            *a = f(*a);
        }
        self
    }

    #[inline(always)]
    pub(super) fn or(self, other: Self) -> Self {
        self.zip(other, |a, b| a | b)
    }

    #[inline(always)]
    pub(super) fn plus(self, other: Self) -> Self {
        self.zip(other, u32::wrapping_add)
    }

    #[inline(always)]
    pub(super) fn times(self, other: Self) -> Self {
        self.zip(other, u32::wrapping_mul)
    }

    /// Bytes shifted right by `by`, of which `mask` keeps the bits that stay in their byte.
    #[inline(always)]
    pub(super) fn field(self, by: u32, mask: u8) -> Self {
        let mask = u32::from_ne_bytes([mask; 4]);
        self.map(|word| word >> by & mask)
    }

    /// Byte `j` of each row.
    #[inline(always)]
    pub(super) fn byte(self, j: usize) -> Self {
        self.map(|word| word >> (8 * j) & 255)
    }

    /// The words, below 2³¹, as numbers.
    #[inline(always)]
    pub(super) fn numbers(self) -> Lanes {
        let mut out = [0.0; TILE_ROWS];
        for (out, word) in out.iter_mut().zip(self.0) {
            *out = word as i32 as f32;
        }
        out
    }

    /// The bits of f32.
    #[inline(always)]
    pub(super) fn floats(self) -> Lanes {
        let mut out = [0.0; TILE_ROWS];
        for (out, word) in out.iter_mut().zip(self.0) {
            *out = f32::from_bits(word);
        }
        out
    }
}

/// `a · b`, row by row.
#[inline(always)]
pub(super) fn product(mut a: Lanes, b: Lanes) -> Lanes {
    for (a, b) in a.iter_mut().zip(b) {
        *a *= b;
    }
    a
}

/// `a · b`.
#[inline(always)]
pub(super) fn scaled(mut a: Lanes, b: f32) -> Lanes {
    for a in &mut a {
        *a *= b;
    }
    a
}

/// What plain loops over words do not compile well to.
pub(super) trait Target: Copy {
    /// Asks for the line at this address, which need not be readable.
    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        let _ = at;
    }
    /// Four words of each row, the first at byte `at` of its block. Rows are `stride` bytes apart in `blocks`.
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [Words; 4];
    /// The word at byte `at` of the block of each row.
    #[inline(always)]
    fn word(self, blocks: &[u8], stride: usize, at: usize) -> Words {
        let mut out = Words::splat(0);
        for (r, out) in out.0.iter_mut().enumerate() {
            let bytes = blocks[r * stride + at..].first_chunk();
            *out = u32::from_le_bytes(bytes.copied().unwrap_or_default());
        }
        out
    }
    /// The table's entry for every byte, all of which are below 16.
    fn lookup(self, table: &[u8; 16], codes: Words) -> Words;
    /// The f16 in the low halves of words.
    fn halves(self, bits: Words) -> Lanes;
}
