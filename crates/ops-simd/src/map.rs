//! Elementwise drivers for one or more inputs: whole vectors, then a partial one.

use crate::cast::through_f32;
use crate::element::{Element, View};
use crate::isa::{Isa, Run};
use crate::simd::pair::Pair;
use crate::simd::{Simd, VectorFn};
use crate::store::{BLOCK, Store};

/// A function of `N` vectors.
pub trait Map<const N: usize>: Copy {
    /// Whether the values are already approximate, so that ties may round either way in 16-bit types.
    const APPROXIMATE: bool = false;
    /// Whether the function takes long enough that 16-bit types are converted to f32 and back in blocks,
    /// instead of compiling it for each type. Its value must then not depend on `T`.
    const LONG: bool = false;
    /// Its value, which will be rounded to `T` and need not be much more precise.
    fn eval<S: Simd, T: Element>(self, s: S, x: [S::F; N]) -> S::F;
}

/// y\[i\] = map(x₀\[i\], x₁\[i\], ..)
pub(crate) fn elementwise<F: Map<N>, T: Element, const N: usize>(
    isa: Isa,
    map: F,
    x: [&[T]; N],
    y: &mut [T],
    store: Store,
) {
    if const { T::DIGITS > 11 } {
        return isa.run(Elementwise { map, x, y, store });
    }
    if const { !F::LONG }
        && let Some(native) = isa.native()
    {
        return native.run(Elementwise { map, x, y, store });
    }
    let x: [View<'_>; N] = x.map(T::view);
    through_f32(isa, x, T::view_mut(y), store, |x, y| {
        isa.run(Elementwise { map, x, y, store: Store::Cached });
    });
}

/// The kernel of [`elementwise`].
struct Elementwise<'a, F, T, const N: usize> {
    map: F,
    x: [&'a [T]; N],
    y: &'a mut [T],
    store: Store,
}

impl<F: Map<N>, T: Element, const N: usize> VectorFn for Elementwise<'_, F, T, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Elementwise { map, x, y, store } = self;
        // One loop for both ways to store, so that the arithmetic is compiled once: it is most of this crate's code.
        let mut scratch = (store == Store::Stream).then(|| [T::default(); BLOCK]);
        let step = if scratch.is_some() { BLOCK } else { y.len().max(1) };
        for (i, y) in y.chunks_mut(step).enumerate() {
            let len = y.len();
            let out = scratch.as_mut().map_or(&mut *y, |block| &mut block[..len]);
            apply(s, map, parts(x, i * step, len), out);
            if let Some(block) = &scratch {
                // SAFETY: the fence below follows before anything else accesses `y`.
                unsafe { s.stream_copy(bytemuck::cast_slice(&block[..len]), bytemuck::cast_slice_mut(y)) }
            }
        }
        if scratch.is_some() {
            s.fence();
        }
    }
}

#[inline(always)]
fn apply<S: Simd, F: Map<N>, T: Element, const N: usize>(s: S, map: F, x: [&[T]; N], y: &mut [T]) {
    let n = y.len();
    // The common length lets the compiler remove the bounds checks in the loop.
    let x = parts(x, 0, n);
    let mut at = 0;
    // Several vectors at a time give the processor independent work. 16-bit types take long enough for eight;
    // f32 in steps that large comes more slowly from memory. Doing both would compile another copy of the
    // arithmetic.
    if S::UNROLLED && T::DIGITS <= 11 && N == 1 {
        while n - at >= 8 * S::LANES {
            let len = 8 * S::LANES;
            apply_eight(s, map, parts(x, at, len), &mut y[at..at + len]);
            at += len;
        }
    } else if S::UNROLLED {
        while n - at >= 4 * S::LANES {
            let len = 4 * S::LANES;
            apply_four(s, map, parts(x, at, len), &mut y[at..at + len]);
            at += len;
        }
    }
    // One vector at a time. One copy of the arithmetic serves whole vectors and the partial one at the end.
    while at < n {
        let whole = n - at >= S::LANES;
        let mut v = [s.splat(0.0); N];
        for (v, x) in v.iter_mut().zip(x) {
            *v = if whole { T::load(s, &x[at..at + S::LANES]) } else { T::load_partial(s, &x[at..], 1.0) };
        }
        let v = value::<S, F, T, N>(s, map, v);
        if !whole {
            return T::store_partial(s, &mut y[at..], v);
        }
        T::store(s, &mut y[at..at + S::LANES], v);
        at += S::LANES;
    }
}

/// `len` elements from `at` on of each slice.
#[inline]
fn parts<T, const N: usize>(x: [&[T]; N], at: usize, len: usize) -> [&[T]; N] {
    x.map(|x| &x[at..][..len])
}

/// Applies `map` to eight vectors.
#[inline(always)]
fn apply_eight<S: Simd, F: Map<N>, T: Element, const N: usize>(s: S, map: F, x: [&[T]; N], y: &mut [T]) {
    let wide = Pair(Pair(Pair(s)));
    let mut v = [wide.splat(0.0); N];
    for (v, x) in v.iter_mut().zip(x) {
        *v = [load_four(s, x), load_four(s, &x[4 * S::LANES..])];
    }
    let [a, b] = map.eval::<_, T>(wide, v);
    let (low, high) = y.split_at_mut(4 * S::LANES);
    store_four::<S, F, T, N>(s, low, a);
    store_four::<S, F, T, N>(s, high, b);
}

/// Applies `map` to four vectors.
#[inline(always)]
fn apply_four<S: Simd, F: Map<N>, T: Element, const N: usize>(s: S, map: F, x: [&[T]; N], y: &mut [T]) {
    let quad = Pair(Pair(s));
    let mut v = [quad.splat(0.0); N];
    for (v, x) in v.iter_mut().zip(x) {
        *v = load_four(s, x);
    }
    store_four::<S, F, T, N>(s, y, map.eval::<_, T>(quad, v));
}

#[inline(always)]
fn load_four<S: Simd, T: Element>(s: S, x: &[T]) -> [[S::F; 2]; 2] {
    [T::load_two(s, x), T::load_two(s, &x[2 * S::LANES..])]
}

#[inline(always)]
fn store_four<S: Simd, F: Map<N>, T: Element, const N: usize>(s: S, y: &mut [T], v: [[S::F; 2]; 2]) {
    let (low, high) = y.split_at_mut(2 * S::LANES);
    for (y, v) in [low, high].into_iter().zip(v) {
        if F::APPROXIMATE { T::store_two_approx(s, y, v) } else { T::store_two(s, y, v) }
    }
}

/// The value for one vector, rounded as the loops over several vectors round it.
#[inline(always)]
fn value<S: Simd, F: Map<N>, T: Element, const N: usize>(s: S, map: F, x: [S::F; N]) -> S::F {
    let v = map.eval::<_, T>(s, x);
    if F::APPROXIMATE { T::round_approx(s, v) } else { v }
}
