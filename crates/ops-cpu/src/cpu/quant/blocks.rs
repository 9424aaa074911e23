//! Products with q8_0 and q4_0 weights in integers.
//!
//! Activations become 8 bits once per call. The weight stays as the file has it: for few rows of
//! activations its blocks are multiplied in place, at the speed of memory; for many, a thread repacks
//! a few rows at a time into tiles in its cache, which all activations then meet.
use super::super::matmul::columns;
use super::super::rows::{packed, row};
use super::super::threads;
use super::super::vectors::{Fault, no_code, on_vector, report};
use crate::host::raw::Raw;
use ops_core::{DType, Result};
use ops_simd::gemm::MatMut;
use ops_simd::quant::{Activations, Format, TILE_ROWS, Tiles, multiply_rows};
use ops_simd::{Error, Isa, quant};
use std::borrow::Cow;
use std::cell::RefCell;

/// Rows of activations up to which the weight's blocks are multiplied in place.
const FEW: usize = 16;
/// Rows of the weight that are repacked at a time: with a panel of activations they fit the second cache.
const REPACKED: usize = 4 * TILE_ROWS;

/// The kernels' name of a block format, if they know it.
pub(in crate::cpu) fn known(dtype: DType) -> Option<Format> {
    match dtype {
        DType::Block(info) if *info == ops_core::quant::Q8_0 => Some(Format::Q8_0),
        DType::Block(info) if *info == ops_core::quant::Q4_0 => Some(Format::Q4_0),
        _ => None,
    }
}

thread_local! {
    /// Activations and tiles of the last call, for their memory.
    static ACTIVATIONS: RefCell<Activations> = RefCell::default();
    static TILES: RefCell<Option<Tiles<'static>>> = const { RefCell::new(None) };
}

/// The weight's rows one after the other: in place where they stand so.
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
pub(super) fn multiply(format: Format, x: &Raw<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (k, n) = (x.layout.last(), weight.layout.dims()[0]);
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    with_activations(x, |x| product(format, &raw, n, x, y))
}

/// What `product` makes of the rows of `x` in 8 bits.
pub(in crate::cpu) fn with_activations(
    x: &Raw<'_>,
    product: impl FnOnce(&Activations) -> core::result::Result<(), Error>,
) -> Result<()> {
    // Taken, not borrowed: a job of another caller may run on this thread while it waits.
    let mut activations = ACTIVATIONS.take();
    let quantized = on_vector!(x.dtype, T => {
        let rows = packed::<T>(x)?;
        activations.quantize(Isa::best(), &rows, x.layout.last()).map_err(Fault::from)
    }, else Err(no_code(x.dtype)));
    let done = quantized.and_then(|()| Ok(product(&activations)?));
    ACTIVATIONS.set(activations);
    report("qlinear", done)
}

fn product(
    format: Format,
    raw: &[u8],
    n: usize,
    x: &Activations,
    y: &mut [f32],
) -> core::result::Result<(), Error> {
    let (m, row_bytes) = (x.rows(), raw.len() / n);
    let parts = columns(MatMut::new(y, m, n, n)?, m.saturating_mul(x.k()), TILE_ROWS, 4);
    threads::each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
        part(format, &raw[first * row_bytes..][..y.cols() * row_bytes], row_bytes, x, y)
    })
}

/// The rows of `raw` against all activations, on this thread.
fn part(
    format: Format,
    raw: &[u8],
    row_bytes: usize,
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> core::result::Result<(), Error> {
    let isa = Isa::best();
    if x.rows() <= FEW {
        return multiply_rows(isa, format, raw, x, y);
    }
    let mut tiles = match TILES.take() {
        Some(tiles) => tiles,
        None => Tiles::new(format, &[], 0, 0)?,
    };
    for raw in raw.chunks(REPACKED * row_bytes) {
        let rows = raw.len() / row_bytes;
        tiles.repack(format, raw, rows, x.k())?;
        let (now, after) = y.split_at_col(rows);
        quant::multiply(isa, &tiles, 0..tiles.count(), x, now)?;
        y = after;
    }
    TILES.set(Some(tiles));
    Ok(())
}
