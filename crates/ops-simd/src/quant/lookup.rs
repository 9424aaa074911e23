//! Products with rows of blocks whose 4-bit codes stand for levels in a table: GGUF's iq4_nl and mxfp4.
//!
//! Each step of 32 weights is sixteen bytes of codes, the low halves first, and a factor of its levels.

use super::activations::{Activations, Panel};
use super::blocks::BLOCK;
use super::in_place::{self, RowFormat};
#[cfg(target_arch = "x86_64")]
use super::in_place::{PairFormat, checked_row, multiply_pairs};
#[cfg(target_arch = "x86_64")]
use super::lookup_avx512::{Prepared, prepare, products};
use super::lookup_portable;
use crate::error::Error;
use crate::gemm::MatMut;
use crate::isa::Isa;
#[cfg(target_arch = "x86_64")]
use crate::isa::Level;

/// A format whose codes stand for levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupFormat {
    /// Blocks of 32: an f16 scale, then the codes.
    Iq4Nl,
    /// Blocks of 32: an exponent, then the codes of 4-bit floats.
    Mxfp4,
}

/// A step's factor and its codes.
pub(super) type Step<'a> = (f32, &'a [u8; BLOCK / 2]);

impl RowFormat for LookupFormat {
    fn block(self) -> (usize, usize) {
        match self {
            LookupFormat::Iq4Nl => (BLOCK, 18),
            LookupFormat::Mxfp4 => (BLOCK, 17),
        }
    }

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
                LookupFormat::Iq4Nl => products::<18, R>(self.0, rows, x),
                LookupFormat::Mxfp4 => products::<17, R>(self.0, rows, x),
            }
        }
    }
}

/// The levels of iq4_nl and iq4_xs, with an offset of 128.
pub(super) const LEVELS: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

impl LookupFormat {
    /// The levels of the codes, in units of the factor.
    pub(super) fn levels(self) -> [i8; 16] {
        match self {
            LookupFormat::Mxfp4 => [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12],
            _ => [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
        }
    }

    /// The steps of a row; `half` converts f16.
    #[inline(always)]
    pub(super) fn each_step(self, row: &[u8], half: impl Fn(u16) -> f32, mut f: impl FnMut(Step<'_>)) {
        match self {
            LookupFormat::Iq4Nl => {
                for block in row.as_chunks::<18>().0 {
                    let (scale, codes) = (half(u16::from_le_bytes([block[0], block[1]])), block.last_chunk());
                    codes.into_iter().for_each(|codes| f((scale, codes)));
                }
            }
            LookupFormat::Mxfp4 => {
                for block in row.as_chunks::<17>().0 {
                    let (scale, codes) = (half_power(block[0]), block.last_chunk());
                    codes.into_iter().for_each(|codes| f((scale, codes)));
                }
            }
        }
    }
}

/// Half of 2^(exponent − 127), because the levels are twice the floats that the codes of mxfp4 stand for.
/// Exponents 0 and 1 are subnormal.
#[inline(always)]
fn half_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        normal => u32::from(normal - 1) << 23,
    })
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
    y: MatMut<'_, f32>,
) -> Result<(), Error> {
    #[cfg(target_arch = "x86_64")]
    if isa.level() == Level::Avx512Vnni {
        let mut y = y;
        let row_bytes = checked_row(format.block(), raw, x, &mut y)?;
        if row_bytes > 0 {
            multiply_pairs(isa, Vnni(format), (raw, row_bytes), &prepare(format, x), &mut y);
        }
        return Ok(());
    }
    in_place::multiply(isa, format, raw, x, y)
}
