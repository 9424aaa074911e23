//! A word of each of sixteen rows: what blocks are unpacked in.

use super::super::blocks::TILE_ROWS;

/// Four bytes of each row of a tile, the first in the lowest bits.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Words(pub(super) [u32; TILE_ROWS]);

/// A number for each row.
pub(super) type Lanes = [f32; TILE_ROWS];

/// [`Words`] in registers. Bytes are computed on four at a time: a sum or product of words is right if none of its bytes exceeds
/// 255. Methods that begin with `f` take and give the bits of f32.
pub(super) trait Vector: Copy {
    fn load(words: Words) -> Self;
    fn store(self) -> Words;
    fn splat(word: u32) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn right(self, by: u32) -> Self;
    fn left(self, by: u32) -> Self;
    /// The highest byte, with its sign.
    fn highest(self) -> Self;
    /// Signed integers as f32.
    fn to_floats(self) -> Self;
    /// f32 to the nearest integers.
    fn nearest(self) -> Self;
    fn fmul(self, other: Self) -> Self;
    fn fdiv(self, other: Self) -> Self;
    /// The larger, where neither is NaN.
    fn fmax(self, other: Self) -> Self;

    /// Bytes shifted right by `by`, of which `mask` keeps the bits that stay in their byte.
    #[inline(always)]
    fn field(self, by: u32, mask: u8) -> Self {
        self.right(by).and(Self::splat(u32::from_ne_bytes([mask; 4])))
    }

    /// Byte `j` of each row.
    #[inline(always)]
    fn byte(self, j: usize) -> Self {
        self.right(8 * j as u32).and(Self::splat(255))
    }

    /// The floats, times a number.
    #[inline(always)]
    fn scaled(self, by: f32) -> Self {
        self.fmul(Self::splat(by.to_bits()))
    }

    /// The floats.
    #[inline(always)]
    fn lanes(self) -> Lanes {
        bytemuck::cast(self.store())
    }
}

/// How an instruction set loads and looks up words.
pub(super) trait Target: Copy {
    /// Its registers.
    type V: Vector;
    /// Prefetches the line at this address, which need not be readable.
    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        let _ = at;
    }
    /// Whether codes with an offset are given one of 128. Otherwise they keep their own: smaller codes are
    /// multiplied faster.
    #[inline(always)]
    fn signed(self) -> bool {
        false
    }
    /// Whether codes are multiplied as signed bytes: those of eight bits have 128 subtracted. Implies
    /// [`Target::signed`].
    #[inline(always)]
    fn signed_bytes(self) -> bool {
        false
    }
    /// Whether the codes of groups of sixteen with an integer scale stay as they are, and the scales become factors of
    /// pairs of products.
    #[inline(always)]
    fn groups(self) -> bool {
        false
    }
    /// Four words of each row, the first at byte `at` of its block. Rows are `stride` bytes apart in `blocks`.
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [Self::V; 4];
    /// The word at byte `at` of the block of each row.
    fn word(self, blocks: &[u8], stride: usize, at: usize) -> Self::V;
    /// The table's entry for every byte, all of which are below 16.
    fn lookup(self, table: &[u8; 16], codes: Self::V) -> Self::V;
    /// The f16 in the low halves of words, as f32.
    fn halves(self, bits: Self::V) -> Self::V;
}
