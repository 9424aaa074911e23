//! Casts between f32, f16 and bf16.

use crate::element::{Element, View, ViewMut};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};
use crate::store::{BLOCK, Store};

/// y\[i\] = x\[i\], rounded to nearest, ties to even. NaN stays NaN, and values out of range become infinite.
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn cast<X: Element, Y: Element>(isa: Isa, x: &[X], y: &mut [Y], store: Store) -> Result<(), Error> {
    same_len("x", x.len(), y.len())?;
    cast_views(isa, X::view(x), Y::view_mut(y), store);
    Ok(())
}

/// [`cast`] for slices of equal length.
pub(crate) fn cast_views(isa: Isa, x: View<'_>, y: ViewMut<'_>, store: Store) {
    match x {
        View::F32(x) => cast_from(isa, x, y, store),
        View::F16(x) => cast_from(isa, x, y, store),
        View::Bf16(x) => cast_from(isa, x, y, store),
    }
}

fn cast_from<X: Element>(isa: Isa, x: &[X], y: ViewMut<'_>, store: Store) {
    match y {
        ViewMut::F32(y) => isa.run(Cast { x, y, store }),
        ViewMut::F16(y) => isa.run(Cast { x, y, store }),
        ViewMut::Bf16(y) => isa.run(Cast { x, y, store }),
    }
}

struct Cast<'a, X, Y> {
    x: &'a [X],
    y: &'a mut [Y],
    store: Store,
}

impl<X: Element, Y: Element> VectorFn for Cast<'_, X, Y> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if self.store == Store::Cached {
            return convert(s, self.x, self.y);
        }
        let mut block = [Y::default(); BLOCK];
        for (x, y) in self.x.chunks(BLOCK).zip(self.y.chunks_mut(BLOCK)) {
            let block = &mut block[..x.len()];
            convert(s, x, block);
            // SAFETY: the fence below follows before anything else accesses `y`.
            unsafe { s.stream_copy(bytemuck::cast_slice(block), bytemuck::cast_slice_mut(y)) }
        }
        s.fence();
    }
}

/// y[i] = x[i] for the elements of `y`.
#[inline(always)]
pub(crate) fn convert<S: Simd, X: Element, Y: Element>(s: S, x: &[X], y: &mut [Y]) {
    let n = y.len();
    let x = &x[..n];
    let mut at = 0;
    while n - at >= S::LANES {
        Y::store(s, &mut y[at..at + S::LANES], X::load(s, &x[at..at + S::LANES]));
        at += S::LANES;
    }
    if at < n {
        Y::store_partial(s, &mut y[at..], X::load_partial(s, &x[at..], 0.0));
    }
}

/// Converts operands to f32 one block at a time, lets `f` compute another block from them, and converts that to `y`.
pub(crate) fn through_f32<const N: usize>(
    isa: Isa,
    x: [View<'_>; N],
    mut y: ViewMut<'_>,
    store: Store,
    mut f: impl FnMut([&[f32]; N], &mut [f32]),
) {
    let (mut from, mut to) = ([[0.0; BLOCK]; N], [0.0; BLOCK]);
    let n = y.len();
    for at in (0..n).step_by(BLOCK) {
        let end = n.min(at + BLOCK);
        for (from, x) in from.iter_mut().zip(&x) {
            cast_views(isa, x.slice(at, end), ViewMut::F32(&mut from[..end - at]), Store::Cached);
        }
        let to = &mut to[..end - at];
        f(from.each_ref().map(|from| &from[..end - at]), to);
        cast_views(isa, View::F32(to), y.slice_mut(at, end), store);
    }
}

/// Copies `y` one block at a time, and lets `f` compute it anew from the copy.
pub(crate) fn from_copy<T: Element>(y: &mut [T], mut f: impl FnMut(&[T], &mut [T])) {
    let mut copy = [T::default(); BLOCK];
    for y in y.chunks_mut(BLOCK) {
        let copy = &mut copy[..y.len()];
        copy.copy_from_slice(y);
        f(copy, y);
    }
}
