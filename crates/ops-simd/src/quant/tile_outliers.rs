//! Products of outliers with weights in tiles.

use super::activations::Activations;
use super::blocks::{BLOCK, TILE_ROWS};
use super::formats::TileFormat;
use super::outliers::{ByRow, Columns};
use super::tiles::Tile;
use crate::gemm::MatMut;
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// Adds to y the products of outliers with as many tiles as it has columns for, of which `tile` returns one.
pub(super) fn add<'a>(
    isa: Isa,
    format: TileFormat,
    tile: impl Fn(usize) -> Tile<'a>,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) {
    let outliers = x.outliers();
    if outliers.is_empty() {
        return;
    }
    let mut columns = Columns::new(outliers, TILE_ROWS);
    for t in 0..y.cols().div_ceil(TILE_ROWS) {
        isa.run(Read { format, tile: tile(t), outliers, columns: &mut columns });
        outliers.add(isa, &columns, y, t * TILE_ROWS);
    }
}

/// Reads the columns that have outliers.
struct Read<'a> {
    format: TileFormat,
    tile: Tile<'a>,
    outliers: &'a ByRow,
    columns: &'a mut Columns,
}

impl VectorFn for Read<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Read { format, tile, outliers, columns } = self;
        let each = format.quant_bytes();
        for (at, column) in outliers.within(0..tile.scales.len() * BLOCK) {
            let (b, c) = (column / BLOCK, column % BLOCK);
            // The byte of each row is in a line with three others.
            let line = &tile.quants[(b * each + c % each / 4 * 4) * TILE_ROWS..][..4 * TILE_ROWS];
            let mut codes = [0.0; TILE_ROWS];
            for (code, bytes) in codes.iter_mut().zip(line.as_chunks::<4>().0) {
                let byte = bytes[c % 4];
                let code_bits = if format == TileFormat::Q8_0 { byte } else { byte >> (c / each * 4) & 15 };
                *code = f32::from(i16::from(code_bits) - format.offset() as i16);
            }
            let weights = columns.column(at).chunks_exact_mut(S::LANES).zip(codes.chunks_exact(S::LANES));
            for ((weights, codes), scales) in weights.zip(tile.scales[b].chunks_exact(S::LANES)) {
                s.store(weights, s.mul(s.load(codes), s.f16_to_f32(s.load_half(scales))));
            }
        }
    }
}
