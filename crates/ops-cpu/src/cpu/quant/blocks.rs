//! Integer products with weights in blocks.
//!
//! Activations are quantized to 8 bits once per call (`inputs.rs`). The weight keeps its file layout. With
//! few rows of activations, the blocks of formats that have kernels for this are multiplied in place, at
//! memory bandwidth. Otherwise each thread converts a few rows at a time into tiles of codes in its cache,
//! and multiplies all activations by them. The iq2 and iq3 formats have no byte codes: with many rows of
//! activations, their rows are rounded to q8_0.
use super::super::product::split_columns;
use super::super::rows::row;
use super::super::threads;
use super::decode::Decoder;
use super::inputs::Inputs;
use crate::host::raw::Raw;
use ops_core::{BlockInfo, DType, Result};
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, BLOCK, CodeFormat, Format, LookupFormat, Q8_0_BYTES, SuperFormat, TILE_ROWS, Tiles,
    multiply_codes, multiply_lookup_rows, multiply_rows, multiply_rows_by_row, multiply_super_rows,
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

/// A kernel that multiplies rows of blocks.
#[derive(Clone, Copy)]
pub(super) enum Kernel {
    /// Reads few rows in place.
    Super(SuperFormat),
    /// Likewise, with a lookup table.
    Lookup(LookupFormat),
    /// Converts rows to codes.
    Codes(CodeFormat),
}

/// Up to this many rows of activations, some formats are faster in place than as codes.
const MAX_ROWS_BESIDE_CODES: usize = 2;

/// The kernel for a weight in a format that [`simd_format`] does not cover, with this many rows of
/// activations.
pub(super) fn kernel(dtype: DType, rows: usize) -> Option<Kernel> {
    use ops_core::quant as q;
    let DType::Block(info) = dtype else { return None };
    // The format's codes, and the kernel that reads one or two rows faster in place.
    let known = [
        (&q::Q4_K, CodeFormat::Q4K, Some(Kernel::Super(SuperFormat::Q4K))),
        (&q::Q5_K, CodeFormat::Q5K, Some(Kernel::Super(SuperFormat::Q5K))),
        (&q::Q6_K, CodeFormat::Q6K, Some(Kernel::Super(SuperFormat::Q6K))),
        (&q::IQ4_NL, CodeFormat::Iq4Nl, Some(Kernel::Lookup(LookupFormat::Iq4Nl))),
        (&q::IQ4_XS, CodeFormat::Iq4Xs, Some(Kernel::Super(SuperFormat::Iq4Xs))),
        (&q::MXFP4, CodeFormat::Mxfp4, Some(Kernel::Lookup(LookupFormat::Mxfp4))),
        (&q::Q4_1, CodeFormat::Q4_1, None),
        (&q::Q5_0, CodeFormat::Q5_0, None),
        (&q::Q5_1, CodeFormat::Q5_1, None),
        (&q::Q8_1, CodeFormat::Q8_1, None),
        (&q::Q2_K, CodeFormat::Q2K, None),
        (&q::Q3_K, CodeFormat::Q3K, None),
        (&q::Q8_K, CodeFormat::Q8K, None),
    ];
    let (_, codes, in_place) = known.into_iter().find(|(known, ..)| **known == *info)?;
    // If a row's bits may not depend on the others, one kernel must serve any number of rows: codes, unless they are rounded.
    let few = if threads::by_row() { codes.rounds(Isa::best()) } else { rows <= MAX_ROWS_BESIDE_CODES };
    in_place.filter(|_| few).or(Some(Kernel::Codes(codes)))
}

/// Whether there are too many rows of activations to multiply in place.
pub(super) fn is_many(rows: usize) -> bool {
    rows > MAX_ROWS_IN_PLACE
}

/// `y[m, n] = x · weightᵀ` with such a kernel.
pub(super) fn multiply_with(kernel: Kernel, x: &Inputs<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (n, k) = (weight.layout.dims()[0], x.k());
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    let row_bytes = raw.len() / n;
    x.quantized(|x| {
        for_each_part_of(x, n, y, &|first, y| {
            let rows = &raw[first * row_bytes..][..y.cols() * row_bytes];
            match kernel {
                Kernel::Super(format) => multiply_super_rows(Isa::best(), format, rows, x, y),
                Kernel::Lookup(format) => multiply_lookup_rows(Isa::best(), format, rows, x, y),
                Kernel::Codes(format) => multiply_codes(Isa::best(), format, rows, x, y),
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

/// Calls `f` with the parts of `y`, on threads.
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
    let isa = Isa::best();
    if let Some(codes) = CodeFormat::faster_than_tiles(isa, format)
        && is_many(x.rows())
        && (CodeFormat::same_as_in_place(isa) || !threads::by_row())
    {
        return multiply_codes(isa, codes, raw, x, y);
    }
    if threads::by_row() {
        return multiply_rows_by_row(isa, format, raw, x, y);
    }
    if !is_many(x.rows()) {
        return multiply_rows(isa, format, raw, x, y);
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

/// Multiplies the blocks of as many rows as y has columns, as codes or in tiles.
fn multiply_tiles(
    tiles: &mut Tiles<'static>,
    format: Format,
    raw: &[u8],
    x: &Activations,
    y: MatMut<'_, f32>,
) -> core::result::Result<(), Error> {
    if let Some(codes) = CodeFormat::faster_than_tiles(Isa::best(), format) {
        return multiply_codes(Isa::best(), codes, raw, x, y);
    }
    tiles.repack(format, raw, y.cols(), x.k())?;
    quant::multiply(Isa::best(), tiles, 0..tiles.count(), x, y)
}

/// `y[m, n] = x · weightᵀ` for any format and many rows of x. Rounds a few rows of the weight at a time to 8
/// bits, in temporary memory.
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

/// A few rows of a weight as q8_0 blocks.
struct Requantized {
    /// Bytes of a row.
    row: usize,
    blocks: Vec<u8>,
    /// The factors by which the scales of each row must be multiplied.
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
        let decoder = Decoder::of(format);
        for (row, out) in rows.zip(self.blocks.chunks_exact_mut(self.row)) {
            decoder.row(row, &mut self.wide);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_which_formats_are_read_in_place() {
        let page = include_str!("../../../../../docs/formats.md");
        for &format in ops_core::quant::FORMATS {
            let dtype = DType::Block(format);
            let want = match (simd_format(dtype), kernel(dtype, 1)) {
                (Some(_), _) | (_, Some(Kernel::Super(_) | Kernel::Lookup(_))) => {
                    "codes, in place".to_owned()
                }
                (None, Some(Kernel::Codes(_))) => "codes".to_owned(),
                (None, None) => format!("rounded, from {} rows", MAX_ROWS_IN_PLACE + 1),
            };
            let row = page.lines().find(|line| line.starts_with(&format!("| {} |", format.name())));
            let last = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next());
            assert_eq!(last, Some(&*want), "docs/formats.md: the last column of {}", format.name());
        }
    }
}
