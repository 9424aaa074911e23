//! Softmax and log-softmax.
use super::{Reference, line, lines, max};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::Softmax;
use ops_core::{Call, Float, Result};

fn softmax(x: Raw<'_>, mut y: RawMut<'_>, axis: usize, log: bool) {
    let (lx, ly) = (x.layout, y.layout);
    for (px, py) in lines(&lx, axis).zip(lines(&ly, axis)) {
        let row = x.gather(line(&lx, axis, px));
        let max = max(&row);
        let sum: f64 = row.iter().map(|v| (v - max).exp()).sum();
        let value = |v: &f64| if log { v - max - sum.ln() } else { (v - max).exp() / sum };
        y.scatter(line(&ly, axis, py), row.iter().map(value));
    }
}

impl<T: Float> Kernel<Softmax<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Softmax<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Raw::of(&a.x);
        softmax(x, RawMut::of(&mut a.y), x.layout.shape().axis(op.axis)?, op.log);
        Ok(())
    }
}
