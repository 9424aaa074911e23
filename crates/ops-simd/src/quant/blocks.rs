//! What blocks of 32 have in common.

use crate::error::{Error, same_len};

/// Weights per block.
pub const BLOCK: usize = 32;
/// Rows of weights that a [`Tiles`](super::Tiles) packs together.
pub const TILE_ROWS: usize = 16;

/// Checks the size of a matrix of `n` rows of `k` weights, in blocks of 32, and returns the number of blocks per row.
pub(super) fn check(block_bytes: usize, raw: usize, n: usize, k: usize) -> Result<usize, Error> {
    if !k.is_multiple_of(BLOCK) {
        return Err(Error::Multiple { operand: "k", got: k, of: BLOCK });
    }
    let blocks = k / BLOCK;
    same_len("weight bytes", raw, n.saturating_mul(blocks).saturating_mul(block_bytes))?;
    Ok(blocks)
}

/// The scale of a block.
#[inline(always)]
pub(super) fn scale_bits(block: &[u8]) -> u16 {
    u16::from_le_bytes([block[0], block[1]])
}
