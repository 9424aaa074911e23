//! Softmax over rows.

use super::driver::{RowMap, map_rows};
use super::fold::{Fold, LargestNumber, fold, total};
use crate::element::{Element, View, ViewMut};
use crate::error::{Error, rows, same_len};
use crate::isa::Isa;
use crate::math::exp_down;
use crate::simd::Simd;
use crate::simd::pair::Pair;
use crate::store::Store;

/// y = e^(x − m) / Σ e^(x − m), where m is the row's maximum, over rows of length `n`. A row of −∞, or with NaN or +∞, gives
/// NaN.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` differ in length, [`Error::Multiple`] if they do not consist of whole rows.
pub fn softmax<X: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    n: usize,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    rows("x", x.len(), n)?;
    softmax_views(isa, X::view(x), n, Y::view_mut(y), store);
    Ok(())
}

/// y = x − m − ln Σ e^(x − m), where m is the row's maximum, over rows of length `n`.
///
/// # Errors
/// [`Error::Length`] if `x` and `y` differ in length, [`Error::Multiple`] if they do not consist of whole rows.
pub fn log_softmax<X: Element, Y: Element>(
    isa: Isa,
    x: &[X],
    n: usize,
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    rows("x", x.len(), n)?;
    log_softmax_views(isa, X::view(x), n, Y::view_mut(y), store);
    Ok(())
}

fn softmax_views(isa: Isa, x: View<'_>, n: usize, y: ViewMut<'_>, store: Store) {
    map_rows(isa, x, y, n, store, Softmax);
}

fn log_softmax_views(isa: Isa, x: View<'_>, n: usize, y: ViewMut<'_>, store: Store) {
    map_rows(isa, x, y, n, store, LogSoftmax);
}

#[derive(Clone, Copy)]
struct Softmax;

impl RowMap for Softmax {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], scratch: &mut [f32]) {
        // A NaN need not be detected here, because it reaches the sum.
        let largest = s.reduce_maximum(fold(s, x, LargestNumber));
        if let ViewMut::F32(y) = T::view_mut(y) {
            // For f32, the output itself holds the powers; no scratch memory is needed.
            let sum = exp_row(s, x, largest, y);
            return scale_in_place(s, y, s.splat((1.0 / sum) as f32), x);
        }
        let sum = exp_row(s, x, largest, scratch);
        scale_row(s, &scratch[..y.len()], s.splat((1.0 / sum) as f32), x, y);
    }
}

/// y = y · scale. `next` is the source row; the row after it is prefetched meanwhile.
#[inline(always)]
fn scale_in_place<S: Simd, T: Element>(s: S, y: &mut [f32], scale: S::F, next: &[T]) {
    let n = y.len();
    let mut at = 0;
    while n - at >= S::LANES {
        s.prefetch_far(next.as_ptr().wrapping_add(n + at));
        let y = &mut y[at..at + S::LANES];
        s.store(y, s.mul(s.load(y), scale));
        at += S::LANES;
    }
    let y = &mut y[at..];
    s.store_partial(y, s.mul(s.load_partial(y, 0.0), scale));
}

/// y = x · scale, with x in the order that [`exp_row`] leaves. `next` is the source row; the row after it is prefetched
/// meanwhile.
#[inline(always)]
fn scale_row<S: Simd, T: Element>(s: S, x: &[f32], scale: S::F, next: &[T], y: &mut [T]) {
    let n = y.len();
    let x = &x[..n];
    let mut at = 0;
    while n - at >= 4 * S::LANES {
        for half in [at, at + 2 * S::LANES] {
            s.prefetch_far(next.as_ptr().wrapping_add(n + half));
            s.prefetch_far(next.as_ptr().wrapping_add(n + half + S::LANES));
            let (x, y) = (&x[half..half + 2 * S::LANES], &mut y[half..half + 2 * S::LANES]);
            T::store_two_approx(s, y, [s.mul(s.load(x), scale), s.mul(s.load(&x[S::LANES..]), scale)]);
        }
        at += 4 * S::LANES;
    }
    while at < n {
        let end = n.min(at + S::LANES);
        let v = s.mul(s.load_partial(&x[at..end], 0.0), scale);
        T::store_partial(s, &mut y[at..end], T::round_approx(s, v));
        at = end;
    }
}

/// Elements whose lanes are summed in f32 before they are added to an f64 total.
const BLOCK: usize = 8192;

/// Computes y = e^(x − largest) and returns the sum. Each group of four vectors of y is in the order of
/// [`Element::load_two`].
#[inline(always)]
fn exp_row<S: Simd, T: Element>(s: S, x: &[T], largest: f32, y: &mut [f32]) -> f64 {
    let shift = s.splat(largest);
    let quad = Pair(Pair(s));
    let mut sum = 0.0;
    for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
        let n = x.len();
        let y = &mut y[..n];
        let mut sums = quad.splat(0.0);
        let mut at = 0;
        while n - at >= 4 * S::LANES {
            let (middle, end) = (at + 2 * S::LANES, at + 4 * S::LANES);
            let v = [T::load_two(s, &x[at..middle]), T::load_two(s, &x[middle..end])];
            let e = exp_down::<_, T>(quad, quad.sub(v, [[shift; 2]; 2]));
            quad.store(&mut y[at..end], e);
            sums = quad.add(sums, e);
            at = end;
        }
        sum += f64::from(quad.reduce_add(sums));
        while at < n {
            let end = n.min(at + S::LANES);
            let e = exp_down::<_, T>(s, s.sub(T::load_partial(s, &x[at..end], f32::NEG_INFINITY), shift));
            s.store_partial(&mut y[at..end], e);
            let mut lanes = [0.0; crate::MAX_LANES];
            s.store(&mut lanes, e);
            sum += lanes[..end - at].iter().map(|&e| f64::from(e)).sum::<f64>();
            at = end;
        }
    }
    sum
}

#[derive(Clone, Copy)]
struct LogSoftmax;

impl RowMap for LogSoftmax {
    #[inline(always)]
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], _scratch: &mut [f32]) {
        let largest = s.reduce_maximum(fold(s, x, LargestNumber));
        let log_sum = s.splat(total(s, x, SumExp(largest)).ln() as f32);
        let shift = s.splat(largest);
        let n = y.len();
        let x = &x[..n];
        let mut at = 0;
        while n - at >= S::LANES {
            s.prefetch_far(x.as_ptr().wrapping_add(n + at));
            let v = s.sub(s.sub(T::load(s, &x[at..at + S::LANES]), shift), log_sum);
            T::store(s, &mut y[at..at + S::LANES], v);
            at += S::LANES;
        }
        if at < n {
            let v = s.sub(s.sub(T::load_partial(s, &x[at..], 0.0), shift), log_sum);
            T::store_partial(s, &mut y[at..], v);
        }
    }
}

/// acc + e^(x − shift)
#[derive(Clone, Copy)]
struct SumExp(f32);

impl Fold for SumExp {
    const START: f32 = 0.0;
    #[inline(always)]
    fn fill(self) -> f32 {
        f32::NEG_INFINITY
    }
    #[inline(always)]
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.add(acc, exp_down::<S, f32>(s, s.sub(x, s.splat(self.0))))
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}
