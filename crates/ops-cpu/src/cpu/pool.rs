//! Pooling: computes rows of y from rows of x, first along the columns and then along the row.
use super::Cpu;
use super::rows::{Scratch, for_each_row, row};
use super::vectors::{TaskResult, on_vector, only_f64};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ops_core::ops::{Pool2d, PoolFn, Windows};
use ops_core::{Call, DType, Float, Layout, Num, Result};
use ops_simd::{Isa, Store};

/// Extents of the planes of an operand: the last two axes, or one row.
pub(super) fn extents(layout: &Layout, axes: usize) -> [usize; 2] {
    match *layout.dims() {
        [.., h, w] if axes == 2 => [h, w],
        _ => [1, layout.last()],
    }
}

/// Number types in which rows are computed.
pub(super) trait Wide: Num + Pod {
    /// Converts a row of elements of a type that is computed in this one.
    fn widen(dtype: DType, x: &[u8], wide: &mut [Self]) -> TaskResult;
    /// Rounds a row to elements of such a type.
    fn narrow(dtype: DType, wide: &[Self], y: &mut [u8]) -> TaskResult;
    fn of(v: f64) -> Self;
}

impl Wide for f32 {
    fn widen(dtype: DType, x: &[u8], wide: &mut [f32]) -> TaskResult {
        on_vector!(dtype, T => Ok(ops_simd::cast(Isa::best(), cast_slice::<u8, T>(x), wide, Store::Cached)?), else {
            Err(super::vectors::unsupported_dtype(dtype))
        })
    }
    fn narrow(dtype: DType, wide: &[f32], y: &mut [u8]) -> TaskResult {
        on_vector!(dtype, T => Ok(ops_simd::cast(Isa::best(), wide, cast_slice_mut::<u8, T>(y), Store::Cached)?), else {
            Err(super::vectors::unsupported_dtype(dtype))
        })
    }
    fn of(v: f64) -> f32 {
        v as f32
    }
}

impl Wide for f64 {
    fn widen(dtype: DType, x: &[u8], wide: &mut [f64]) -> TaskResult {
        only_f64(dtype)?;
        wide.copy_from_slice(cast_slice(x));
        Ok(())
    }
    fn narrow(dtype: DType, wide: &[f64], y: &mut [u8]) -> TaskResult {
        only_f64(dtype)?;
        cast_slice_mut(y).copy_from_slice(wide);
        Ok(())
    }
    fn of(v: f64) -> f64 {
        v
    }
}

/// Memory for `n` numbers with unspecified values.
pub(super) fn numbers<A: Pod>(scratch: &mut Scratch, n: usize) -> &mut [A] {
    let words = scratch.words((n * size_of::<A>()).div_ceil(8));
    &mut cast_slice_mut(words)[..n]
}

/// The larger; NaN if either is.
fn larger<A: Num + PartialOrd>(a: A, b: A) -> A {
    // NaN counts as the largest.
    #[allow(clippy::eq_op)] // Only a NaN differs from itself.
    if b > a || b != b { b } else { a }
}

/// The part of a window that lies on an axis of `len` elements.
fn window(windows: &Windows, axis: usize, at: usize, len: usize) -> core::ops::Range<usize> {
    let (first, padding) = (at * windows.stride[axis], windows.padding[axis]);
    first.saturating_sub(padding)..(first + windows.kernel[axis]).saturating_sub(padding).min(len)
}

/// Joins the elements of each window of a row to `start`.
fn join_windows<A: Num>(x: &[A], windows: &Windows, start: A, y: &mut [A], join: impl Fn(A, A) -> A) {
    y.fill(start);
    if windows.stride[1] != 1 {
        for (i, y) in y.iter_mut().enumerate() {
            *y = x[window(windows, 1, i, x.len())].iter().fold(start, |y, v| join(y, *v));
        }
        return;
    }
    // Element i of y combines elements i − before to i + after of x: for each distance, use vectors of both.
    let (before, after) = (windows.padding[1], windows.kernel[1] - windows.padding[1]);
    let mut meet = |y_from: usize, x_from: usize| {
        let (y, x) = (y.get_mut(y_from..).unwrap_or_default(), x.get(x_from..).unwrap_or_default());
        y.iter_mut().zip(x).for_each(|(y, v)| *y = join(*y, *v));
    };
    let shorter = x.len().min(usize::MAX / 2);
    (1..=before.min(shorter + 1)).for_each(|distance| meet(distance, 0));
    (0..after.min(shorter)).for_each(|distance| meet(0, distance));
}

/// Maxima in `A`, which holds the elements exactly.
fn max_pool<A: Wide + PartialOrd>(windows: &Windows, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let ([h, w], [rows, columns]) = (extents(&x.layout, 2), extents(&y.layout, 2));
    let (least, dtype) = (A::of(f64::NEG_INFINITY), x.dtype);
    for_each_row("max_pool2d", y, cost(windows, w, columns), &|[gathered, best, wide], i, y| {
        let (best, out) = numbers::<A>(best, w + columns).split_at_mut(w);
        best.fill(least);
        let wide = numbers::<A>(wide, w);
        for r in window(windows, 0, i % rows, h) {
            A::widen(dtype, row(&x, i / rows * h + r, gathered), wide)?;
            best.iter_mut().zip(&*wide).for_each(|(best, v)| *best = larger(*best, *v));
        }
        join_windows(best, windows, least, out, larger);
        A::narrow(dtype, out, y)
    })
}

/// Averages of elements of `A`, summed in f64.
fn avg_pool<A: Wide>(windows: &Windows, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let ([h, w], [rows, columns]) = (extents(&x.layout, 2), extents(&y.layout, 2));
    let (elements, dtype) = (windows.kernel[0] as f64 * windows.kernel[1] as f64, x.dtype);
    for_each_row("avg_pool2d", y, cost(windows, w, columns), &|[gathered, sums, wide], i, y| {
        let (sums, totals) = numbers::<f64>(sums, w + columns).split_at_mut(w);
        sums.fill(0.0);
        let (wide, out) = numbers::<A>(wide, w + columns).split_at_mut(w);
        for r in window(windows, 0, i % rows, h) {
            A::widen(dtype, row(&x, i / rows * h + r, gathered), wide)?;
            sums.iter_mut().zip(&*wide).for_each(|(sum, v)| *sum += v.to_f64());
        }
        join_windows(sums, windows, 0.0, totals, |a, b| a + b);
        out.iter_mut().zip(&*totals).for_each(|(y, total)| *y = A::of(total / elements));
        A::narrow(dtype, out, y)
    })
}

/// The work of a row of y, in elements.
fn cost(windows: &Windows, w: usize, columns: usize) -> usize {
    windows.kernel[0].saturating_mul(w).saturating_add(windows.kernel[1].min(w).saturating_mul(columns))
}

impl<T: Float> Kernel<Pool2d<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Pool2d<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, y) = (Raw::of(&a.x), RawMut::of(&mut a.y));
        match (op.f, x.dtype) {
            (PoolFn::Max, DType::F64) => max_pool::<f64>(&op.windows, x, y),
            (PoolFn::Max, _) => max_pool::<f32>(&op.windows, x, y),
            (_, DType::F64) => avg_pool::<f64>(&op.windows, x, y),
            (_, _) => avg_pool::<f32>(&op.windows, x, y),
        }
    }
}
