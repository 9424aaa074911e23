//! Products with weights in tiles.

use std::ops::Range;

use super::activations::{Activations, Panel};
use super::blocks::TILE_ROWS;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::codes;
use super::formats::TileFormat;
use super::panels::panel_rows;
use super::tiles::{Tile, Tiles};
use super::{dot_portable, tile_outliers};
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::{Isa, Level};

/// y = x·Wᵀ for the tiles `tiles` of W; y is `[rows of x, rows of W in the tiles]`. The weights of a tile are read from
/// memory once for all rows of x. Callers give each thread a range of tiles and, through [`MatMut::split_at_col`], the
/// matching columns of y.
///
/// # Errors
/// [`Error::Length`] if the dimensions do not match, [`Error::Range`] if there are fewer tiles.
pub fn multiply_tiles(
    isa: Isa,
    weights: &Tiles<'_>,
    tiles: Range<usize>,
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let Range { start, end } = tiles;
    if start > end || end > weights.count() {
        return Err(Error::Range { operand: "tiles", start, end, len: weights.count() });
    }
    let first = weights.rows().min(start.saturating_mul(TILE_ROWS));
    let columns = weights.rows().min(end.saturating_mul(TILE_ROWS)) - first;
    same_len("x", x.k(), weights.cols())?;
    same_len("rows of y", y.rows(), x.rows())?;
    same_len("columns of y", y.cols(), columns)?;
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if x.k() > 0 && codes::multiply_tiles(isa, weights, start..end, x, &mut y) {
        return Ok(());
    }
    for t in start..end {
        let tile = weights.tile(t);
        let column = (t - start) * TILE_ROWS;
        let mut i = 0;
        while i < x.rows() {
            match panel_rows(i, x.rows()) {
                8 => multiply_tile::<8>(isa, weights.format(), tile, x, i, column, &mut y),
                4 => multiply_tile::<4>(isa, weights.format(), tile, x, i, column, &mut y),
                2 => multiply_tile::<2>(isa, weights.format(), tile, x, i, column, &mut y),
                _ => multiply_tile::<1>(isa, weights.format(), tile, x, i, column, &mut y),
            }
            i += panel_rows(i, x.rows());
        }
    }
    tile_outliers::add(isa, weights.format(), |t| weights.tile(start + t), x, &mut y);
    Ok(())
}

/// Multiplies a tile by `M` rows of activations from `i` on, into the columns of y from `column` on.
fn multiply_tile<const M: usize>(
    isa: Isa,
    format: TileFormat,
    tile: Tile<'_>,
    x: &Activations,
    i: usize,
    column: usize,
    y: &mut MatMut<'_, f32>,
) {
    for (r, sums) in dot(isa, format, tile, x.panel::<M>(i)).into_iter().enumerate() {
        let y = &mut y.row_mut(i + r)[column..];
        let n = y.len().min(TILE_ROWS);
        y[..n].copy_from_slice(&sums[..n]);
    }
}

fn dot<const M: usize>(
    isa: Isa,
    format: TileFormat,
    tile: Tile<'_>,
    x: Panel<'_, M>,
) -> [[f32; TILE_ROWS]; M] {
    match isa.level() {
        Level::Portable => dot_portable::tile(format, tile, x),
        // SAFETY: AVX-VNNI was detected, and this level exists only after AVX2, FMA and F16C were.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 if isa.avx_vnni() => unsafe { super::dot_avx_vnni::tile(format, tile, x) },
        // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { super::dot_avx2::tile(format, tile, x) },
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vnni => unsafe { super::dot_avx512::tile(format, tile, x) },
        // `multiply` turns tiles into codes there.
        #[cfg(target_arch = "aarch64")]
        _ => dot_portable::tile(format, tile, x),
    }
}
