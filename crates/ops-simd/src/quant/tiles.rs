//! Weights repacked into tiles.

use super::blocks::{BLOCK, TILE_ROWS, check, scale_bits};
use super::formats::TileFormat;
#[cfg(target_arch = "x86_64")]
use super::formats::marker;
#[cfg(target_arch = "x86_64")]
use super::rows_avx512;
use crate::error::Error;
#[cfg(target_arch = "x86_64")]
use crate::isa::{Isa, Level};
use crate::memory::{PackedMemory, packing_target};

/// A matrix of quantized weights `[n, k]` in tiles of sixteen rows. It takes as many bytes as the blocks it was packed from,
/// with n rounded up to a multiple of 16 and each tile to 64 bytes.
///
/// For each block of 32 columns, a tile has a 64-byte line for every four columns (q8_0) or eight (q4_0), with four bytes of
/// each row in turn. q8_0 bytes are offset by 128. The scales of all blocks follow, sixteen f16 for each.
///
/// The memory is owned or borrowed for `'m`.
pub struct Tiles<'m> {
    format: TileFormat,
    n: usize,
    k: usize,
    memory: PackedMemory<'m>,
}

/// A tile.
#[derive(Clone, Copy)]
pub(super) struct Tile<'a> {
    pub(super) quants: &'a [u8],
    pub(super) scales: &'a [[u16; TILE_ROWS]],
}

impl Tiles<'static> {
    /// Repacks `n` rows of `k` weights in blocks.
    ///
    /// # Errors
    /// [`Error::Multiple`] if k is not a multiple of 32, [`Error::Length`] if `raw` has the wrong length.
    pub fn new(format: TileFormat, raw: &[u8], n: usize, k: usize) -> Result<Self, Error> {
        let mut tiles = Self { format, n: 0, k: 0, memory: PackedMemory::zeros(0) };
        tiles.repack(format, raw, n, k)?;
        Ok(tiles)
    }

    /// Like [`Tiles::new`], reusing the memory of the previous tiles.
    ///
    /// # Errors
    /// As [`Tiles::new`].
    pub fn repack(&mut self, format: TileFormat, raw: &[u8], n: usize, k: usize) -> Result<(), Error> {
        check(format.block_bytes(), raw.len(), n, k)?;
        (self.format, self.n, self.k) = (format, n, k);
        pack(format, raw, k, self.memory.owned_mut(Self::size(format, n, k)));
        Ok(())
    }
}

impl<'m> Tiles<'m> {
    /// Repacks `n` rows of `k` weights in blocks into the first [`Tiles::size`] bytes of `out`.
    ///
    /// # Errors
    /// As [`Tiles::new`], and [`Error::Memory`] if `out` is too small or not aligned to a cache line.
    pub fn pack_into(
        format: TileFormat,
        raw: &[u8],
        n: usize,
        k: usize,
        out: &mut [u8],
    ) -> Result<(), Error> {
        check(format.block_bytes(), raw.len(), n, k)?;
        pack(format, raw, k, packing_target(out, Self::size(format, n, k))?);
        Ok(())
    }

    /// Borrows the tiles of `n` rows of `k` weights from `memory`, which [`Tiles::pack_into`] filled. Any bytes are valid
    /// tiles of some weights.
    ///
    /// # Errors
    /// [`Error::Multiple`] if k is not a multiple of 32; [`Error::Memory`] if `memory` is too small or not aligned to a cache
    /// line.
    pub fn from_bytes(format: TileFormat, n: usize, k: usize, memory: &'m [u8]) -> Result<Self, Error> {
        if !k.is_multiple_of(BLOCK) {
            return Err(Error::Multiple { operand: "k", got: k, of: BLOCK });
        }
        Ok(Self { format, n, k, memory: PackedMemory::borrowed(memory, Self::size(format, n, k))? })
    }

    /// Restores the blocks that it was packed from, row by row.
    ///
    /// # Errors
    /// [`Error::Length`] if `raw` has the wrong length.
    pub fn unpack(&self, raw: &mut [u8]) -> Result<(), Error> {
        let blocks = check(self.format.block_bytes(), raw.len(), self.n, self.k)?;
        if raw.is_empty() {
            return Ok(());
        }
        let row_bytes = blocks * self.format.block_bytes();
        for (i, rows) in raw.chunks_mut(TILE_ROWS * row_bytes).enumerate() {
            let tile = self.tile(i);
            for (r, row) in rows.chunks_exact_mut(row_bytes).enumerate() {
                unpack_row(self.format, tile, r, row);
            }
        }
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.n
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.k
    }

    /// The format that it was packed from.
    pub fn format(&self) -> TileFormat {
        self.format
    }

    /// Number of tiles; the last may have fewer rows.
    pub fn count(&self) -> usize {
        self.n.div_ceil(TILE_ROWS)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> usize {
        Self::size(self.format, self.n, self.k)
    }

    /// Bytes that `n` rows of `k` weights take in tiles, saturated.
    pub fn size(format: TileFormat, n: usize, k: usize) -> usize {
        n.div_ceil(TILE_ROWS).saturating_mul(tile_bytes(format, k))
    }

    /// Tile `i`, which must exist.
    pub(super) fn tile(&self, i: usize) -> Tile<'_> {
        let blocks = self.k / BLOCK;
        let size = tile_bytes(self.format, self.k);
        let bytes = &self.memory.bytes()[i * size..][..size];
        let (quants, rest) = bytes.split_at(blocks * self.format.quant_bytes() * TILE_ROWS);
        Tile { quants, scales: bytemuck::cast_slice(&rest[..blocks * 2 * TILE_ROWS]) }
    }
}

/// Bytes per tile, in whole cache lines.
fn tile_bytes(format: TileFormat, k: usize) -> usize {
    (k / BLOCK).saturating_mul(format.block_bytes() * TILE_ROWS).div_ceil(64).saturating_mul(64)
}

/// Packs rows of `k` weights into tiles.
fn pack(format: TileFormat, raw: &[u8], k: usize, out: &mut [u8]) {
    if raw.is_empty() {
        return;
    }
    let blocks = k / BLOCK;
    let row_bytes = blocks * format.block_bytes();
    for (out, rows) in out.chunks_exact_mut(tile_bytes(format, k)).zip(raw.chunks(TILE_ROWS * row_bytes)) {
        // Clear a partial last tile, so that nothing remains of the previous contents.
        if rows.len() < TILE_ROWS * row_bytes {
            out.fill(0);
        }
        let (quants, scales) = out.split_at_mut(blocks * format.quant_bytes() * TILE_ROWS);
        #[cfg(target_arch = "x86_64")]
        if Isa::best().level() == Level::Avx512Vnni && rows.len() == TILE_ROWS * row_bytes {
            // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
            unsafe {
                match format {
                    TileFormat::Q8_0 => rows_avx512::pack::<marker::Q8_0>(rows, quants, scales),
                    TileFormat::Q4_0 => rows_avx512::pack::<marker::Q4_0>(rows, quants, scales),
                }
            }
            continue;
        }
        for (r, row) in rows.chunks_exact(row_bytes).enumerate() {
            pack_row(format, row, r, quants, scales);
        }
    }
}

/// Extracts one row of a tile.
fn unpack_row(format: TileFormat, tile: Tile<'_>, r: usize, row: &mut [u8]) {
    let flip = if format == TileFormat::Q8_0 { 0x80 } else { 0 };
    let tiles = tile.quants.chunks_exact(format.quant_bytes() * TILE_ROWS).zip(tile.scales);
    for (block, (quants, scales)) in row.chunks_exact_mut(format.block_bytes()).zip(tiles) {
        let (scale, weights) = block.split_at_mut(2);
        scale.copy_from_slice(&scales[r].to_le_bytes());
        for (four, line) in weights.chunks_exact_mut(4).zip(quants.chunks_exact(4 * TILE_ROWS)) {
            for (out, q) in four.iter_mut().zip(&line[4 * r..][..4]) {
                *out = q ^ flip;
            }
        }
    }
}

/// Stores one row into a tile.
fn pack_row(format: TileFormat, row: &[u8], r: usize, quants: &mut [u8], scales: &mut [u8]) {
    let flip = if format == TileFormat::Q8_0 { 0x80 } else { 0 };
    let bytes = format.quant_bytes();
    let tiles = quants.chunks_exact_mut(bytes * TILE_ROWS).zip(scales.chunks_exact_mut(2 * TILE_ROWS));
    for (block, (quants, scales)) in row.chunks_exact(format.block_bytes()).zip(tiles) {
        scales[2 * r..][..2].copy_from_slice(&scale_bits(block).to_ne_bytes());
        for (four, line) in block[2..].chunks_exact(4).zip(quants.chunks_exact_mut(4 * TILE_ROWS)) {
            for (out, q) in line[4 * r..][..4].iter_mut().zip(four) {
                *out = q ^ flip;
            }
        }
    }
}

impl std::fmt::Debug for Tiles<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tiles({:?}, {} x {})", self.format, self.n, self.k)
    }
}
