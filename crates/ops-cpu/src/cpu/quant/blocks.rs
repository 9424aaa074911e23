//! Integer products with weights in blocks, split over threads.
//!
//! Activations are quantized to 8 bits once per call; where `outliers_for` says so, outliers are set aside (`inputs.rs`). The weight keeps its file layout.
//! `ops-simd` chooses the kernel.
use super::super::product::split_columns;
use super::super::rows::row;
use super::super::threads;
use super::inputs::Inputs;
use super::known::Decoder;
use crate::host::raw::Raw;
use ops_core::Result;
use ops_simd::Isa;
use ops_simd::gemm::MatMut;
use ops_simd::quant::{self, Sums, TILE_ROWS, Weight};
use std::borrow::Cow;

/// What the backend requires of sums.
pub(in crate::cpu) fn sums() -> Sums {
    if threads::by_row() { Sums::ByRow } else { Sums::Any }
}

/// Whether a product of `rows` rows with a weight of these blocks rounds the rows to 8 bits.
pub(super) fn rounds(decoder: Decoder<'_>, weight: &Raw<'_>, rows: usize) -> bool {
    // A broadcast row repeats the same error in all its outputs.
    let columns = if weight.layout.strides()[0] == 0 { 1 } else { weight.layout.dims()[0] };
    !threads::exact() && quant::rounds_activations(decoder.simd(), rows, columns, sums())
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

/// `y[m, n] = x · weightᵀ`, with rounded rows of x.
pub(super) fn multiply(decoder: Decoder<'_>, x: &Inputs<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (n, k) = (weight.layout.dims()[0], x.k());
    if y.is_empty() || k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    let (raw, sums) = (bytes(weight), sums());
    let row_bytes = raw.len() / n;
    let decode = |row: &[u8], y: &mut [f32]| decoder.row(row, y);
    let outliers = quant::outliers_for(Isa::best(), decoder.simd(), y.len() / n, sums);
    x.quantized(outliers, |x| {
        let parts = split_columns(MatMut::new(y, x.rows(), n, n)?, x.rows().saturating_mul(k), TILE_ROWS, 4);
        threads::for_each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
            let raw = &raw[first * row_bytes..][..y.cols() * row_bytes];
            let weight = Weight { raw, format: decoder.simd(), decode: &decode };
            quant::multiply(Isa::best(), weight, x, sums, y)
        })
    })
}
