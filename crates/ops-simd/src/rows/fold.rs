//! Reductions of a row to one number. Four vector accumulators keep additions from waiting for each other.

use crate::element::Element;
use crate::simd::Simd;
use crate::simd::pair::Pair;

/// How a vector is combined with an accumulator.
pub(crate) trait Fold: Copy {
    /// The accumulator's initial value.
    const START: f32;
    /// The neutral value for the unused lanes of a partial vector.
    #[inline(always)]
    fn fill(self) -> f32 {
        Self::START
    }
    /// Combines the elements of `x`, fewer than a vector.
    #[inline(always)]
    fn step_partial<S: Simd, T: Element>(self, s: S, acc: S::F, x: &[T]) -> S::F {
        self.step(s, acc, T::load_partial(s, x, self.fill()))
    }
    /// Combines `x` with the accumulator.
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F;
    /// Combines two accumulators.
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

/// Reduces all of `x` to one accumulator, with the lanes still separate.
#[inline(always)]
pub(crate) fn fold<S: Simd, T: Element, F: Fold>(s: S, x: &[T], f: F) -> S::F {
    let mut acc = [s.splat(F::START); 4];
    let mut at = 0;
    while x.len() - at >= 4 * S::LANES {
        let x = &x[at..at + 4 * S::LANES];
        // The order of the lanes does not matter here.
        let [a, b] = T::load_two(s, x);
        let [c, d] = T::load_two(s, &x[2 * S::LANES..]);
        acc[0] = f.step(s, acc[0], a);
        acc[1] = f.step(s, acc[1], b);
        acc[2] = f.step(s, acc[2], c);
        acc[3] = f.step(s, acc[3], d);
        at += 4 * S::LANES;
    }
    while x.len() - at >= S::LANES {
        acc[0] = f.step(s, acc[0], T::load(s, &x[at..at + S::LANES]));
        at += S::LANES;
    }
    if at < x.len() {
        acc[1] = f.step_partial(s, acc[1], &x[at..]);
    }
    f.join(s, f.join(s, acc[0], acc[2]), f.join(s, acc[1], acc[3]))
}

/// Elements whose lanes are summed in f32 before they are added to an f64 total: 512 for each lane, so that narrow vectors round no more
/// than wide ones.
const fn block<S: Simd>() -> usize {
    512 * S::LANES
}

/// The sum over `x` of the terms that `f` adds, for accumulators that add.
#[inline(always)]
pub(crate) fn total<S: Simd, T: Element, F: Fold>(s: S, x: &[T], f: F) -> f64 {
    let mut total = 0.0;
    for block in x.chunks(block::<S>()) {
        total += f64::from(s.reduce_add(fold(s, block, f)));
    }
    total
}

/// acc + x
#[derive(Clone, Copy)]
pub(crate) struct Sum;

impl Fold for Sum {
    const START: f32 = 0.0;
    #[inline(always)]
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.add(acc, x)
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// The sums of x − shift and of its square.
#[inline(always)]
pub(crate) fn totals_from<S: Simd, T: Element>(s: S, x: &[T], shift: f32) -> [f64; 2] {
    let quad = Pair(Pair(s));
    let from = quad.splat(shift);
    let mut totals = [0.0; 2];
    for x in x.chunks(block::<S>()) {
        let mut acc = [quad.splat(0.0); 2];
        let mut at = 0;
        while x.len() - at >= 4 * S::LANES {
            let (middle, end) = (at + 2 * S::LANES, at + 4 * S::LANES);
            // The order of the lanes does not matter here.
            let d = quad.sub([T::load_two(s, &x[at..middle]), T::load_two(s, &x[middle..end])], from);
            acc = [quad.add(acc[0], d), quad.mul_add(d, d, acc[1])];
            at = end;
        }
        while at < x.len() {
            let end = x.len().min(at + S::LANES);
            let d = s.sub(T::load_partial(s, &x[at..end], shift), s.splat(shift));
            acc[0][0][0] = s.add(acc[0][0][0], d);
            acc[1][0][0] = s.mul_add(d, d, acc[1][0][0]);
            at = end;
        }
        totals[0] += f64::from(quad.reduce_add(acc[0]));
        totals[1] += f64::from(quad.reduce_add(acc[1]));
    }
    totals
}

/// acc + x²
#[derive(Clone, Copy)]
pub(crate) struct Squares;

impl Fold for Squares {
    const START: f32 = 0.0;
    #[inline(always)]
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.mul_add(x, x, acc)
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// The bits to flip so that the largest number is the smallest one: none, or the sign.
pub(crate) fn flip_of(smallest: bool) -> i32 {
    if smallest { i32::MIN } else { 0 }
}

/// The larger after the bits `.0` are flipped; NaN when either is.
#[derive(Clone, Copy)]
pub(crate) struct Maximum(pub(crate) i32);

impl Fold for Maximum {
    const START: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn fill(self) -> f32 {
        f32::from_bits(Self::START.to_bits() ^ self.0 as u32)
    }
    #[inline(always)]
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.maximum(s.from_bits(s.xor_i(s.to_bits(x), s.splat_i(self.0))), acc)
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.maximum(a, b)
    }
}

/// The largest number, ignoring NaN.
#[derive(Clone, Copy)]
pub(crate) struct LargestNumber;

impl Fold for LargestNumber {
    const START: f32 = f32::NEG_INFINITY;
    #[inline(always)]
    fn step<S: Simd>(self, s: S, acc: S::F, x: S::F) -> S::F {
        s.max_raw(x, acc)
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.max_raw(a, b)
    }
}
