//! Transposes squares of vectors in registers.

use crate::element::Element;
use crate::simd::Simd;

/// Transposes a square whose side is a vector's lanes: element (p, j) moves from `x[j * stride + p]` to `out[p * width + j]`.
#[inline(always)]
pub(super) fn transpose<S: Simd, T: Element>(s: S, x: &[T], stride: usize, out: &mut [T], width: usize) {
    let mut rows = [s.splat(0.0); MAX_SIDE];
    for (j, row) in rows.iter_mut().enumerate().take(S::LANES) {
        *row = T::load(s, &x[j * stride..]);
    }
    turn(s, &mut rows);
    for (p, row) in rows.iter().enumerate().take(S::LANES) {
        T::store(s, &mut out[p * width..], *row);
    }
}

/// Transposes a square of registers: lane p of register j becomes lane j of register p. Interleaving the first half of the
/// rows with the second, log2(lanes) times, transposes the square.
#[inline(always)]
pub(super) fn turn<S: Simd>(s: S, rows: &mut [S::F; MAX_SIDE]) {
    // Passes by value: with a loop over them, the compiler would keep the rows in memory.
    let mut now = *rows;
    if S::LANES > 8 {
        now = interleave_halves(s, now);
    }
    if S::LANES > 4 {
        now = interleave_halves(s, now);
    }
    if S::LANES > 2 {
        now = interleave_halves(s, now);
    }
    *rows = if S::LANES > 1 { interleave_halves(s, now) } else { now };
}

/// Row i of the first half, then row i of the second, interleaved lane by lane.
#[inline(always)]
fn interleave_halves<S: Simd>(s: S, old: [S::F; MAX_SIDE]) -> [S::F; MAX_SIDE] {
    let mut new = [s.splat(0.0); MAX_SIDE];
    for i in 0..S::LANES / 2 {
        (new[2 * i], new[2 * i + 1]) = s.interleave(old[i], old[i + S::LANES / 2]);
    }
    new
}

/// Maximum lanes of a register.
pub(super) const MAX_SIDE: usize = 16;
