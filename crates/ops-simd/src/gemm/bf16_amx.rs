//! Products of two bf16 matrices with many rows, with AMX. A tile instruction multiplies sixteen rows of
//! sixteen pairs by sixteen columns of sixteen pairs, and adds the products to f32 sums.
//!
//! It treats inputs and results below 2⁻¹²⁶ as zero, as AVX-512 BF16 does, so the rows where that may matter
//! are computed again in f32, as there.
//!
//! All of A is packed first; B is packed in blocks of columns and of depth. A block of B and one of A stay in
//! the L2 cache with their sums, and 32 columns of B stay in the L1 cache while all rows of A pass. The sums
//! are kept in an array of whole tiles; the part that lies within C is copied to it.

use core::arch::asm;
use std::ops::Range;

use half::bf16;

use super::bf16_avx512::{interleave, pack};
use super::blocked;
use super::matrix::{Mat, MatMut};
use super::packed::{Columns, PackedB};
use crate::amx::Bf16Tiles;
use crate::isa::Isa;
use crate::scratch::Scratch;

/// Pairs of a step along the depth, rows of a tile, and its columns of 32 bits.
const TILE: usize = 16;
/// Rows and columns of a square of sums, two tiles each.
const SIDE: usize = 32;
/// Steps of a block.
const STEPS: usize = 12;
/// Blocks of a packed B that together have this depth.
const PACKED_BLOCKS: usize = 2 * TILE * STEPS / blocked::DEPTH;
/// Columns of a block of B.
const BLOCK_COLS: usize = 256;
/// The most rows of A that are packed together, and the most bytes they may take once they are more than a
/// few squares.
const BLOCK_ROWS: usize = 512;
const MAX_A_BYTES: usize = 8 << 20;
/// Up to this many rows, reading B in place is faster.
const MAX_ROWS_IN_PLACE: usize = 8;

/// A step of 32 rows of A: two tiles of pairs.
type StepOfA = [[[u32; TILE]; TILE]; 2];
/// A step of 32 columns of B: sixteen pairs of each.
type StepOfB = [[u32; SIDE]; TILE];
/// The sums of 32 rows and columns: the tiles of two rows of tiles.
type Sums = [[[f32; TILE]; TILE]; 4];

/// Multiplies 32 rows by 32 columns.
trait Unit {
    /// Stores the sums of the products of all steps, or adds them.
    fn multiply(&self, a: &[StepOfA], b: &[StepOfB], sums: &mut Sums, add: bool);
}

impl Unit for Bf16Tiles {
    /// A is loaded with a hint that it need not stay in the L1 cache, which leaves room for the columns of B.
    #[inline(always)]
    fn multiply(&self, a: &[StepOfA], b: &[StepOfB], sums: &mut Sums, add: bool) {
        let steps = a.len().min(b.len());
        if steps == 0 {
            return;
        }
        // SAFETY: `self` proves that this thread's tiles have 16 rows of 64 bytes, which is all that is relied upon between blocks of
        // assembly: this one loads what it uses. For each step, it reads two tiles of A, whose rows are 64 bytes apart, and two of B,
        // whose rows are 128 bytes apart; both are 2048 bytes, as long as a step. It reads and writes four tiles of sums.
        unsafe {
            asm!(
                "test {add}, {add}",
                "jz 2f",
                "tileloadd tmm0, [{c} + {row}*1]",
                "tileloadd tmm1, [{c} + {row}*1 + 1024]",
                "tileloadd tmm2, [{c} + {row}*1 + 2048]",
                "tileloadd tmm3, [{c} + {row}*1 + 3072]",
                "jmp 3f",
                "2:",
                "tilezero tmm0",
                "tilezero tmm1",
                "tilezero tmm2",
                "tilezero tmm3",
                "3:",
                "tileloadd tmm6, [{b} + {wide}*1]",
                "tileloaddt1 tmm4, [{a} + {row}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                "tileloadd tmm7, [{b} + {wide}*1 + 64]",
                "tdpbf16ps tmm1, tmm4, tmm7",
                "tileloaddt1 tmm5, [{a} + {row}*1 + 1024]",
                "tdpbf16ps tmm2, tmm5, tmm6",
                "tdpbf16ps tmm3, tmm5, tmm7",
                "add {a}, 2048",
                "add {b}, 2048",
                "dec {steps}",
                "jnz 3b",
                "tilestored [{c} + {row}*1], tmm0",
                "tilestored [{c} + {row}*1 + 1024], tmm1",
                "tilestored [{c} + {row}*1 + 2048], tmm2",
                "tilestored [{c} + {row}*1 + 3072], tmm3",
                add = in(reg) usize::from(add),
                a = inout(reg) a.as_ptr() => _,
                b = inout(reg) b.as_ptr() => _,
                steps = inout(reg) steps => _,
                c = in(reg) sums.as_mut_ptr(),
                row = in(reg) 64usize,
                wide = in(reg) 128usize,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
    }
}

/// C = A·B, if `isa` has matrix units and there are enough rows. Returns whether it was computed. The dimensions must match.
pub(super) fn product(isa: Isa, a: &Mat<'_, bf16>, b: &Mat<'_, bf16>, c: &mut MatMut<'_, f32>) -> bool {
    let large = a.rows() > MAX_ROWS_IN_PLACE && b.cols() >= SIDE && a.cols() >= SIDE;
    let Some(unit) = large.then(|| Bf16Tiles::configure(isa)).flatten() else { return false };
    // SAFETY: the unit proves that the processor has AVX-512 BF16, and the parts of AVX-512 that come with
    // it.
    multiply(&unit, a, |columns, first, steps| unsafe { columns_of(b, columns, first, steps) }, c);
    true
}

/// Like [`product`], for some columns of a packed B.
pub(super) fn product_packed(
    a: &Mat<'_, bf16>,
    b: &PackedB<'_, bf16>,
    columns: Columns,
    c: &mut MatMut<'_, f32>,
) -> bool {
    let large = a.rows() > MAX_ROWS_IN_PLACE && a.cols() >= SIDE && b.tile() == SIDE;
    let Some(unit) = large.then(|| Bf16Tiles::configure(b.isa())).flatten() else { return false };
    // SAFETY: the unit proves that the processor has AVX-512 BF16, and the parts of AVX-512 that come with
    // it.
    multiply(&unit, a, |part, first, steps| unsafe { columns_of_packed(b, columns, part, first, steps) }, c);
    true
}

/// C = A·B. `pack_b` packs columns of B, starting from a step.
fn multiply<U: Unit>(
    unit: &U,
    a: &Mat<'_, bf16>,
    pack_b: impl Fn(Range<usize>, usize, &mut [StepOfB]),
    c: &mut MatMut<'_, f32>,
) {
    let (m, n, steps) = (a.rows(), c.cols(), a.cols().div_ceil(2 * TILE));
    let (each, widest) = (block_rows(m, steps), n.min(BLOCK_COLS).div_ceil(SIDE));
    let mut packed_a = Scratch::<StepOfA>::new(steps * each / SIDE);
    let mut packed_b = Scratch::<StepOfB>::new(steps.min(STEPS) * widest);
    let mut sums = Scratch::<Sums>::new(each / SIDE * widest);
    for i in (0..m).step_by(each) {
        let rows = i..m.min(i + each);
        let panels = rows.len().div_ceil(SIDE);
        pack_rows(a, rows.clone(), &mut packed_a[..steps * panels]);
        for j in (0..n).step_by(BLOCK_COLS) {
            let columns = j..n.min(j + BLOCK_COLS);
            let wide = columns.len().div_ceil(SIDE);
            for first in (0..steps).step_by(STEPS) {
                let depth = STEPS.min(steps - first);
                let b = &mut packed_b[..depth * wide];
                pack_b(columns.clone(), first, b);
                let a = &packed_a[first * panels..][..depth * panels];
                multiply_block(unit, depth, a, b, &mut sums, first > 0);
            }
            store(&sums, panels, rows.clone(), columns, c);
        }
    }
}

/// Rows that are packed together, in whole squares, so that all blocks of `m` rows have about the same size.
fn block_rows(m: usize, steps: usize) -> usize {
    let most = (MAX_A_BYTES / (size_of::<StepOfA>() * steps) * SIDE).clamp(4 * SIDE, BLOCK_ROWS);
    m.div_ceil(m.div_ceil(most)).next_multiple_of(SIDE)
}

/// Multiplies all rows by all columns of a block.
fn multiply_block<U: Unit>(
    unit: &U,
    depth: usize,
    a: &[StepOfA],
    b: &[StepOfB],
    sums: &mut [Sums],
    add: bool,
) {
    let panels = a.len() / depth;
    for (b, sums) in b.chunks_exact(depth).zip(sums.chunks_exact_mut(panels)) {
        for (a, sums) in a.chunks_exact(depth).zip(sums) {
            unit.multiply(a, b, sums, add);
        }
    }
}

/// Packs rows of A by block of the depth, then by group of 32 rows, then by step. Pairs and rows that do not
/// exist are zero.
fn pack_rows(a: &Mat<'_, bf16>, rows: Range<usize>, out: &mut [StepOfA]) {
    let panels = rows.len().div_ceil(SIDE);
    for (block, out) in out.chunks_mut(STEPS * panels).enumerate() {
        let (depth, first) = (out.len() / panels, block * STEPS * 2 * TILE);
        for (panel, out) in out.chunks_exact_mut(depth).enumerate() {
            for r in 0..SIDE {
                let i = rows.start + panel * SIDE + r;
                let row = if i < rows.end { a.row(i) } else { Some(&[][..]) };
                for (step, out) in out.iter_mut().enumerate() {
                    let (out, p) = (&mut out[r / TILE][r % TILE], first + step * 2 * TILE);
                    match row {
                        Some(row) => pack_pairs(row.get(p..).unwrap_or(&[]), out),
                        None => *out = std::array::from_fn(|q| pair(a, i, p + 2 * q)),
                    }
                }
            }
        }
    }
}

/// The first pairs of a row.
#[inline]
fn pack_pairs(row: &[bf16], out: &mut [u32; TILE]) {
    let mut start = [bf16::ZERO; 2 * TILE];
    match row.first_chunk() {
        Some(row) => start = *row,
        None => start[..row.len()].copy_from_slice(row),
    }
    *out = bytemuck::cast(start);
}

fn pair(a: &Mat<'_, bf16>, i: usize, p: usize) -> u32 {
    let bits = |p: usize| a.get(i, p).map_or(0, |x| u32::from(x.to_bits()));
    bits(p) | bits(p + 1) << 16
}

/// Packs columns of B, 32 by 32, from step `first` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn columns_of(b: &Mat<'_, bf16>, columns: Range<usize>, first: usize, out: &mut [StepOfB]) {
    let depth = out.len() / columns.len().div_ceil(SIDE);
    for (j, out) in columns.clone().step_by(SIDE).zip(out.chunks_exact_mut(depth)) {
        let columns = j..columns.end.min(j + SIDE);
        pack::<SIDE>(&b.transposed(), columns, first * TILE, out.as_flattened_mut().as_flattened_mut());
    }
}

/// Makes pairs of a part of some columns of a packed B, from step `first` on.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn columns_of_packed(
    b: &PackedB<'_, bf16>,
    columns: Columns,
    part: Range<usize>,
    first: usize,
    out: &mut [StepOfB],
) {
    let depth = out.len() / part.len().div_ceil(SIDE);
    for block in 0..PACKED_BLOCKS {
        let p = 2 * TILE * first + block * blocked::DEPTH;
        let rows = b.rows().saturating_sub(p).min(blocked::DEPTH);
        if rows == 0 {
            return;
        }
        let panels = b.block(p, rows, columns, part.clone()).chunks_exact(rows * SIDE);
        for (panel, out) in panels.zip(out.chunks_exact_mut(depth)) {
            pairs_of(panel, &mut out.as_flattened_mut()[block * blocked::DEPTH / 2..]);
        }
    }
}

/// Makes pairs of the rows of a panel, and zeros up to the end of a step.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
fn pairs_of(panel: &[bf16], out: &mut [[u32; SIDE]]) {
    let rows = panel.as_chunks::<SIDE>().0;
    let mut out = out.iter_mut();
    for (rows, out) in rows.chunks(2).zip(&mut out) {
        interleave(&rows[0], rows.get(1).unwrap_or(&[bf16::ZERO; SIDE]), out);
    }
    let rest = rows.len().div_ceil(2).next_multiple_of(TILE) - rows.len().div_ceil(2);
    out.take(rest).for_each(|out| *out = [0; SIDE]);
}

/// Copies the sums of these rows and columns to C. The squares of sums are stored column by column, `panels`
/// squares to a column.
fn store(sums: &[Sums], panels: usize, rows: Range<usize>, columns: Range<usize>, c: &mut MatMut<'_, f32>) {
    for (r, i) in rows.enumerate() {
        let row = &mut c.row_mut(i)[columns.clone()];
        for (j, row) in row.chunks_mut(TILE).enumerate() {
            let square = &sums[j / 2 * panels + r / SIDE];
            let tile = &square[r % SIDE / TILE * 2 + j % 2];
            row.copy_from_slice(&tile[r % TILE][..row.len()]);
        }
    }
}

#[cfg(test)]
mod tests;
