//! Upsampling.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Upsample, UpsampleFn};
use ops_core::{Call, Float, Result};

/// The two elements of an axis of `len` between which element `i` of `size` stands, and the weight of the second.
fn place(f: UpsampleFn, i: usize, len: usize, size: usize) -> (usize, usize, f64) {
    let (i, len, size) = (i as i128, len as i128, size as i128);
    // The place is this fraction.
    let (numerator, denominator) = match f {
        UpsampleFn::Bilinear2d { align_corners: true } => (i * (len - 1), (size - 1).max(1)),
        UpsampleFn::Bilinear2d { align_corners: false } => (((2 * i + 1) * len - size).max(0), 2 * size),
        _ => (i * len / size, 1),
    };
    let before = numerator / denominator;
    let after = (before + 1).min(len - 1);
    (before as usize, after as usize, (numerator % denominator) as f64 / denominator as f64)
}

/// `a · (1 − weight) + b · weight`, where what has weight 0 does not count.
fn mixed(a: f64, b: f64, weight: f64) -> f64 {
    if weight == 0.0 { a } else { a * (1.0 - weight) + b * weight }
}

fn upsample(f: UpsampleFn, x: Raw<'_>, mut y: RawMut<'_>) {
    let (lx, ly) = (x.layout, y.layout);
    let last = ly.rank() - 1;
    for (n, py) in ly.positions().enumerate() {
        let index = ly.index_of(n);
        let place = |axis: usize| place(f, index[axis], lx.dims()[axis], ly.dims()[axis]);
        let mut at = index.clone();
        let mut on_row = |row: Option<usize>| {
            let (left, right, weight) = place(last);
            let mut value = |column| {
                if let Some(row) = row {
                    at[last - 1] = row;
                }
                at[last] = column;
                x.f64(lx.position(&at))
            };
            mixed(value(left), value(right), weight)
        };
        let result = match f {
            UpsampleFn::Nearest1d => on_row(None),
            _ => {
                let (above, below, weight) = place(last - 1);
                mixed(on_row(Some(above)), on_row(Some(below)), weight)
            }
        };
        y.set(py, result);
    }
}
impl<T: Float> Kernel<Upsample<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Upsample<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        upsample(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
