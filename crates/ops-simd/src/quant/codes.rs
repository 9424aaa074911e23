//! Products of any number of rows with rows of blocks of any format that has an unpacking (`unpack.rs`).
//!
//! Sixteen rows of the weight at a time, and some of their columns, become unsigned codes with f32 scales and
//! minima, in memory that the call owns. A vector then holds the same four columns of sixteen rows, and all
//! activations are multiplied by it while it is in the cache. The codes are those of the file, so nothing is
//! rounded, except with q6_k on most processors ([`Format::rounds`]).

use std::ops::Range;

use super::activations::Activations;
use super::blocks::{BLOCK, TILE_ROWS};
use super::formats::Format;
#[cfg(target_arch = "x86_64")]
use super::formats::TileFormat;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::tiles::Tiles;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::Isa;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::isa::Level;
use crate::scratch::Scratch;
use words::{Lanes, Words};

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx2_dot;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx_vnni;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_unpack;
#[cfg(target_arch = "x86_64")]
mod packed;
mod plain;
mod unpack;
mod walk;
mod words;

/// How sums of codes become sums of weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// All codes have this offset, which the integer sums take off, or they are signed bytes.
    Offset(u8),
    /// A minimum for each step.
    Minimum,
    /// A minimum for each half of a step.
    TwoMinima,
}

impl Format {
    /// Whether codes are rounded, to a 127th of the largest weight of 32. The NMSE of normal values is about 3e-5.
    pub fn rounds(self, isa: Isa) -> bool {
        self == Self::Q6K && !adds_pairs(isa)
    }

    /// How the sums become sums of weights; codes with an offset have one of 128 or their own
    /// ([`words::Target::signed`]).
    fn kind(self, signed: bool) -> Kind {
        match self {
            Self::Q2K => Kind::TwoMinima,
            Self::Q4_1 | Self::Q5_1 | Self::Q3K | Self::Q4K | Self::Q5K => Kind::Minimum,
            _ => Kind::Offset(if signed { 128 } else { self.offset() }),
        }
    }

    /// How codes become weights, if all of them are unsigned bytes that have no integer scales of groups beside them.
    fn plain_codes(self, isa: Isa) -> Option<Kind> {
        match isa.level() {
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 | Level::Avx512 if self.group_bits().is_some() => None,
            #[cfg(target_arch = "aarch64")]
            Level::Neon | Level::NeonDotProd | Level::NeonI8mm => None,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512Vnni => Some(self.kind(true)),
            _ => Some(self.kind(false)),
        }
    }

    /// The offset of the codes of a format without minima. Bytes get one of 128.
    const fn offset(self) -> u8 {
        match self {
            Self::Q4_0 => 8,
            Self::Q5_0 => 16,
            Self::Mxfp4 => 12,
            _ => 128,
        }
    }

    /// The number of bits of a code.
    fn bits(self) -> u32 {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q4K => 4,
            Self::Q5_0 | Self::Q5_1 | Self::Q5K | Self::Mxfp4 => 5,
            Self::Q2K => 6,
            _ => 8,
        }
    }

    /// The bits of a code, for formats whose groups of sixteen have an integer scale and whose offset is half
    /// the range of codes. AVX2 multiplies pairs of products by that scale, so the codes need not become
    /// bytes.
    #[cfg(target_arch = "x86_64")]
    fn group_bits(self) -> Option<usize> {
        match self {
            Self::Q6K => Some(6),
            Self::Q3K => Some(3),
            _ => None,
        }
    }
}

/// Whether q8_0 and q4_0 with many rows of activations are faster as codes than in tiles. The bits are the same.
pub(super) fn faster_than_tiles(isa: Isa) -> bool {
    match isa.level() {
        #[cfg(target_arch = "x86_64")]
        Level::Avx512Vnni => true,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => adds_pairs(isa),
        // Tiles become codes as well.
        #[cfg(target_arch = "aarch64")]
        Level::Neon | Level::NeonDotProd | Level::NeonI8mm => true,
        _ => false,
    }
}

/// Whether codes of q8_0 and q4_0 give the bits of rows that are multiplied in place one at a time.
pub(super) fn same_as_in_place(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return isa.level() == Level::Avx512Vnni;
    #[cfg(target_arch = "aarch64")]
    return isa.level() != Level::Portable;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = isa;
        false
    }
}

/// Whether AVX2 multiplies bytes and adds pairs of products in 16 bits. Then groups of sixteen codes are multiplied by their integer
/// scale, as such pairs, instead of becoming bytes first.
fn adds_pairs(isa: Isa) -> bool {
    #[cfg(target_arch = "x86_64")]
    return matches!(isa.level(), Level::Avx2 | Level::Avx512) && !isa.avx_vnni();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = isa;
        false
    }
}

/// Tiles multiplied together, so that each number of the activations is loaded once for both.
const PAIR: usize = 2;

/// Thirty-two columns of sixteen rows.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Step {
    /// Four columns each. For products of matrices, a pair of lines has eight columns: the first line those of rows 0 to 7, the second
    /// those of rows 8 to 15.
    codes: [Words; 8],
    scale: Lanes,
    /// Of both halves, or only the first for all. Of groups ([`Target::groups`](words::Target::groups)): the bits of
    /// each half's scale, twice as 16 bits.
    minima: [Lanes; 2],
}

/// y = x·Wᵀ for W in blocks in file order; `raw` has as many rows as y has columns.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_codes(
    isa: Isa,
    format: Format,
    raw: &[u8],
    x: &Activations,
    mut y: MatMut<'_, f32>,
) -> Result<(), Error> {
    let (values, bytes) = format.block();
    if !x.k().is_multiple_of(values) {
        return Err(Error::Multiple { operand: "k", got: x.k(), of: values });
    }
    let row_bytes = (x.k() / values).saturating_mul(bytes);
    same_len("weight bytes", raw.len(), y.cols().saturating_mul(row_bytes))?;
    same_len("rows of y", y.rows(), x.rows())?;
    if raw.is_empty() {
        (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
        return Ok(());
    }
    let tiles = raw.len().div_ceil(TILE_ROWS * row_bytes);
    walk::multiply(isa, format, tiles, x, &mut y, unpacking(isa, format, raw, row_bytes));
    Ok(())
}

/// From this many rows of activations on, AVX2 multiplies tiles of q4_0 as codes: the halves of the bytes are
/// then separated once for all rows.
#[cfg(target_arch = "x86_64")]
const TILES_AS_CODES: usize = 32;

/// y = x·Wᵀ for some tiles of W, if there are enough rows for a matrix unit or AVX2 to multiply them as
/// codes. Returns whether it was computed. The dimensions must match; the bits are the same.
#[cfg(target_arch = "x86_64")]
pub(super) fn multiply_tiles(
    isa: Isa,
    weights: &Tiles<'_>,
    tiles: Range<usize>,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) -> bool {
    if let Some(unit) = amx::unit(isa, x.rows()) {
        multiply_tiles_on(&unit, isa, weights, tiles, x, y);
        return true;
    }
    let format = weights.format();
    if !adds_pairs(isa) || format != TileFormat::Q4_0 || x.rows() < TILES_AS_CODES {
        return false;
    }
    walk::multiply(isa, format.format(), tiles.len(), x, y, |t, blocks, steps| {
        // SAFETY: these levels exist only after AVX2 and F16C were detected.
        unsafe { packed::unpack_avx2(format, weights.tile(tiles.start + t), blocks, steps) }
    });
    true
}

/// The product on a matrix unit, where `isa` has AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
fn multiply_tiles_on<U: amx::Unit>(
    unit: &U,
    isa: Isa,
    weights: &Tiles<'_>,
    tiles: Range<usize>,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) {
    assert_eq!(isa.level(), Level::Avx512Vnni);
    let format = weights.format();
    walk::multiply_on(unit, isa, format.format(), tiles.len(), x, y, |t, blocks, steps| {
        // SAFETY: this level exists only after AVX-512 F, BW, DQ and VL were detected.
        unsafe { packed::unpack_avx512(format, weights.tile(tiles.start + t), blocks, steps) }
    });
}

/// Unpacks these blocks of the columns of tile `t` of `raw`.
fn unpacking(
    isa: Isa,
    format: Format,
    raw: &[u8],
    row_bytes: usize,
) -> impl FnMut(usize, Range<usize>, &mut [Step]) {
    let (values, bytes) = format.block();
    let tile = TILE_ROWS * row_bytes;
    let mut padded = Scratch::<u8>::new(if raw.len().is_multiple_of(tile) { 0 } else { tile });
    move |t, blocks, steps| {
        let mut rows = &raw[t * tile..raw.len().min((t + 1) * tile)];
        if rows.len() < tile {
            padded[..rows.len()].copy_from_slice(rows);
            padded[rows.len()..].fill(0);
            rows = &padded;
        }
        let start = blocks.start * BLOCK / values * bytes;
        // Where the next sixteen rows have these bytes, if all columns of a block follow each other.
        let ahead = TILE_ROWS * (row_bytes + start) - start;
        unpack_columns(isa, format, &rows[start..], (row_bytes, ahead), steps);
    }
}

/// y = x·Wᵀ for some tiles of W, which NEON unpacks into steps. Returns whether it was computed. The
/// dimensions must match.
#[cfg(target_arch = "aarch64")]
pub(super) fn multiply_tiles(
    isa: Isa,
    weights: &Tiles<'_>,
    tiles: Range<usize>,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) -> bool {
    let (level, format) = (isa.level(), weights.format());
    if level == Level::Portable {
        return false;
    }
    walk::multiply(isa, format.format(), tiles.len(), x, y, |t, blocks, steps| {
        neon_unpack::unpack_tile(level, format, weights.tile(tiles.start + t), blocks, steps);
    });
    true
}

/// Unpacks as many columns of sixteen rows as there are steps. `at` has the distance of rows, and that of the bytes that will be
/// unpacked next.
fn unpack_columns(isa: Isa, format: Format, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    match isa.level() {
        // SAFETY: these levels exist only after AVX-512 F, BW, DQ and VL were detected.
        #[cfg(target_arch = "x86_64")]
        level @ (Level::Avx512 | Level::Avx512Vnni) => unsafe {
            avx512::unpack(format, rows, at, steps, level == Level::Avx512Vnni);
        },
        // SAFETY: this level exists only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2::unpack(format, rows, at, steps, adds_pairs(isa)) },
        #[cfg(target_arch = "aarch64")]
        level @ (Level::Neon | Level::NeonDotProd | Level::NeonI8mm) => {
            neon_unpack::unpack(level, format, rows, at, steps);
        }
        _ => plain::unpack(format, rows, at, steps),
    }
}

/// Unpacks blocks on some target, and prefetches as many bytes of the next sixteen rows.
#[inline(always)]
fn unpack_on<T: words::Target>(
    t: T,
    format: Format,
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
