//! Products with rows of super-blocks of 256 weights in file order: GGUF's q4_k, q5_k, q6_k and iq4_xs.
//!
//! A super-block is eight steps of 32 weights, each of which is multiplied by one block of activations. Codes
//! are unsigned bytes. A weight is `d · s · code − min` (q4_k, q5_k) with one scale and minimum per step, `d
//! · s · (code − 32)` (q6_k) with one scale for each half of a step, or `d · s · level(code)` (iq4_xs).
//!
//! The weights are read one row after the other: reading four rows side by side takes twice as long from memory, because the
//! hardware prefetches one stream better than four.

use super::activations::Activations;
#[cfg(target_arch = "x86_64")]
use super::formats::marker;
use super::formats::{SUPER_BLOCK, SuperFormat};
use super::in_place::{PairFormat, add_outliers, checked_row, multiply_pairs};
use super::one_row::{Prepared, prepare};
use super::one_row_portable;
use crate::error::Error;
use crate::gemm::MatMut;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Level;

/// y = x·Wᵀ for W in super-blocks in file order; `raw` has as many rows as y has columns. The weights are
/// read in place, for one row of x after the other: meant for one or two rows.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_super_rows(
    isa: Isa,
    format: SuperFormat,
    raw: &[u8],
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let block = (SUPER_BLOCK, format.block_bytes());
    let row_bytes = checked_row(block, raw, x, &mut y)?;
    if row_bytes == 0 {
        return Ok(());
    }
    multiply_pairs(isa, format, (raw, row_bytes), &prepare(format, x), &mut y);
    add_outliers(isa, block, (raw, row_bytes), x, &mut y, |raw, unit, y| {
        multiply_super_rows(isa, format, raw, unit, y)
    })
}

impl PairFormat for SuperFormat {
    type Prepared = Prepared;

    fn products<const R: usize>(self, isa: Isa, rows: [&[u8]; R], x: &[Prepared]) -> [f32; R] {
        match isa.level() {
            // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => unsafe {
                use super::one_row_avx512::products;
                match self {
                    SuperFormat::Q4K => products::<marker::Q4K, R>(rows, x),
                    SuperFormat::Q5K => products::<marker::Q5K, R>(rows, x),
                    SuperFormat::Q6K => products::<marker::Q6K, R>(rows, x),
                    SuperFormat::Iq4Xs => products::<marker::Iq4Xs, R>(rows, x),
                }
            },
            // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe {
                use super::one_row_avx2::product;
                rows.map(|row| match self {
                    SuperFormat::Q4K => product::<marker::Q4K>(row, x),
                    SuperFormat::Q5K => product::<marker::Q5K>(row, x),
                    SuperFormat::Q6K => product::<marker::Q6K>(row, x),
                    SuperFormat::Iq4Xs => product::<marker::Iq4Xs>(row, x),
                })
            },
            _ => rows.map(|row| one_row_portable::product(self, row, x)),
        }
    }
}
