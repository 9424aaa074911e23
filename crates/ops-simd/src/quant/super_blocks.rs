//! Products with rows of super-blocks of 256 weights in file order: GGUF's q4_k, q5_k, q6_k and iq4_xs.
//!
//! A super-block is eight steps of 32 weights, each of which meets one block of activations. Codes are unsigned bytes. A weight
//! is `d · s · code − min` (q4_k, q5_k) with one scale and minimum per step, `d · s · (code − 32)` (q6_k) with one scale for
//! each half of a step, or `d · s · level(code)` (iq4_xs).
//!
//! The weights are read one row after the other: reading four rows side by side takes twice as long from memory, because the
//! hardware prefetches one stream better than four.

use super::activations::Activations;
use super::one_row::{Prepared, prepare};
use super::one_row_portable;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::{Isa, Level};

/// Weights of a super-block.
pub const SUPER_BLOCK: usize = 256;
/// Steps of a super-block.
pub(super) const STEPS: usize = 8;
/// Rows of weights that are multiplied side by side.
const ROWS: usize = 2;

/// A format of super-blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuperFormat {
    /// 4 bits, with minima.
    Q4K,
    /// 5 bits, with minima.
    Q5K,
    /// 6 bits.
    Q6K,
    /// 4 bits that stand for levels in a table.
    Iq4Xs,
}

impl SuperFormat {
    /// Bytes of a super-block.
    pub fn block_bytes(self) -> usize {
        match self {
            SuperFormat::Q4K => 144,
            SuperFormat::Q5K => 176,
            SuperFormat::Q6K => 210,
            SuperFormat::Iq4Xs => 136,
        }
    }
}

/// y = x·Wᵀ for W in super-blocks in file order; `raw` has as many rows as y has columns. The weights are read in place, for one
/// row of x after the other: meant for one row or two.
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
    if !x.k().is_multiple_of(SUPER_BLOCK) {
        return Err(Error::Multiple { operand: "k", got: x.k(), of: SUPER_BLOCK });
    }
    let row_bytes = x.k() / SUPER_BLOCK * format.block_bytes();
    same_len("weight bytes", raw.len(), y.cols().saturating_mul(row_bytes))?;
    same_len("rows of y", y.rows(), x.rows())?;
    if row_bytes == 0 {
        (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
        return Ok(());
    }
    let prepared = prepare(format, x);
    for (g, rows) in raw.chunks(ROWS * row_bytes).enumerate() {
        for (i, x) in prepared.chunks_exact(x.k() / SUPER_BLOCK).enumerate() {
            let y = &mut y.row_mut(i)[g * ROWS..];
            let (first, second) = rows.split_at(row_bytes);
            if second.is_empty() {
                [y[0]] = products(isa, format, [first], x);
            } else {
                [y[0], y[1]] = products(isa, format, [first, second], x);
            }
        }
    }
    Ok(())
}

/// The products of rows of weights and a row of activations.
fn products<const R: usize>(isa: Isa, format: SuperFormat, rows: [&[u8]; R], x: &[Prepared]) -> [f32; R] {
    match isa.level() {
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vnni => unsafe {
            use super::one_row_avx512::products;
            match format {
                SuperFormat::Q4K => products::<144, R>(rows, x),
                SuperFormat::Q5K => products::<176, R>(rows, x),
                SuperFormat::Q6K => products::<210, R>(rows, x),
                SuperFormat::Iq4Xs => products::<136, R>(rows, x),
            }
        },
        // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe {
            use super::one_row_avx2::product;
            rows.map(|row| match format {
                SuperFormat::Q4K => product::<144>(row, x),
                SuperFormat::Q5K => product::<176>(row, x),
                SuperFormat::Q6K => product::<210>(row, x),
                SuperFormat::Iq4Xs => product::<136>(row, x),
            })
        },
        _ => rows.map(|row| one_row_portable::product(format, row, x)),
    }
}
