//! Integer products: with q8_0 and q4_0 weights, of few rows with blocks that have kernels, and of many rows
//! with any format.
//!
//! Activations are quantized to 8 bits once per call (`inputs.rs`). The weight keeps its file layout. With few rows
//! of activations, its blocks are multiplied in place, at memory bandwidth. With many, each thread
//! repacks a few rows at a time into tiles in its cache and multiplies all activations by them. Rows of
//! other formats are rounded to q8_0 for that.
use super::super::matmul::split_columns;
use super::super::rows::row;
use super::super::threads;
use super::super::vectors::{report, unsupported_dtype};
use super::decode_row;
use super::inputs::Inputs;
use crate::host::raw::Raw;
use ops_core::{BlockInfo, DType, Result};
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, BLOCK, Format, LookupFormat, Q8_0_BYTES, SuperFormat, TILE_ROWS, Tiles,
    multiply_lookup_rows, multiply_rows, multiply_rows_by_row, multiply_super_rows,
};
use ops_simd::{Error, Isa, quant};
use std::borrow::Cow;
use std::cell::RefCell;

/// Up to this many rows of activations, the weight's blocks are multiplied in place.
const MAX_ROWS_IN_PLACE: usize = 16;
/// Rows of the weight repacked at a time. Together with a panel of activations they fit the L2 cache.
const REPACKED_ROWS: usize = 4 * TILE_ROWS;

/// The format of the integer kernels for `dtype`, if they support it.
pub(in crate::cpu) fn simd_format(dtype: DType) -> Option<Format> {
    match dtype {
        DType::Block(info) if *info == ops_core::quant::Q8_0 => Some(Format::Q8_0),
        DType::Block(info) if *info == ops_core::quant::Q4_0 => Some(Format::Q4_0),
        _ => None,
    }
}

/// The kernels for few rows of activations, which read blocks of other formats in place.
#[derive(Clone, Copy)]
enum InPlace {
    Super(SuperFormat),
    Lookup(LookupFormat),
}

fn in_place(dtype: DType) -> Option<InPlace> {
    use ops_core::quant::{IQ4_NL, IQ4_XS, MXFP4, Q4_K, Q5_K, Q6_K};
    let DType::Block(info) = dtype else { return None };
    let known = [
        (&Q4_K, InPlace::Super(SuperFormat::Q4K)),
        (&Q5_K, InPlace::Super(SuperFormat::Q5K)),
        (&Q6_K, InPlace::Super(SuperFormat::Q6K)),
        (&IQ4_NL, InPlace::Lookup(LookupFormat::Iq4Nl)),
        (&IQ4_XS, InPlace::Lookup(LookupFormat::Iq4Xs)),
        (&MXFP4, InPlace::Lookup(LookupFormat::Mxfp4)),
    ];
    known.into_iter().find(|(known, _)| **known == *info).map(|(_, format)| format)
}

/// Whether blocks without tiles of their own are multiplied in place: only for few rows of activations.
pub(super) fn reads_in_place(weight: &Raw<'_>, rows: usize) -> bool {
    in_place(weight.dtype).is_some() && rows <= MAX_ROWS_IN_PLACE
}

/// `y[m, n] = x · weightᵀ` for such blocks and few rows of x.
pub(super) fn multiply_in_place(x: &Inputs<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (n, k, Some(format)) = (weight.layout.dims()[0], x.k(), in_place(weight.dtype)) else {
        return report("qlinear", Err(unsupported_dtype(weight.dtype)));
    };
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    let row_bytes = raw.len() / n;
    x.quantized(|x| {
        for_each_part_of(x, n, y, &|first, y| {
            let rows = &raw[first * row_bytes..][..y.cols() * row_bytes];
            match format {
                InPlace::Super(format) => multiply_super_rows(Isa::best(), format, rows, x, y),
                InPlace::Lookup(format) => multiply_lookup_rows(Isa::best(), format, rows, x, y),
            }
        })
    })
}

thread_local! {
    /// Tiles of the last call, kept to reuse their memory.
    static TILES: RefCell<Option<Tiles<'static>>> = const { RefCell::new(None) };
}

/// The weight's rows in order: borrowed if they are contiguous, otherwise copied.
pub(in crate::cpu) fn bytes<'a>(weight: &Raw<'a>) -> Cow<'a, [u8]> {
    if weight.layout.is_contiguous() {
        let extent = weight.layout.extent();
        return Cow::Borrowed(&weight.bytes[extent.start * weight.size..extent.end * weight.size]);
    }
    let mut scratch = Default::default();
    let mut all = Vec::with_capacity(weight.layout.len() * weight.size);
    (0..weight.layout.dims()[0]).for_each(|i| all.extend_from_slice(row(weight, i, &mut scratch)));
    Cow::Owned(all)
}

/// `y[m, n] = x · weightᵀ`.
pub(super) fn multiply(format: Format, x: &Inputs<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (k, n) = (x.k(), weight.layout.dims()[0]);
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    x.quantized(|x| product(format, &raw, n, x, y))
}

fn product(
    format: Format,
    raw: &[u8],
    n: usize,
    x: &Activations,
    y: &mut [f32],
) -> core::result::Result<(), Error> {
    let row_bytes = raw.len() / n;
    for_each_part_of(x, n, y, &|first, y| {
        multiply_part(format, &raw[first * row_bytes..][..y.cols() * row_bytes], row_bytes, x, y)
    })
}

/// Computes a part of `y`: the first row of the weight, and the columns.
type PartFn<'f> = &'f (dyn Fn(usize, MatMut<'_, f32>) -> core::result::Result<(), Error> + Sync);

/// Calls `f` with the parts of `y` that threads compute.
fn for_each_part_of(
    x: &Activations,
    n: usize,
    y: &mut [f32],
    f: PartFn<'_>,
) -> core::result::Result<(), Error> {
    let (m, y) = (x.rows(), MatMut::new(y, x.rows(), n, n)?);
    let parts = split_columns(y, m.saturating_mul(x.k()), TILE_ROWS, 4);
    threads::for_each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| f(first, y))
}

/// Multiplies the rows of `raw` by all activations, on this thread.
fn multiply_part(
    format: Format,
    raw: &[u8],
    row_bytes: usize,
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> core::result::Result<(), Error> {
    if threads::by_row() {
        return multiply_rows_by_row(Isa::best(), format, raw, x, y);
    }
    if x.rows() <= MAX_ROWS_IN_PLACE {
        return multiply_rows(Isa::best(), format, raw, x, y);
    }
    with_tiles(format, |tiles| {
        for raw in raw.chunks(REPACKED_ROWS * row_bytes) {
            let (now, after) = y.split_at_col(raw.len() / row_bytes);
            multiply_tiles(tiles, format, raw, x, now)?;
            y = after;
        }
        Ok(())
    })
}

/// Calls `f` with this thread's tiles.
fn with_tiles(
    format: Format,
    f: impl FnOnce(&mut Tiles<'static>) -> core::result::Result<(), Error>,
) -> core::result::Result<(), Error> {
    let mut tiles = match TILES.take() {
        Some(tiles) => tiles,
        None => Tiles::new(format, &[], 0, 0)?,
    };
    f(&mut tiles)?;
    TILES.set(Some(tiles));
    Ok(())
}

/// Repacks the blocks of as many rows as y has columns, and multiplies them.
fn multiply_tiles(
    tiles: &mut Tiles<'static>,
    format: Format,
    raw: &[u8],
    x: &Activations,
    y: MatMut<'_, f32>,
) -> core::result::Result<(), Error> {
    tiles.repack(format, raw, y.cols(), x.k())?;
    quant::multiply(Isa::best(), tiles, 0..tiles.count(), x, y)
}

/// Whether a weight without kernels of its own for so many outputs is multiplied as 8-bit rows: with many rows of activations,
/// rounding the weight once more costs less than multiplying floats.
pub(super) fn is_requantized(rows: usize) -> bool {
    rows > MAX_ROWS_IN_PLACE
}

/// `y[m, n] = x · weightᵀ` for any format and many rows of x. A few rows of the weight at a time are rounded to 8 bits, in memory
/// of this call.
pub(super) fn multiply_requantized(
    format: &'static BlockInfo,
    x: &Inputs<'_>,
    weight: &Raw<'_>,
    y: &mut [f32],
) -> Result<()> {
    let (n, k) = (weight.layout.dims()[0], x.k());
    let row_bytes = k / format.values() * format.bytes();
    let raw = bytes(weight);
    x.quantized(|x| {
        for_each_part_of(x, n, y, &|first, mut y| {
            let mut rows = Requantized::new(k);
            with_tiles(Format::Q8_0, |tiles| {
                for raw in raw[first * row_bytes..][..y.cols() * row_bytes].chunks(REPACKED_ROWS * row_bytes)
                {
                    let (mut now, after) = y.split_at_col(raw.len() / row_bytes);
                    let blocks = rows.fill(format, raw.chunks_exact(row_bytes))?;
                    multiply_tiles(tiles, Format::Q8_0, blocks, x, now.reborrow())?;
                    rows.scale(&mut now);
                    y = after;
                }
                Ok(())
            })
        })
    })
}

/// Decodes a row of blocks, with vectors where there are kernels.
fn decode(format: &'static BlockInfo, row: &[u8], out: &mut [f32]) -> core::result::Result<(), Error> {
    let done = match in_place(DType::Block(format)) {
        Some(InPlace::Super(format)) => quant::decode_super_row(Isa::best(), format, row, out)?,
        Some(InPlace::Lookup(format)) => quant::decode_lookup_row(Isa::best(), format, row, out)?,
        None => false,
    };
    if !done {
        decode_row(format, row, out);
    }
    Ok(())
}

/// A few rows of a weight as q8_0 blocks.
struct Requantized {
    /// Bytes of a row.
    row: usize,
    blocks: Vec<u8>,
    /// What the scales of each row must be multiplied by.
    factors: Vec<f32>,
    /// A row of decoded weights.
    wide: Vec<f32>,
}

impl Requantized {
    fn new(k: usize) -> Self {
        let row = k / BLOCK * Q8_0_BYTES;
        Requantized {
            row,
            blocks: vec![0; REPACKED_ROWS * row],
            factors: Vec::with_capacity(REPACKED_ROWS),
            wide: vec![0.0; k],
        }
    }

    /// Quantizes these rows and returns their blocks.
    fn fill<'r>(
        &mut self,
        format: &'static BlockInfo,
        rows: impl Iterator<Item = &'r [u8]>,
    ) -> core::result::Result<&[u8], Error> {
        self.factors.clear();
        for (row, out) in rows.zip(self.blocks.chunks_exact_mut(self.row)) {
            decode(format, row, &mut self.wide)?;
            self.factors.push(quant::requantize(Isa::best(), &self.wide, out)?);
        }
        Ok(&self.blocks[..self.factors.len() * self.row])
    }

    /// Multiplies each column by the factor of its row of weights.
    fn scale(&self, y: &mut MatMut<'_, f32>) {
        for i in 0..y.rows() {
            y.row_mut(i).iter_mut().zip(&self.factors).for_each(|(y, factor)| *y *= factor);
        }
    }
}
