//! AMX: a tile instruction multiplies a step by eight rows of activations, and vectors scale the sums.
//!
//! In a panel of eight rows, the quants of a block are eight rows of 32 bytes, and a step is four columns of
//! sixteen rows in each of eight rows of 64 bytes, so both are operands of the instruction as they are. Its
//! sums go through memory in the L1 cache. The tiles run [`AHEAD`] steps ahead of the vectors, across panels
//! too, so that neither waits for the other.
//!
//! The sums are exact, and vectors add them as those of `avx512.rs` do, so that the bits are the same.

use core::arch::asm;
use core::arch::x86_64::*;
use std::marker::PhantomData;

use super::super::activations::{Activations, Panel};
use super::super::blocks::{BLOCK, TILE_ROWS};
use super::super::panels::WORDS;
use super::avx512::lanes;
use super::words::Words;
use super::{Kind, PAIR, Step};
use crate::amx::BytesTiles;
use crate::gemm::MatMut;
use crate::isa::Isa;
use crate::x86::prefetch;

/// Rows of a panel.
pub(super) const ROWS: usize = 8;
/// Steps of a pair of tiles that all activations are multiplied by: they stay in the L1 cache, with the sums
/// and some activations.
const STEPS: usize = 16;
/// The number of steps that the tiles are ahead of the vectors.
const AHEAD: usize = 6;
/// Sums that are kept until vectors have read them.
const KEPT: usize = 8;

/// The sums of a step: for each tile of weights, sixteen for each row of activations.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Sums([[[i32; TILE_ROWS]; ROWS]; PAIR]);

/// The memory that the sums go through.
pub(super) type Ring = [Sums; KEPT];

/// An empty ring.
pub(super) const EMPTY: Ring = [Sums([[[0; TILE_ROWS]; ROWS]; PAIR]); KEPT];

/// Multiplies a block of eight rows by the codes of two steps. The codes are signed or unsigned; quants are
/// always signed.
pub(super) trait Unit {
    /// Stores the sums. `ODD` alternates from step to step.
    fn multiply<const SIGNED: bool, const ODD: bool>(
        &self,
        quants: &[[i32; WORDS]; ROWS],
        codes: [&[Words; 8]; PAIR],
        sums: &mut Sums,
    );
}

impl Unit for BytesTiles {
    /// Alternate steps use different registers, so that one need not wait for the other.
    #[inline(always)]
    fn multiply<const SIGNED: bool, const ODD: bool>(
        &self,
        quants: &[[i32; WORDS]; ROWS],
        [a, b]: [&[Words; 8]; PAIR],
        Sums([sums, more]): &mut Sums,
    ) {
        /// Loads and multiplies, with one of the instructions that multiply.
        macro_rules! tiles {
            ($instruction:literal) => {
                // SAFETY: `self` proves that this thread's tiles have the shapes of the operands, which is all that is relied upon
                // between blocks of assembly: each loads what it uses. It reads eight rows of 32 bytes of quants and eight of 64
                // bytes of each operand of codes, and writes eight of 64 bytes to either half of the sums. All are references to as
                // many bytes.
                unsafe {
                    asm!(
                        "tileloadd tmm{x}, [{quants} + {narrow}*1]",
                        "tileloadd tmm{w}, [{a} + {wide}*1]",
                        "tilezero tmm{c}",
                        concat!($instruction, " tmm{c}, tmm{x}, tmm{w}"),
                        "tileloadd tmm{w}, [{b} + {wide}*1]",
                        "tilezero tmm{d}",
                        concat!($instruction, " tmm{d}, tmm{x}, tmm{w}"),
                        "tilestored [{sums} + {wide}*1], tmm{c}",
                        "tilestored [{more} + {wide}*1], tmm{d}",
                        c = const 4 * ODD as usize,
                        d = const 4 * ODD as usize + 1,
                        x = const 4 * ODD as usize + 2,
                        w = const 4 * ODD as usize + 3,
                        quants = in(reg) quants.as_ptr(),
                        a = in(reg) a.as_ptr(),
                        b = in(reg) b.as_ptr(),
                        sums = in(reg) sums.as_mut_ptr(),
                        more = in(reg) more.as_mut_ptr(),
                        narrow = in(reg) 32usize,
                        wide = in(reg) 64usize,
                        out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                        out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                        options(nostack, preserves_flags),
                    );
                }
            };
        }
        if SIGNED { tiles!("tdpbssd") } else { tiles!("tdpbsud") }
    }
}

/// The unit for this many rows of activations, if `isa` has one and they fill a panel.
pub(super) fn unit(isa: Isa, rows: usize) -> Option<BytesTiles> {
    (rows >= ROWS).then(|| BytesTiles::configure(isa)).flatten()
}

/// Makes codes with an offset of 128 signed.
#[target_feature(enable = "avx512f")]
pub(super) fn sign(steps: &mut [Step]) {
    for word in steps.iter_mut().flat_map(|step| &mut step.codes).flat_map(|words| &mut words.0) {
        *word ^= 0x8080_8080;
    }
}

/// Multiplies columns of some tiles, from block `first` on, by all panels of eight rows. Adds to the columns
/// of y from `j` on, or sets them if these columns are the first. Codes with an offset are signed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn multiply_columns<U: Unit>(
    (unit, ring): (&U, &mut Ring),
    kind: Kind,
    tiles: &[&mut [Step]],
    x: &Activations,
    first: usize,
    y: &mut MatMut<'_, f32>,
    j: usize,
) {
    let steps = tiles.iter().fold(usize::MAX, |n, tile| n.min(tile.len()));
    for part in (0..steps).step_by(STEPS) {
        let end = steps.min(part + STEPS);
        for (pair, tiles) in tiles.chunks(PAIR).enumerate() {
            let j = j + pair * PAIR * TILE_ROWS;
            let at = Columns { blocks: x.k() / BLOCK, first: first + part, j };
            let x = x.eights();
            match tiles {
                [a, b] => add((unit, ring), kind, [&a[part..end], &b[part..end]], x, y, at),
                [a] => add((unit, ring), kind, [&a[part..end]], x, y, at),
                _ => {}
            }
        }
    }
}

/// The columns that the steps cover.
#[derive(Clone, Copy)]
struct Columns {
    /// Blocks of a panel of activations.
    blocks: usize,
    /// The first one that is multiplied.
    first: usize,
    /// The first column of y.
    j: usize,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add<U: Unit, const T: usize>(
    unit: (&U, &mut Ring),
    kind: Kind,
    tiles: [&[Step]; T],
    x: Panel<'_, ROWS>,
    y: &mut MatMut<'_, f32>,
    at: Columns,
) {
    match kind {
        Kind::Offset(_) => add_panels::<U, T, 0>(unit, tiles, x, y, at),
        Kind::Minimum => add_panels::<U, T, 1>(unit, tiles, x, y, at),
        Kind::TwoMinima => add_panels::<U, T, 2>(unit, tiles, x, y, at),
    }
}

/// The steps that tiles have multiplied.
struct Ahead<'a, U, const T: usize> {
    unit: &'a U,
    tiles: [&'a [Step]; T],
    /// The quants of all panels' blocks that follow.
    quants: &'a [[[i32; WORDS]; ROWS]],
    /// The next step, of these and of all.
    step: usize,
    count: usize,
    /// Blocks between the last one of a panel that is multiplied and the first one of the next.
    gap: usize,
}

impl<U: Unit, const T: usize> Ahead<'_, U, T> {
    /// Multiplies by one more step, if there is one.
    #[inline(always)]
    fn advance<const SIGNED: bool>(&mut self, ring: &mut Ring) {
        let Some((quants, rest)) = self.quants.split_first() else { return };
        let codes = [0, T - 1].map(|t| &self.tiles[t][self.step].codes);
        let sums = &mut ring[self.count % KEPT];
        if self.count.is_multiple_of(2) {
            self.unit.multiply::<SIGNED, false>(quants, codes, sums);
        } else {
            self.unit.multiply::<SIGNED, true>(quants, codes, sums);
        }
        (self.quants, self.step, self.count) = (rest, self.step + 1, self.count + 1);
        if self.step == self.tiles[0].len() {
            self.step = 0;
            self.quants = rest.get(self.gap..).unwrap_or(&[]);
        }
    }
}

/// Adds the products of all steps and panels to y. With no minima, codes are signed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_panels<U: Unit, const T: usize, const MINIMA: usize>(
    (unit, ring): (&U, &mut Ring),
    tiles: [&[Step]; T],
    x: Panel<'_, ROWS>,
    y: &mut MatMut<'_, f32>,
    Columns { blocks, first, j }: Columns,
) {
    let steps = tiles[0].len();
    let panels = x.quants.len() / blocks;
    let y = Rows::<T>::new(y, panels, j);
    let mut ahead = Ahead { unit, tiles, quants: &x.quants[first..], step: 0, count: 0, gap: blocks - steps };
    while ahead.count < AHEAD.min(panels * steps) {
        advance::<U, T, MINIMA>(&mut ahead, ring);
    }
    let mut count = 0;
    for panel in 0..panels {
        y.prefetch(panel + 1);
        let mut acc = if first > 0 { y.load(panel) } else { [[_mm512_setzero_ps(); T]; ROWS] };
        for b in 0..steps {
            advance::<U, T, MINIMA>(&mut ahead, ring);
            add_step::<T, MINIMA>(&mut acc, &ring[count % KEPT], tiles, b, x, panel * blocks + first + b);
            count += 1;
        }
        y.store(panel, acc);
    }
}

#[inline(always)]
fn advance<U: Unit, const T: usize, const MINIMA: usize>(ahead: &mut Ahead<'_, U, T>, ring: &mut Ring) {
    if MINIMA == 0 { ahead.advance::<true>(ring) } else { ahead.advance::<false>(ring) }
}

/// Columns of the panels of y.
struct Rows<'a, const T: usize> {
    /// The first column of the first row; rows are `stride` numbers apart.
    first: *mut f32,
    stride: usize,
    /// Of the columns that exist.
    masks: [__mmask16; T],
    panels: usize,
    of: PhantomData<&'a mut [f32]>,
}

impl<'a, const T: usize> Rows<'a, T> {
    /// The columns from `j` on, of this many panels.
    fn new(y: &'a mut MatMut<'_, f32>, panels: usize, j: usize) -> Self {
        assert!(panels * ROWS <= y.rows() && j <= y.cols());
        let mask = |t: usize| {
            let columns = (y.cols() - j).saturating_sub(t * TILE_ROWS).min(TILE_ROWS);
            ((1u32 << columns) - 1) as u16
        };
        let masks = std::array::from_fn(mask);
        let first = y.as_mut_ptr().wrapping_add(j);
        Self { first, stride: y.row_stride(), masks, panels, of: PhantomData }
    }

    /// Where row `r` of a panel has the columns of tile `t`.
    #[inline(always)]
    fn at(&self, panel: usize, r: usize, t: usize) -> *mut f32 {
        self.first.wrapping_add((panel * ROWS + r) * self.stride + t * TILE_ROWS)
    }

    /// Prefetches a panel, which was last used many products ago and whose rows are far apart. It need not
    /// exist.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn prefetch(&self, panel: usize) {
        for r in 0..ROWS {
            for t in 0..T {
                prefetch::<_MM_HINT_T0, _>(self.at(panel, r, t));
            }
        }
    }

    /// A panel.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(&self, panel: usize) -> [[__m512; T]; ROWS] {
        assert!(panel < self.panels);
        let mut out = [[_mm512_setzero_ps(); T]; ROWS];
        for (r, out) in out.iter_mut().enumerate() {
            for (t, out) in out.iter_mut().enumerate() {
                // SAFETY: `new` checked that the rows exist; the mask is of columns that do.
                *out = unsafe { _mm512_maskz_loadu_ps(self.masks[t], self.at(panel, r, t)) };
            }
        }
        out
    }

    /// Writes a panel.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(&self, panel: usize, sums: [[__m512; T]; ROWS]) {
        assert!(panel < self.panels);
        for (r, sums) in sums.into_iter().enumerate() {
            for (t, sums) in sums.into_iter().enumerate() {
                // SAFETY: as for `load`; the matrix is borrowed for writing.
                unsafe { _mm512_mask_storeu_ps(self.at(panel, r, t), self.masks[t], sums) };
            }
        }
    }
}

/// Adds the scaled sums of step `b`, and its minima, for block `at` of the activations.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
fn add_step<const T: usize, const MINIMA: usize>(
    total: &mut [[__m512; T]; ROWS],
    sums: &Sums,
    tiles: [&[Step]; T],
    b: usize,
    x: Panel<'_, ROWS>,
    at: usize,
) {
    let scales = tiles.map(|tile| lanes(&tile[b].scale));
    for (r, total) in total.iter_mut().enumerate() {
        let of_x = _mm512_set1_ps(x.scales[at][r]);
        for (t, total) in total.iter_mut().enumerate() {
            // SAFETY: 64 bytes, aligned.
            let sum = unsafe { _mm512_load_si512(sums.0[t][r].as_ptr().cast()) };
            *total = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(scales[t], of_x), *total);
        }
    }
    for h in 0..MINIMA {
        let minima = tiles.map(|tile| lanes(&tile[b].minima[h]));
        for (total, x) in total.iter_mut().zip(x.offsets[at]) {
            let of_x = _mm512_set1_ps(if MINIMA == 1 { x.minus } else { x.halves[h] });
            for (total, min) in total.iter_mut().zip(minima) {
                *total = _mm512_fmadd_ps(min, of_x, *total);
            }
        }
    }
}

#[cfg(test)]
mod tests;
