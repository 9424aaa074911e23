//! Softmax and its logarithm.
use super::Cpu;
use super::norm::sum;
use super::rows::{Rows, each_under};
use crate::{Host, Kernel};
use num_traits::Float as _;
use ops_core::ops::{Softmax, SoftmaxArgs};
use ops_core::{Float, Result, View};

/// The largest value; NaN if there is one.
fn max<T: Float>(x: &[T]) -> T::Acc {
    let larger = |m: T::Acc, v: T::Acc| if m.is_nan() || m > v { m } else { v };
    x.iter().fold(T::Acc::neg_infinity(), |m, v| larger(m, v.acc()))
}

impl<T: Float> Kernel<Softmax<T>> for Cpu {
    fn compute(&self, op: &Softmax<T>, a: &mut SoftmaxArgs<'_, Host, T>) -> Result<()> {
        let axis = a.x.shape().axis(op.axis)? as isize;
        // Any axis as the last one, through the layout.
        let (lx, ly) = (a.x.layout().transpose(axis, -1)?, a.y.layout().transpose(axis, -1)?);
        let x = Rows::with(&a.x, lx);
        each_under(&mut a.y, ly, 16 * ly.last(), Vec::new, |scratch, i, y| {
            let x = x.get(i, scratch);
            let max = max(x);
            let total = sum(x, |v| (v - max).exp());
            if op.log {
                let log_total = total.ln();
                y.iter_mut().zip(x).for_each(|(y, v)| *y = T::from_acc(v.acc() - max - log_total));
            } else {
                y.iter_mut().zip(x).for_each(|(y, v)| *y = T::from_acc((v.acc() - max).exp() / total));
            }
        });
        Ok(())
    }
}
