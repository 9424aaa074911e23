//! Products of any number of rows with rows of blocks of any format that has an unpacking (`unpack.rs`).
//!
//! Sixteen rows of the weight at a time, and some of their columns, become unsigned codes with f32 scales and minima, in memory of
//! the call. A vector then holds the same four columns of sixteen rows, and all activations are multiplied by it while it is in the
//! cache. The codes are those of the file, so nothing is rounded, except with q6_k ([`CodeFormat::rounds`]).

use super::activations::{Activations, Panel, panel_rows};
use super::blocks::BLOCK;
use super::tiles::TILE_ROWS;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::{Isa, Level};
use crate::scratch::Scratch;
use words::{Lanes, Words};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod plain;
mod unpack;
mod words;

/// A format whose rows become codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum CodeFormat {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

/// How sums of codes become sums of weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An offset of 128, which the integers take off.
    Signed,
    /// A minimum for each step.
    Minimum,
    /// The same for each half of a step.
    TwoMinima,
}

impl CodeFormat {
    /// All formats.
    pub const ALL: [Self; 15] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q8_1,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q8K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Mxfp4,
    ];

    /// Weights and bytes of a block.
    pub fn block(self) -> (usize, usize) {
        match self {
            Self::Q4_0 | Self::Iq4Nl => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q5_0 => (32, 22),
            Self::Q5_1 => (32, 24),
            Self::Q8_0 => (32, 34),
            Self::Q8_1 => (32, 36),
            Self::Mxfp4 => (32, 17),
            Self::Q2K => (256, 84),
            Self::Q3K => (256, 110),
            Self::Q4K => (256, 144),
            Self::Q5K => (256, 176),
            Self::Q6K => (256, 210),
            Self::Q8K => (256, 292),
            Self::Iq4Xs => (256, 136),
        }
    }

    /// Whether codes are rounded, to a 127th of the largest weight of 32. The NMSE of normal values is about 3e-5.
    pub fn rounds(self) -> bool {
        self == Self::Q6K
    }

    fn kind(self) -> Kind {
        match self {
            Self::Q8_0 | Self::Q8_1 | Self::Q8K | Self::Q6K | Self::Iq4Nl | Self::Iq4Xs => Kind::Signed,
            Self::Q2K => Kind::TwoMinima,
            _ => Kind::Minimum,
        }
    }

    /// Codes are below two to the power of this.
    fn bits(self) -> u32 {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4K => 4,
            Self::Q5_0 | Self::Q5_1 | Self::Q5K | Self::Mxfp4 => 5,
            Self::Q2K => 6,
            _ => 8,
        }
    }
}

/// Thirty-two columns of sixteen rows.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Step {
    /// Four columns each.
    codes: [Words; 8],
    scale: Lanes,
    /// Of both halves, or only the first for all.
    minima: [Lanes; 2],
}

/// Columns that are unpacked at a time: with a panel of activations they fit the L1 cache.
const COLUMNS: usize = 1024;

/// y = x·Wᵀ for W in blocks in file order; `raw` has as many rows as y has columns.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_codes(
    isa: Isa,
    format: CodeFormat,
    raw: &[u8],
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let (values, bytes) = format.block();
    if !x.k().is_multiple_of(values) {
        return Err(Error::Multiple { operand: "k", got: x.k(), of: values });
    }
    let row_bytes = x.k() / values * bytes;
    same_len("weight bytes", raw.len(), y.cols().saturating_mul(row_bytes))?;
    same_len("rows of y", y.rows(), x.rows())?;
    if row_bytes == 0 {
        (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
        return Ok(());
    }
    let group = TILE_ROWS * row_bytes;
    let mut steps = Scratch::<Step>::new(COLUMNS.min(x.k()) / BLOCK);
    let mut padded = Scratch::<u8>::new(if raw.len().is_multiple_of(group) { 0 } else { group });
    for (g, mut rows) in raw.chunks(group).enumerate() {
        if rows.len() < group {
            padded[..rows.len()].copy_from_slice(rows);
            padded[rows.len()..].fill(0);
            rows = &padded;
        }
        for column in (0..x.k()).step_by(COLUMNS) {
            let steps = &mut steps[..COLUMNS.min(x.k() - column) / BLOCK];
            let start = column / values * bytes;
            // Where the next sixteen rows have these bytes, if all columns of a block follow each other.
            let ahead = TILE_ROWS * (row_bytes + start) - start;
            unpack_columns(isa, format, &rows[start..], (row_bytes, ahead), steps);
            multiply_columns(isa, format, steps, x, column / BLOCK, &mut y, g * TILE_ROWS);
        }
    }
    Ok(())
}

/// Unpacks as many columns of sixteen rows as there are steps. `at` has the distance of rows, and that of the bytes that will be
/// unpacked next.
fn unpack_columns(isa: Isa, format: CodeFormat, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    match isa.level() {
        // SAFETY: these levels exist only after AVX-512 F, BW, DQ and VL were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 | Level::Avx512Vnni => unsafe { avx512::unpack(format, rows, at, steps) },
        // SAFETY: this level exists only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::unpack(format, rows, at, steps) },
        _ => plain::unpack(format, rows, at, steps),
    }
}

/// Unpacks blocks on some target, and asks for as many bytes of the next sixteen rows.
#[inline(always)]
fn unpack_on<T: words::Target>(
    t: T,
    format: CodeFormat,
    rows: &[u8],
    (stride, ahead): (usize, usize),
    steps: &mut [Step],
) {
    let (values, bytes) = format.block();
    let mut next = rows.as_ptr().wrapping_add(ahead);
    for (b, steps) in steps.chunks_mut(values / BLOCK).enumerate() {
        unpack::block(t, format, &rows[b * bytes..], stride, steps);
        for _ in 0..(TILE_ROWS * bytes).div_ceil(64) {
            t.prefetch(next);
            next = next.wrapping_add(64);
        }
    }
}

/// Multiplies these columns of sixteen rows, from block `first` on, by all activations. Adds to the columns of y from `j` on, or sets
/// them if the columns are the first.
fn multiply_columns(
    isa: Isa,
    format: CodeFormat,
    steps: &[Step],
    x: &Activations,
    first: usize,
    y: &mut MatMut<'_, f32>,
    j: usize,
) {
    let mut i = 0;
    while i < x.rows() {
        match panel_rows(i, x.rows()) {
            8 => part::<8>(isa, format, steps, x.panel(i), first, y, (i, j)),
            4 => part::<4>(isa, format, steps, x.panel(i), first, y, (i, j)),
            2 => part::<2>(isa, format, steps, x.panel(i), first, y, (i, j)),
            _ => part::<1>(isa, format, steps, x.panel(i), first, y, (i, j)),
        }
        i += panel_rows(i, x.rows());
    }
}

fn part<const M: usize>(
    isa: Isa,
    format: CodeFormat,
    steps: &[Step],
    x: Panel<'_, M>,
    first: usize,
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
) {
    let sums = dot(isa, format, steps, x.from(first));
    for (r, sums) in sums.iter().enumerate() {
        let y = y.row_mut(i + r)[j..].iter_mut().zip(sums);
        if first == 0 { y.for_each(|(y, sum)| *y = *sum) } else { y.for_each(|(y, sum)| *y += sum) }
    }
}

fn dot<const M: usize>(isa: Isa, format: CodeFormat, steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    match isa.level() {
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vnni => unsafe { avx512::dot(format.kind(), steps, x) },
        // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { avx2::dot(format, steps, x) },
        _ => plain::dot(format.kind(), steps, x),
    }
}
