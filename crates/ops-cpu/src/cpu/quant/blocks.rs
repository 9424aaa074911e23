//! Integer products with q8_0 and q4_0 weights, and of few rows with super-blocks.
//!
//! Activations are quantized to 8 bits once per call. The weight keeps its file layout. With few rows
//! of activations, its blocks are multiplied in place, at memory bandwidth. With many, each thread
//! repacks a few rows at a time into tiles in its cache and multiplies all activations by them.
use super::super::matmul::split_columns;
use super::super::rows::{packed, row};
use super::super::threads;
use super::super::vectors::{Fault, on_vector, report, unsupported_dtype};
use crate::host::raw::Raw;
use ops_core::{DType, Result};
use ops_simd::gemm::MatMut;
use ops_simd::quant::{
    Activations, Format, SuperFormat, TILE_ROWS, Tiles, multiply_rows, multiply_super_rows,
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

/// The format of the kernels for few rows of activations and super-blocks.
fn super_format(dtype: DType) -> Option<SuperFormat> {
    use ops_core::quant::{Q4_K, Q5_K, Q6_K};
    let DType::Block(info) = dtype else { return None };
    let known = [(&Q4_K, SuperFormat::Q4K), (&Q5_K, SuperFormat::Q5K), (&Q6_K, SuperFormat::Q6K)];
    known.into_iter().find(|(known, _)| **known == *info).map(|(_, format)| format)
}

/// Whether super-blocks are multiplied in place: only for few rows of activations. For many, decoding the weight to f32 once
/// and multiplying floats is faster.
pub(super) fn reads_in_place(weight: &Raw<'_>, outputs: usize) -> bool {
    super_format(weight.dtype).is_some()
        && outputs <= MAX_ROWS_IN_PLACE.saturating_mul(weight.layout.dims()[0])
}

/// `y[m, n] = x · weightᵀ` for super-blocks and few rows of x.
pub(super) fn multiply_super(x: &Raw<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (n, k, Some(format)) = (weight.layout.dims()[0], x.layout.last(), super_format(weight.dtype)) else {
        return report("qlinear", Err(unsupported_dtype(weight.dtype)));
    };
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    let row_bytes = raw.len() / n;
    with_activations(x, |x| {
        let parts = split_columns(MatMut::new(y, x.rows(), n, n)?, x.rows().saturating_mul(k), TILE_ROWS, 4);
        threads::for_each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
            let rows = &raw[first * row_bytes..][..y.cols() * row_bytes];
            multiply_super_rows(Isa::best(), format, rows, x, y)
        })
    })
}

thread_local! {
    /// Activations and tiles of the last call, kept to reuse their memory.
    static ACTIVATIONS: RefCell<Activations> = RefCell::default();
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
pub(super) fn multiply(format: Format, x: &Raw<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (k, n) = (x.layout.last(), weight.layout.dims()[0]);
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let raw = bytes(weight);
    with_activations(x, |x| product(format, &raw, n, x, y))
}

/// Calls `product` with the rows of `x` quantized to 8 bits.
pub(in crate::cpu) fn with_activations(
    x: &Raw<'_>,
    product: impl FnOnce(&Activations) -> core::result::Result<(), Error>,
) -> Result<()> {
    // Taken, not borrowed: while this thread waits, it may run a job of another caller that also needs them.
    let mut activations = ACTIVATIONS.take();
    let quantized = on_vector!(x.dtype, T => {
        let rows = packed::<T>(x)?;
        activations.quantize(Isa::best(), &rows, x.layout.last()).map_err(Fault::from)
    }, else Err(unsupported_dtype(x.dtype)));
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
    let parts = split_columns(MatMut::new(y, m, n, n)?, m.saturating_mul(x.k()), TILE_ROWS, 4);
    threads::for_each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
        multiply_part(format, &raw[first * row_bytes..][..y.cols() * row_bytes], row_bytes, x, y)
    })
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
    if x.rows() <= MAX_ROWS_IN_PLACE {
        return multiply_rows(isa, format, raw, x, y);
    }
    let mut tiles = match TILES.take() {
        Some(tiles) => tiles,
        None => Tiles::new(format, &[], 0, 0)?,
    };
    for raw in raw.chunks(REPACKED_ROWS * row_bytes) {
        let rows = raw.len() / row_bytes;
        tiles.repack(format, raw, rows, x.k())?;
        let (now, after) = y.split_at_col(rows);
        quant::multiply(isa, &tiles, 0..tiles.count(), x, now)?;
        y = after;
    }
    TILES.set(Some(tiles));
    Ok(())
}
