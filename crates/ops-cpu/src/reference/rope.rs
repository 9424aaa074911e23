//! Rotary position embedding.
use super::{In, Reference};
use crate::{Host, Kernel};
use ops_core::ops::{Rope, RopeArgs, RopeForm, RopeInplace, RopeInplaceArgs};
use ops_core::{Float, Layout, Result, View};

/// Two elements of `x` and the angle they turn by: indices, not positions.
struct Pair {
    first: [usize; 4],
    second: [usize; 4],
    /// Batch, token, frequency.
    angle: [usize; 3],
}

/// Every pair of `x`.
fn pairs(form: RopeForm, start: usize, x: &Layout) -> impl Iterator<Item = Pair> + use<> {
    let half = x.last() / 2;
    let pairs = x.narrow(3, 0, half).unwrap_or(*x);
    (0..pairs.len()).map(move |n| {
        let i = pairs.index_of(n);
        let (b, i1, i2, j) = (i[0], i[1], i[2], i[3]);
        let token = start + if form == RopeForm::HalfThd { i1 } else { i2 };
        let (first, second) = if form == RopeForm::Interleaved { (2 * j, 2 * j + 1) } else { (j, j + half) };
        Pair { first: [b, i1, i2, first], second: [b, i1, i2, second], angle: [b, token, j] }
    })
}

/// The entry of a table, shared by the batch or one for each of it.
fn entry<C: Float>(table: &In<'_, C>, angle: &[usize; 3]) -> f64 {
    let index = &angle[3 - table.layout().rank()..];
    table.data()[table.layout().position(index)].to_f64()
}

fn rotate<T: Float>(x1: T, x2: T, cos: f64, sin: f64) -> (T, T) {
    let (x1, x2) = (x1.to_f64(), x2.to_f64());
    (T::from_f64(x1 * cos - x2 * sin), T::from_f64(x1 * sin + x2 * cos))
}

impl<T: Float, C: Float> Kernel<Rope<T, C>> for Reference {
    fn compute(&self, op: &Rope<T, C>, a: &mut RopeArgs<'_, Host, T, C>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for pair in pairs(op.form, op.start, &lx) {
            let (cos, sin) = (entry(&a.cos, &pair.angle), entry(&a.sin, &pair.angle));
            let (y1, y2) = rotate(x[lx.position(&pair.first)], x[lx.position(&pair.second)], cos, sin);
            (y[ly.position(&pair.first)], y[ly.position(&pair.second)]) = (y1, y2);
        }
        Ok(())
    }
}

impl<T: Float, C: Float> Kernel<RopeInplace<T, C>> for Reference {
    fn compute(&self, op: &RopeInplace<T, C>, a: &mut RopeInplaceArgs<'_, Host, T, C>) -> Result<()> {
        let (lx, x) = (*a.x.layout(), a.x.data_mut());
        for pair in pairs(op.form, op.start, &lx) {
            let (cos, sin) = (entry(&a.cos, &pair.angle), entry(&a.sin, &pair.angle));
            let (p1, p2) = (lx.position(&pair.first), lx.position(&pair.second));
            (x[p1], x[p2]) = rotate(x[p1], x[p2], cos, sin);
        }
        Ok(())
    }
}
