//! Rotary position embedding.
use super::Cpu;
use super::rows::{Rows, each};
use crate::{Host, Kernel};
use ops_core::ops::{Rope, RopeArgs, RopeForm, RopeInplace, RopeInplaceArgs};
use ops_core::{Float, Result, Scalar, Shape, TensorRef, View};

/// Finds the angles of a row of `x`.
struct Angles<'a, C> {
    cos: Rows<'a, C>,
    sin: Rows<'a, C>,
    /// Rows of the tables for each of the batch; 0 where the batch shares them.
    batch_rows: usize,
    form: RopeForm,
    start: usize,
    dims: Shape,
}

impl<'a, C: Float> Angles<'a, C> {
    fn new(
        form: RopeForm,
        start: usize,
        dims: Shape,
        cos: &TensorRef<'a, Host, C>,
        sin: &TensorRef<'a, Host, C>,
    ) -> Self {
        let batch_rows = if let [_, rows, _] = *cos.dims() { rows } else { 0 };
        Angles { cos: Rows::of(cos), sin: Rows::of(sin), batch_rows, form, start, dims }
    }
    /// The row of the tables for row `i` of `x`.
    fn row(&self, i: usize) -> usize {
        let (n1, n2) = (self.dims[1], self.dims[2]);
        let token = if self.form == RopeForm::HalfThd { i / n2 % n1 } else { i % n2 };
        i / (n1 * n2) * self.batch_rows + self.start + token
    }
}

/// Turns a row in place.
fn turn<T: Float, C: Float>(form: RopeForm, row: &mut [T], cos: &[C], sin: &[C]) {
    let rotate = |x1: T, x2: T, c: &C, s: &C| {
        let (x1, x2) = (x1.acc(), x2.acc());
        let (c, s) = (T::Acc::from_f64(c.to_f64()), T::Acc::from_f64(s.to_f64()));
        (T::from_acc(x1 * c - x2 * s), T::from_acc(x1 * s + x2 * c))
    };
    let angles = cos.iter().zip(sin);
    if form == RopeForm::Interleaved {
        for (pair, (c, s)) in row.chunks_exact_mut(2).zip(angles) {
            (pair[0], pair[1]) = rotate(pair[0], pair[1], c, s);
        }
    } else {
        let (first, second) = row.split_at_mut(row.len() / 2);
        for ((x1, x2), (c, s)) in first.iter_mut().zip(second).zip(angles) {
            (*x1, *x2) = rotate(*x1, *x2, c, s);
        }
    }
}

impl<T: Float, C: Float> Kernel<Rope<T, C>> for Cpu {
    fn compute(&self, op: &Rope<T, C>, a: &mut RopeArgs<'_, Host, T, C>) -> Result<()> {
        let (x, angles) = (Rows::of(&a.x), Angles::new(op.form, op.start, a.x.shape(), &a.cos, &a.sin));
        let state = <(Vec<T>, Vec<C>, Vec<C>)>::default;
        each(&mut a.y, 4 * a.x.layout().last(), state, |(sx, sc, ss), i, y| {
            y.copy_from_slice(x.get(i, sx));
            turn(op.form, y, angles.cos.get(angles.row(i), sc), angles.sin.get(angles.row(i), ss));
        });
        Ok(())
    }
}

impl<T: Float, C: Float> Kernel<RopeInplace<T, C>> for Cpu {
    fn compute(&self, op: &RopeInplace<T, C>, a: &mut RopeInplaceArgs<'_, Host, T, C>) -> Result<()> {
        let angles = Angles::new(op.form, op.start, a.x.shape(), &a.cos, &a.sin);
        let cost = 4 * a.x.layout().last();
        each(&mut a.x, cost, <(Vec<C>, Vec<C>)>::default, |(sc, ss), i, x| {
            turn(op.form, x, angles.cos.get(angles.row(i), sc), angles.sin.get(angles.row(i), ss));
        });
        Ok(())
    }
}
