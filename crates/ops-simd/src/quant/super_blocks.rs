//! Products with rows of super-blocks of 256 weights in file order: GGUF's q4_k, q5_k and q6_k.
//!
//! A super-block is eight steps of 32 weights, each of which meets one block of activations. Codes are unsigned bytes. A weight
//! is `d · s · code − min` (q4_k, q5_k) with one scale and minimum per step, or `d · s · (code − 32)` (q6_k) with one scale for
//! each half of a step.

use super::activations::{Activations, Panel};
use super::in_place::{self, RowFormat};
use super::super_portable;
use crate::error::Error;
use crate::gemm::MatMut;
use crate::isa::{Isa, Level};

/// Weights of a super-block.
pub const SUPER_BLOCK: usize = 256;
/// Steps of a super-block.
pub(super) const STEPS: usize = 8;

/// A format of super-blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuperFormat {
    /// 4 bits, with minima.
    Q4K,
    /// 5 bits, with minima.
    Q5K,
    /// 6 bits.
    Q6K,
}

impl SuperFormat {
    /// Bytes of a super-block.
    pub fn block_bytes(self) -> usize {
        match self {
            SuperFormat::Q4K => 144,
            SuperFormat::Q5K => 176,
            SuperFormat::Q6K => 210,
        }
    }
}

/// What the steps of a super-block have besides their codes.
#[derive(Clone, Copy)]
pub(super) struct Scales {
    /// Factors of integer sums: `d · s` with minima, `d` without.
    pub(super) factor: [f32; STEPS],
    /// Minima of steps.
    pub(super) min: [f32; STEPS],
    /// Integer scales of the halves of steps; 1 with minima.
    pub(super) halves: [[i16; 2]; STEPS],
}

impl Scales {
    /// Factor and minimum of half a step: a weight is `factor · code − minimum`.
    #[inline(always)]
    pub(super) fn of_half(&self, format: SuperFormat, i: usize) -> (f32, f32) {
        let factor = self.factor[i / 2] * f32::from(self.halves[i / 2][i % 2]);
        (factor, if format == SuperFormat::Q6K { 32.0 * factor } else { self.min[i / 2] })
    }
}

/// Decodes a row of super-blocks with vectors. Returns whether this instruction set has them; if not, nothing is written.
///
/// # Errors
/// [`Error::Multiple`] or [`Error::Length`] if the lengths do not match.
pub fn decode_super_row(isa: Isa, format: SuperFormat, row: &[u8], out: &mut [f32]) -> Result<bool, Error> {
    in_place::check_row(format, row, out)?;
    match isa.level() {
        // SAFETY: these levels exist only after AVX-512 F, BW, DQ and VL were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx512Vnni => unsafe {
            match format {
                SuperFormat::Q4K => super::super_avx512::decode::<144>(format, row, out),
                SuperFormat::Q5K => super::super_avx512::decode::<176>(format, row, out),
                SuperFormat::Q6K => super::super_avx512::decode::<210>(format, row, out),
            }
        },
        // SAFETY: this level exists only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe {
            match format {
                SuperFormat::Q4K => super::super_avx2::decode::<144>(format, row, out),
                SuperFormat::Q5K => super::super_avx2::decode::<176>(format, row, out),
                SuperFormat::Q6K => super::super_avx2::decode::<210>(format, row, out),
            }
        },
        _ => return Ok(false),
    }
    #[cfg(target_arch = "x86_64")]
    Ok(true)
}

/// The scales of a super-block; `half` converts f16.
#[inline(always)]
pub(super) fn scales(format: SuperFormat, block: &[u8], half: impl Fn(u16) -> f32) -> Scales {
    let f16_at = |at: usize| half(u16::from_le_bytes([block[at], block[at + 1]]));
    let mut out = Scales { factor: [0.0; STEPS], min: [0.0; STEPS], halves: [[1; 2]; STEPS] };
    if format == SuperFormat::Q6K {
        out.factor = [f16_at(208); STEPS];
        for (halves, s) in out.halves.iter_mut().zip(block[192..208].chunks_exact(2)) {
            *halves = [i16::from(s[0] as i8), i16::from(s[1] as i8)];
        }
        return out;
    }
    let (d, min, packed) = (f16_at(0), f16_at(2), &block[4..16]);
    for j in 0..4 {
        let (low, high) = (packed[j], packed[j + 4]);
        let rest = packed[j + 8];
        (out.factor[j], out.min[j]) = (d * f32::from(low & 63), min * f32::from(high & 63));
        out.factor[j + 4] = d * f32::from(rest & 15 | low >> 6 << 4);
        out.min[j + 4] = min * f32::from(rest >> 4 | high >> 6 << 4);
    }
    out
}

/// y = x·Wᵀ for W in super-blocks in file order; `raw` has as many rows as y has columns. The weights are read in place, once
/// for every eight rows of x. Meant for few rows.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_super_rows(
    isa: Isa,
    format: SuperFormat,
    raw: &[u8],
    x: &Activations,
    y: MatMut<'_, f32>,
) -> Result<(), Error> {
    in_place::multiply(isa, format, raw, x, y)
}

impl RowFormat for SuperFormat {
    fn block(self) -> (usize, usize) {
        (SUPER_BLOCK, self.block_bytes())
    }

    fn dot<const M: usize>(self, isa: Isa, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
        match isa.level() {
            // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => unsafe {
                match self {
                    SuperFormat::Q4K => super::super_avx512::row::<M, 144>(self, row, x),
                    SuperFormat::Q5K => super::super_avx512::row::<M, 176>(self, row, x),
                    SuperFormat::Q6K => super::super_avx512::row::<M, 210>(self, row, x),
                }
            },
            // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 => unsafe {
                match self {
                    SuperFormat::Q4K => super::super_avx2::row::<M, 144>(self, row, x),
                    SuperFormat::Q5K => super::super_avx2::row::<M, 176>(self, row, x),
                    SuperFormat::Q6K => super::super_avx2::row::<M, 210>(self, row, x),
                }
            },
            _ => super_portable::row(self, row, x),
        }
    }
}
