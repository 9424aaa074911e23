//! Products with rows of blocks whose 4-bit codes stand for levels in a table: GGUF's iq4_nl and mxfp4.
//!
//! Each step of 32 weights is sixteen bytes of codes, the low halves first, and a factor of its levels.

use super::activations::{Activations, Panel};
use super::blocks::BLOCK;
use super::formats::LookupFormat;
#[cfg(target_arch = "x86_64")]
use super::formats::marker;
use super::in_place::{self, RowFormat, checked_row};
#[cfg(target_arch = "x86_64")]
use super::in_place::{PairFormat, multiply_pairs};
#[cfg(target_arch = "x86_64")]
use super::lookup_avx512::{Prepared, prepare, products};
use super::lookup_portable;
use crate::error::Error;
use crate::gemm::MatMut;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Level;

impl RowFormat for LookupFormat {
    fn dot<const M: usize>(self, isa: Isa, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
        match isa.level() {
            // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 | Level::Avx512Vnni => unsafe {
                super::lookup_avx2::row(self, row, x)
            },
            _ => lookup_portable::row(self, row, x),
        }
    }
}

/// Products with AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Vnni(LookupFormat);

#[cfg(target_arch = "x86_64")]
impl PairFormat for Vnni {
    type Prepared = Prepared;

    fn products<const R: usize>(self, isa: Isa, rows: [&[u8]; R], x: &[Prepared]) -> [f32; R] {
        assert_eq!(isa.level(), Level::Avx512Vnni);
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        unsafe {
            match self.0 {
                LookupFormat::Iq4Nl => products::<marker::Iq4Nl, R>(rows, x),
                LookupFormat::Mxfp4 => products::<marker::Mxfp4, R>(rows, x),
            }
        }
    }
}

/// y = x·Wᵀ for W in such blocks in file order; `raw` has as many rows as y has columns. The weights are read
/// in place. Meant for one or two rows: with AVX-512 VNNI, the rows of x are multiplied one after the other.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_lookup_rows(
    isa: Isa,
    format: LookupFormat,
    raw: &[u8],
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let block = (BLOCK, format.block_bytes());
    let row_bytes = checked_row(block, raw, x, &mut y)?;
    if row_bytes == 0 {
        return Ok(());
    }
    let add_outliers = |y: &mut MatMut<'_, f32>| {
        in_place::add_outliers(isa, block, (raw, row_bytes), x, y, |raw, unit, y| {
            multiply_lookup_rows(isa, format, raw, unit, y)
        })
    };
    #[cfg(target_arch = "x86_64")]
    if isa.level() == Level::Avx512Vnni {
        multiply_pairs(isa, Vnni(format), (raw, row_bytes), &prepare(format, x), &mut y);
        return add_outliers(&mut y);
    }
    in_place::multiply(isa, format, (raw, row_bytes), x, &mut y);
    add_outliers(&mut y)
}
