//! The block formats.

use crate::error::{Error, same_len};

/// Weights per block.
pub const BLOCK: usize = 32;
/// Rows of weights that a [`Tiles`](super::Tiles) packs together.
pub const TILE_ROWS: usize = 16;
/// Bytes of a q8_0 block: an f16 scale d, then 32 signed bytes q. A weight is d·q.
pub const Q8_0_BYTES: usize = 34;
/// Bytes of a q4_0 block: an f16 scale d, then 16 bytes. The low half of byte i is weight i and the high half is weight 16 +
/// i. A weight is d·(q − 8).
pub const Q4_0_BYTES: usize = 18;

/// A block format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// 8 bits.
    Q8_0,
    /// 4 bits.
    Q4_0,
}

impl Format {
    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        match self {
            Self::Q8_0 => Q8_0_BYTES,
            Self::Q4_0 => Q4_0_BYTES,
        }
    }

    /// Bytes of a block's weights, without the scale.
    pub(crate) fn quant_bytes(self) -> usize {
        self.block_bytes() - 2
    }

    /// Added to a weight to make it unsigned.
    pub(crate) fn offset(self) -> i32 {
        match self {
            Self::Q8_0 => 128,
            Self::Q4_0 => 8,
        }
    }
}

/// Checks the size of a matrix of `n` rows of `k` weights and returns the number of blocks per row.
pub(super) fn check(format: Format, raw: usize, n: usize, k: usize) -> Result<usize, Error> {
    if !k.is_multiple_of(BLOCK) {
        return Err(Error::Multiple { operand: "k", got: k, of: BLOCK });
    }
    let blocks = k / BLOCK;
    same_len("weight bytes", raw, n.saturating_mul(blocks).saturating_mul(format.block_bytes()))?;
    Ok(blocks)
}

/// The scale of a block.
#[inline(always)]
pub(super) fn scale_bits(block: &[u8]) -> u16 {
    u16::from_le_bytes([block[0], block[1]])
}
