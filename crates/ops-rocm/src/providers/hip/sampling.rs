//! Drawing tokens from logits, and random numbers.
use super::{HipOp, Problem};
use ops_core::ops::{Random, Sample};
use ops_core::{Float, Op};
use ops_kernels::{Plan, Refused, sampling};

impl<T: Float> HipOp for Sample<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (logits, counter, ids) = (p.at(0), p.at(1), p.at(2));
        let &[rows, columns] = logits.dims() else { return Err(Refused::Rank(logits.layout.rank())) };
        let masses = self.masses(logits.layout.last());
        let on = sampling::Sample {
            logits: logits.view(),
            counter: counter.view(),
            ids: ids.view(),
            greedy: self.temperature == 0.0,
            top_k: self.top_k.map(|k| k as u64),
            share: self.share(),
            seed: self.seed,
            rate: masses.rate(),
            shift: masses.shift(),
        };
        plan.add(sampling::prepare([rows, columns], &on, p.device())?)
    }
}

impl<T: Float> HipOp for Random<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (y, numbers) = (p.at(0), [self.seed, self.offset]);
        plan.add(sampling::random(self.name(), y.dims(), y.view(), numbers, p.device())?)
    }
}
