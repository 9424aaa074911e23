//! Where activations lie in memory, and what is stored with each block.

use super::blocks::BLOCK;

/// The quants of two blocks, in a cache line: no block crosses a line.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Line([[i32; WORDS]; 2]);

/// Takes the offsets of a weight's codes off the sum of a block's products.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Offsets {
    /// −128 times the sum of the quants.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only VNNI multiplies codes with an offset")
    )]
    pub(super) wide: i32,
    /// The sum of the numbers, negative.
    pub(super) minus: f32,
    /// The same for each half of the block.
    pub(super) halves: [f32; 2],
    /// Minus the sum of each half's quants.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only AVX2 multiplies pairs of 16 bits")
    )]
    pub(super) minus_sums: [i16; 2],
}

impl Offsets {
    /// Of a block with this scale and these sums of its halves.
    pub(super) fn new(scale: f32, sums: [i32; 2]) -> Self {
        let minus = |sum: i32| -(scale * sum as f32);
        Self {
            wide: -128 * (sums[0] + sums[1]),
            minus: minus(sums[0] + sums[1]),
            halves: sums.map(minus),
            minus_sums: sums.map(|sum| -sum as i16),
        }
    }
}

/// Words per block.
pub(super) const WORDS: usize = BLOCK / 4;

/// Rows of the panel that starts at row `i` of `m`.
pub(super) fn panel_rows(i: usize, m: usize) -> usize {
    match m - i {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        rest => rest,
    }
}

/// Index of the first block of row `i` of `rows`, and the distance between its blocks.
pub(super) fn place(i: usize, rows: usize, blocks: usize) -> (usize, usize) {
    let mut start = i / 8 * 8;
    while start + panel_rows(start, rows) <= i {
        start += panel_rows(start, rows);
    }
    (start * blocks + i - start, panel_rows(start, rows))
}
