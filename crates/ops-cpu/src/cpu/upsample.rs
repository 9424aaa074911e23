//! Upsampling: rows of y from rows of x, first down the columns and then along the row.
use super::Cpu;
use super::pool::{Wide, extents, numbers};
use super::rows::{for_each_row, row};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ops_core::ops::{Source, Upsample, UpsampleFn};
use ops_core::{Call, DType, Float, Num, Result};

/// Copies the elements of `E`'s size at these positions.
fn pick<E: Pod>(x: &[u8], places: &[usize], y: &mut [u8]) {
    let x = cast_slice::<u8, E>(x);
    cast_slice_mut::<u8, E>(y).iter_mut().zip(places).for_each(|(y, at)| *y = x[*at]);
}

fn nearest(f: UpsampleFn, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let ([h, w], [rows, columns]) = (extents(&x.layout, f.axes()), extents(&y.layout, f.axes()));
    let (down, across) = (f.source(h, rows), f.source(w, columns));
    let places: Vec<usize> = (0..columns).map(|i| across.at(i).0).collect();
    for_each_row(f.name(), y, columns, &|[gathered, ..], i, y| {
        let from = row(&x, i / rows * h + down.at(i % rows).0, gathered);
        match x.size {
            2 => pick::<u16>(from, &places, y),
            4 => pick::<u32>(from, &places, y),
            8 => pick::<u64>(from, &places, y),
            _ => return Err("upsampling moves elements of 2, 4 or 8 bytes".into()),
        }
        Ok(())
    })
}

/// Interpolates between two numbers; one with weight 0 is ignored.
fn mixed<A: Wide>(a: A, b: A, [first, second]: [A; 2]) -> A {
    if second.to_f64() == 0.0 { a } else { Num::add(Num::mul(a, first), Num::mul(b, second)) }
}

/// The position of an element of y on a row of x: the elements before and after it, and their weights.
fn between<A: Wide>(source: &Source, i: usize) -> ([usize; 2], [A; 2]) {
    let (before, weight) = source.at(i);
    let after = before + usize::from(weight > 0.0);
    ([before, after], [A::of(1.0 - weight), A::of(weight)])
}

fn bilinear<A: Wide>(f: UpsampleFn, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let ([h, w], [rows, columns]) = (extents(&x.layout, 2), extents(&y.layout, 2));
    let (down, across, dtype) = (f.source(h, rows), f.source(w, columns), x.dtype);
    let places: Vec<_> = (0..columns).map(|i| between::<A>(&across, i)).collect();
    for_each_row(f.name(), y, 4 * columns + 2 * w, &|[gathered, mixture, other], i, y| {
        let ([above, below], weights) = between::<A>(&down, i % rows);
        let (mixture, out) = numbers::<A>(mixture, w + columns).split_at_mut(w);
        A::widen(dtype, row(&x, i / rows * h + above, gathered), mixture)?;
        if above != below {
            let other = numbers::<A>(other, w);
            A::widen(dtype, row(&x, i / rows * h + below, gathered), other)?;
            mixture.iter_mut().zip(&*other).for_each(|(a, b)| *a = mixed(*a, *b, weights));
        }
        for (out, ([left, right], weights)) in out.iter_mut().zip(&places) {
            *out = mixed(mixture[*left], mixture[*right], *weights);
        }
        A::narrow(dtype, out, y)
    })
}
impl<T: Float> Kernel<Upsample<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Upsample<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (f, x, y) = (op.function(), Raw::of(&a.x), RawMut::of(&mut a.y));
        match (f, x.dtype) {
            (UpsampleFn::Bilinear2d { .. }, DType::F64) => bilinear::<f64>(f, x, y),
            (UpsampleFn::Bilinear2d { .. }, _) => bilinear::<f32>(f, x, y),
            _ => nearest(f, x, y),
        }
    }
}
