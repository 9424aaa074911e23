//! Drivers for functions from rows to rows: the loop over rows, mixed types and streamed outputs.

use crate::cast::cast_views;
use crate::element::{Element, View, ViewMut};
use crate::isa::{Isa, Run};
use crate::scratch::Scratch;
use crate::simd::{Simd, VectorFn};
use crate::store::Store;

/// A function from a row to a row.
pub(crate) trait RowMap: Copy {
    /// Writes `y` from `x`; both have the same length. `scratch` has that length too, with unspecified contents.
    fn row<S: Simd, T: Element>(self, s: S, x: &[T], y: &mut [T], scratch: &mut [f32]);
}

/// Applies `map` to every row of length `n`; `x` and `y` hold the same whole number of rows.
pub(crate) fn map_rows<F: RowMap>(isa: Isa, x: View<'_>, y: ViewMut<'_>, n: usize, store: Store, map: F) {
    if n == 0 || y.len() == 0 {
        return;
    }
    match (x, y, isa.native()) {
        (View::F32(x), ViewMut::F32(y), _) => same_type(isa, x, y, n, store, map),
        (View::F16(x), ViewMut::F16(y), Some(native)) => same_type(native, x, y, n, store, map),
        (View::Bf16(x), ViewMut::Bf16(y), Some(native)) => same_type(native, x, y, n, store, map),
        (x, mut y, _) => {
            let (mut wide_x, mut wide_y) = (Scratch::<f32>::new(n), Scratch::<f32>::new(n));
            for start in (0..y.len()).step_by(n) {
                cast_views(isa, x.slice(start, start + n), ViewMut::F32(&mut wide_x), Store::Cached);
                same_type::<f32, _, _>(isa, &wide_x, &mut wide_y, n, Store::Cached, map);
                cast_views(isa, View::F32(&wide_y), y.slice_mut(start, start + n), store);
            }
        }
    }
}

/// [`map_rows`] for operands of one type.
pub(crate) fn same_type<T: Element, F: RowMap, R: Run>(
    on: R,
    x: &[T],
    y: &mut [T],
    n: usize,
    store: Store,
    map: F,
) {
    if n == 0 || y.is_empty() {
        return;
    }
    let mut scratch = Scratch::new(n);
    let mut row = Scratch::new(if store == Store::Stream { n } else { 0 });
    on.run(MapRows { x, y, n, store, map, scratch: &mut scratch, row: &mut row });
}

struct MapRows<'a, T, F> {
    x: &'a [T],
    y: &'a mut [T],
    n: usize,
    store: Store,
    map: F,
    scratch: &'a mut [f32],
    row: &'a mut [T],
}

impl<T: Element, F: RowMap> VectorFn for MapRows<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let stream = self.store == Store::Stream;
        for (x, y) in self.x.chunks_exact(self.n).zip(self.y.chunks_exact_mut(self.n)) {
            let out = if stream { &mut *self.row } else { &mut *y };
            self.map.row(s, x, out, self.scratch);
            if stream {
                // SAFETY: the fence below follows before anything else accesses `y`.
                unsafe { s.stream_copy(bytemuck::cast_slice(self.row), bytemuck::cast_slice_mut(y)) }
            }
        }
        if stream {
            s.fence();
        }
    }
}

/// `x` as f32: unchanged if it is f32, otherwise converted into `scratch`.
pub(crate) fn as_f32<'a>(isa: Isa, x: View<'a>, scratch: &'a mut Scratch<f32>) -> &'a [f32] {
    if let View::F32(x) = x {
        return x;
    }
    *scratch = Scratch::new(x.len());
    cast_views(isa, x, ViewMut::F32(scratch), Store::Cached);
    scratch
}

/// Whether operands of type `W` have the type of the rows. If so, all vectors may be in that type's own lane order
/// ([`Element::load_two`]), and [`Element::store_two_approx`] preserves NaN.
#[inline(always)]
pub(crate) const fn same_element_type<T: Element, W: Element>() -> bool {
    T::DIGITS == W::DIGITS
}

/// Rounds `v` as a store of two vectors would.
#[inline(always)]
pub(crate) fn round_approx<S: Simd, T: Element, W: Element>(s: S, v: S::F) -> S::F {
    if same_element_type::<T, W>() { T::round_approx(s, v) } else { v }
}
