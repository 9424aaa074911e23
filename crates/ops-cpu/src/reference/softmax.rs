//! Softmax and its logarithm.
use super::{Reference, gather, line, lines, scatter};
use crate::{Host, Kernel};
use ops_core::ops::{Softmax, SoftmaxArgs};
use ops_core::{Float, Result, View};

impl<T: Float> Kernel<Softmax<T>> for Reference {
    fn compute(&self, op: &Softmax<T>, a: &mut SoftmaxArgs<'_, Host, T>) -> Result<()> {
        let (lx, ly) = (*a.x.layout(), *a.y.layout());
        let axis = lx.shape().axis(op.axis)?;
        for (x, y) in lines(&lx, axis).zip(lines(&ly, axis)) {
            let row = gather(&a.x, line(&lx, axis, x));
            let max = row.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v });
            let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
            let value = |v: &f64| if op.log { v - max - sum.ln() } else { (v - max).exp() / sum };
            scatter(&mut a.y, line(&ly, axis, y), row.iter().map(value));
        }
        Ok(())
    }
}
