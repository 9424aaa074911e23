//! Drawing tokens from logits, and random numbers.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Random, Sample};
use ops_core::{Call, Float, Result, Wide};

/// Ids in descending order of logits, the lower id first among equals. NaN comes first.
fn falling(logits: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    let lower = |a: f64, b: f64| b.partial_cmp(&a).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()));
    // `sort_by` is stable.
    order.sort_by(|i, j| lower(logits[*i], logits[*j]));
    order
}

/// The length of the shortest prefix of these masses that sums to more than `bound`.
fn prefix(masses: &[u64], bound: u64) -> usize {
    let mut sum = 0;
    let within = |mass: &&u64| {
        sum += **mass;
        sum <= bound
    };
    masses.iter().take_while(within).count() + 1
}

/// One row.
fn draw(op: &Sample<f32>, logits: &[f64], counter: i64) -> usize {
    let mut order = falling(logits);
    let largest = logits[order[0]];
    if op.temperature == 0.0 || largest.is_nan() || largest == f64::NEG_INFINITY {
        return order[0];
    }
    order.truncate(op.top_k.unwrap_or(order.len()));
    let masses = op.masses(logits.len());
    // The difference of equal infinities is NaN.
    let below = |logit: f64| if logit == largest { 0.0 } else { (largest - logit) as f32 };
    let mut kept: Vec<u64> = order.iter().map(|i| masses.of(below(logits[*i]))).collect();
    let needed = op.needed(kept.iter().sum());
    kept.truncate(prefix(&kept, needed - 1));
    order[prefix(&kept, op.target(counter, kept.iter().sum())) - 1]
}

impl<T: Float> Kernel<Sample<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Sample<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (logits, counter) = (Raw::of(&a.logits), Raw::of(&a.counter));
        let (op, mut ids) = (op.of_type(), RawMut::of(&mut a.ids));
        let places = counter.layout.positions().zip(ids.layout.positions());
        for (i, (from, to)) in places.enumerate() {
            let row = logits.gather(logits.layout.narrow(0, i, 1)?.positions());
            let id = draw(&op, &row, counter.slice::<i64>()[from]);
            ids.set_wide(to, Wide::Int(id as i64));
        }
        Ok(())
    }
}

impl<T: Float> Kernel<Random<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Random<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let mut y = RawMut::of(&mut a.y);
        for (i, p) in (0..).zip(y.layout.positions()) {
            let per = Random::<T>::PER_BLOCK;
            y.set(p, op.block(i / per)[(i % per) as usize]);
        }
        Ok(())
    }
}
