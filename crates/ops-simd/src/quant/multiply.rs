//! Products with weights in blocks: the choice of the kernel.

use std::cell::RefCell;

use super::activations::Activations;
use super::blocks::{BLOCK, TILE_ROWS};
use super::codes::{self, multiply_codes};
use super::formats::marker::Q8_0;
use super::formats::{Format, InPlace, Marker, TileFormat};
use super::lookup::multiply_lookup_rows;
use super::outliers::Outliers;
use super::requantize::requantize;
use super::rows::{multiply_rows, multiply_rows_by_row};
use super::super_blocks::multiply_super_rows;
use super::tile_products::multiply_tiles;
use super::tiles::Tiles;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::Isa;

/// Up to this many rows of activations, blocks of formats that pack into tiles are multiplied in place, and other weights are not
/// rounded.
const MAX_ROWS_IN_PLACE: usize = 16;
/// Up to this many rows of activations, other formats are faster in place than as codes.
const MAX_ROWS_BESIDE_CODES: usize = 2;
/// Rows of the weight repacked at a time. Together with a panel of activations they fit the L2 cache.
const REPACKED_ROWS: usize = 4 * TILE_ROWS;

/// Below this many outputs, activations are not rounded. Over many outputs their rounding error averages out, but it can
/// dominate a single sum that cancels.
const MIN_INTEGER_OUTPUTS: usize = 16;
/// The same for formats that do not pack into tiles. The minima of super-blocks add the same sum of `x` to all outputs of a row,
/// so errors average out more slowly.
const MIN_MIXED_OUTPUTS: usize = 64;

/// What the sums of a row of activations may depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Also on how many other rows there are.
    Any,
    /// On that row only.
    ByRow,
}

impl Sums {
    /// The number of rows by which a kernel may be chosen, if there are `rows`.
    fn seen(self, rows: usize) -> usize {
        match self {
            Sums::Any => rows,
            Sums::ByRow => 1,
        }
    }
}

/// Rows of a weight in blocks, in file order.
#[derive(Clone, Copy)]
pub struct Weight<'a> {
    /// The blocks of all rows, which are equally long.
    pub raw: &'a [u8],
    /// Their format; `None` for one that has no kernels here.
    pub format: Option<Format>,
    /// Decodes a row of blocks of another format.
    pub decode: &'a (dyn Fn(&[u8], &mut [f32]) + Sync),
}

/// Whether [`multiply`] should compute a product with `rows` rows of activations and `columns` different rows of a weight in this
/// format. Otherwise the error of rounded activations would be too large, or decoding the weight is faster.
pub fn rounds_activations(format: Option<Format>, rows: usize, columns: usize, sums: Sums) -> bool {
    let rows = sums.seen(rows);
    let outputs = rows.saturating_mul(columns);
    match format {
        Some(format) if format.tiled().is_some() => outputs >= MIN_INTEGER_OUTPUTS,
        Some(_) => outputs >= MIN_MIXED_OUTPUTS,
        None => outputs >= MIN_MIXED_OUTPUTS && rows > MAX_ROWS_IN_PLACE,
    }
}

/// What [`multiply`] and, for tiles, [`multiply_tiles`] want to become of outliers, if there are `rows` rows of activations. They are
/// set aside for three rows or more, where the weight becomes codes or tiles, of which columns are quickly read. Elsewhere, that
/// would cost more than 2 % of a step of one token.
pub fn outliers_for(isa: Isa, format: Option<Format>, rows: usize, sums: Sums) -> Outliers {
    let in_place = format.and_then(|format| Some((format, format.in_place()?)));
    let rounded = match (sums, in_place) {
        (Sums::Any, _) if rows <= MAX_ROWS_BESIDE_CODES => true,
        (Sums::Any, Some((_, InPlace::Tiled(_)))) => rows <= MAX_ROWS_IN_PLACE,
        (Sums::Any, _) => false,
        // The same for any number of rows.
        (Sums::ByRow, Some((_, InPlace::Tiled(_)))) => true,
        (Sums::ByRow, Some((format, _))) => beside_codes(isa, format, rows, sums),
        (Sums::ByRow, None) => false,
    };
    if rounded { Outliers::Rounded } else { Outliers::SetAside }
}

/// y = x·Wᵀ for a weight of as many rows as y has columns. With few rows of activations, the blocks of formats that have kernels for
/// this are multiplied in place, at memory bandwidth. Otherwise a few rows at a time become tiles or codes in the thread's cache, by
/// which all activations are multiplied. Rows of formats without kernels are rounded to q8_0.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply(
    isa: Isa,
    weight: Weight<'_>,
    x: &Activations,
    sums: Sums,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let (raw, rows) = (weight.raw, x.rows());
    let Some(format) = weight.format else { return multiply_rounded(isa, weight, x, y) };
    let few = beside_codes(isa, format, rows, sums);
    match format.in_place() {
        Some(InPlace::Tiled(tiled)) => multiply_tiled(isa, tiled, raw, x, sums, &mut y),
        Some(InPlace::Super(own)) if few => multiply_super_rows(isa, own, raw, x, y),
        Some(InPlace::Lookup(own)) if few => multiply_lookup_rows(isa, own, raw, x, y),
        _ => multiply_codes(isa, format, raw, x, y),
    }
}

/// Whether a format that does not pack into tiles is multiplied in place, if it can be.
fn beside_codes(isa: Isa, format: Format, rows: usize, sums: Sums) -> bool {
    // If a row's bits may not depend on the others, one kernel must serve any number of rows: codes, unless they are rounded.
    match sums {
        Sums::Any => rows <= MAX_ROWS_BESIDE_CODES,
        Sums::ByRow => format.rounds(isa),
    }
}

/// The product for a format that packs into tiles.
fn multiply_tiled(
    isa: Isa,
    format: TileFormat,
    raw: &[u8],
    x: &Activations,
    sums: Sums,
    y: &mut MatMut<'_, f32>,
) -> Result<(), Error> {
    let many = x.rows() > MAX_ROWS_IN_PLACE;
    let any = sums == Sums::Any;
    if many && codes::faster_than_tiles(isa) && (any || codes::same_as_in_place(isa)) {
        return multiply_codes(isa, format.format(), raw, x, y.reborrow());
    }
    match (any, many) {
        (false, _) => multiply_rows_by_row(isa, format, raw, x, y.reborrow()),
        (true, false) => multiply_rows(isa, format, raw, x, y.reborrow()),
        (true, true) => {
            let Some(row_bytes) = checked_row(raw, x, y)? else { return Ok(()) };
            with_tiles(format, |tiles| {
                by_parts(raw, row_bytes, y, |raw, mut y| {
                    multiply_repacked(isa, tiles, format, raw, x, &mut y)
                })
            })
        }
    }
}

/// The bytes of a row of the weight. If there is nothing to multiply, sets y to 0.
fn checked_row(raw: &[u8], x: &Activations, y: &mut MatMut<'_, f32>) -> Result<Option<usize>, Error> {
    same_len("rows of y", y.rows(), x.rows())?;
    let row_bytes = raw.len().checked_div(y.cols()).unwrap_or(0);
    same_len("weight bytes", raw.len(), y.cols() * row_bytes)?;
    if row_bytes > 0 && y.rows() > 0 && x.k() > 0 {
        return Ok(Some(row_bytes));
    }
    (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
    Ok(None)
}

/// Calls `f` with a few rows of a weight at a time, and their columns of y.
fn by_parts(
    raw: &[u8],
    row_bytes: usize,
    y: &mut MatMut<'_, f32>,
    mut f: impl FnMut(&[u8], MatMut<'_, f32>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut y = y.reborrow();
    for raw in raw.chunks(REPACKED_ROWS * row_bytes) {
        let (now, after) = y.split_at_col(raw.len() / row_bytes);
        f(raw, now)?;
        y = after;
    }
    Ok(())
}

thread_local! {
    /// Tiles of the last call, kept to reuse their memory.
    static TILES: RefCell<Option<Tiles<'static>>> = const { RefCell::new(None) };
}

/// Calls `f` with this thread's tiles.
fn with_tiles(
    format: TileFormat,
    f: impl FnOnce(&mut Tiles<'static>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut tiles = match TILES.take() {
        Some(tiles) => tiles,
        None => Tiles::new(format, &[], 0, 0)?,
    };
    f(&mut tiles)?;
    TILES.set(Some(tiles));
    Ok(())
}

/// Multiplies the blocks of as many rows as y has columns, as codes or in tiles.
fn multiply_repacked(
    isa: Isa,
    tiles: &mut Tiles<'static>,
    format: TileFormat,
    raw: &[u8],
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) -> Result<(), Error> {
    if codes::faster_than_tiles(isa) {
        return multiply_codes(isa, format.format(), raw, x, y.reborrow());
    }
    tiles.repack(format, raw, y.cols(), x.k())?;
    multiply_tiles(isa, tiles, 0..tiles.count(), x, y.reborrow())
}

/// The product for a format without kernels. Rounds a few rows of the weight at a time to q8_0, in temporary memory.
fn multiply_rounded(
    isa: Isa,
    weight: Weight<'_>,
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let Some(row_bytes) = checked_row(weight.raw, x, &mut y)? else { return Ok(()) };
    let (k, row) = (x.k(), x.k() / BLOCK * Q8_0::BYTES);
    let (mut blocks, mut wide) = (vec![0; REPACKED_ROWS * row], vec![0.0; k]);
    // The factors by which the scales of each row must be multiplied.
    let mut factors = Vec::with_capacity(REPACKED_ROWS);
    with_tiles(TileFormat::Q8_0, |tiles| {
        by_parts(weight.raw, row_bytes, &mut y, |raw, mut y| {
            factors.clear();
            for (raw, blocks) in raw.chunks_exact(row_bytes).zip(blocks.chunks_exact_mut(row)) {
                (weight.decode)(raw, &mut wide);
                factors.push(requantize(isa, &wide, blocks)?);
            }
            multiply_repacked(isa, tiles, TileFormat::Q8_0, &blocks[..factors.len() * row], x, &mut y)?;
            for i in 0..y.rows() {
                y.row_mut(i).iter_mut().zip(&factors).for_each(|(y, factor)| *y *= factor);
            }
            Ok(())
        })
    })
}
