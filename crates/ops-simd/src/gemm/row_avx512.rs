//! One row times a bf16 matrix in panels, with AVX-512. Each vector that is loaded holds a row of a panel: 32
//! numbers. A shift and a mask widen them, so no instruction moves numbers between lanes; the sums of even
//! and odd columns are put in order at the end of a block.

use core::arch::x86_64::*;

use half::bf16;

use super::blocked::{DEPTH, clear_if_empty};
use super::input::Operand;
use super::matrix::MatMut;
use super::packed::{Columns, PackedB};
use super::skinny::widened;
use crate::isa::{Isa, Level};
use crate::x86::prefetch;

/// Columns of a panel with AVX-512.
const WIDTH: usize = 32;
/// Sums of every fourth row, which do not wait for each other.
const CHAINS: usize = 4;
/// Bytes ahead that are prefetched. The hardware's prefetcher stops at page boundaries.
const AHEAD: usize = 8192;

/// Proof that the processor has AVX-512 F, BW, DQ and VL; only [`OneRow::detect`] creates one.
#[derive(Clone, Copy)]
pub(super) struct OneRow(());

impl OneRow {
    pub(super) fn detect(isa: Isa) -> Option<Self> {
        matches!(isa.level(), Level::Avx512 | Level::Avx512Vnni).then_some(Self(()))
    }

    /// C = A·B or C += A·B for an A of one row and a range of columns of a packed B; the dimensions must match.
    pub(super) fn product(
        self,
        a: Operand<'_>,
        b: &PackedB<'_, bf16>,
        columns: Columns,
        mut c: MatMut<'_, f32>,
        accumulate: bool,
    ) {
        let a = match a {
            Operand::F32(a) => widened(a),
            Operand::F16(a) => widened(a),
            Operand::Bf16(a) => widened(a),
        };
        if clear_if_empty(&mut c, a.len(), accumulate) {
            return;
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { product(&a, b, columns, &mut c, accumulate) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
fn product(a: &[f32], b: &PackedB<'_, bf16>, columns: Columns, c: &mut MatMut<'_, f32>, accumulate: bool) {
    let n = c.cols();
    for p in (0..a.len()).step_by(DEPTH) {
        let a = &a[p..a.len().min(p + DEPTH)];
        let panels = b.block(p, a.len(), columns, 0..n).chunks_exact(a.len() * WIDTH);
        for (panel, c) in panels.zip(c.row_mut(0).chunks_mut(WIDTH)) {
            let fresh = p == 0 && !accumulate;
            for (sums, c) in panel_sums(a, panel.as_chunks().0).into_iter().zip(c.chunks_mut(WIDTH / 2)) {
                let mask = ((1u32 << c.len()) - 1) as u16;
                // SAFETY: the mask has as many lanes as C has columns here.
                unsafe {
                    let before =
                        if fresh { _mm512_setzero_ps() } else { _mm512_maskz_loadu_ps(mask, c.as_ptr()) };
                    _mm512_mask_storeu_ps(c.as_mut_ptr(), mask, _mm512_add_ps(before, sums));
                }
            }
        }
    }
}

/// The product of a row and a panel: the first sixteen columns and the others.
#[inline]
#[target_feature(enable = "avx512f")]
fn panel_sums(a: &[f32], panel: &[[bf16; WIDTH]]) -> [__m512; 2] {
    let mut acc = [[_mm512_setzero_ps(); 2]; CHAINS];
    let (a, a_rest) = a.as_chunks::<CHAINS>();
    let (rows, rows_rest) = panel.as_chunks::<CHAINS>();
    for (a, rows) in a.iter().zip(rows) {
        for (acc, (a, row)) in acc.iter_mut().zip(a.iter().zip(rows)) {
            prefetch::<_MM_HINT_T0, _>(row.as_ptr().wrapping_byte_add(AHEAD));
            add(acc, *a, row);
        }
    }
    for (acc, (a, row)) in acc.iter_mut().zip(a_rest.iter().zip(rows_rest)) {
        add(acc, *a, row);
    }
    let [even, odd] = [0, 1]
        .map(|i| _mm512_add_ps(_mm512_add_ps(acc[0][i], acc[1][i]), _mm512_add_ps(acc[2][i], acc[3][i])));
    let first = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    let second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    [_mm512_permutex2var_ps(even, first, odd), _mm512_permutex2var_ps(even, second, odd)]
}

/// Adds a row of a panel, times a number, to the sums of the even and of the odd columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(acc: &mut [__m512; 2], a: f32, row: &[bf16; WIDTH]) {
    // SAFETY: 64 bytes.
    let pairs = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
    let even = _mm512_castsi512_ps(_mm512_slli_epi32::<16>(pairs));
    let odd = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(!0xffff)));
    let a = _mm512_set1_ps(a);
    *acc = [_mm512_fmadd_ps(even, a, acc[0]), _mm512_fmadd_ps(odd, a, acc[1])];
}
