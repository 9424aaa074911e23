//! Routing of tokens to experts, and the sums of their results.
use super::{Reference, max};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{CombineExperts, GroupScore, RouterTopK, Scoring, ScoringOrder, UnaryFn};
use ops_core::{Call, Float, Result};

/// The scores of logits, each rounded to f32.
fn scores(scoring: Scoring, logits: &[f64]) -> Vec<f64> {
    let highest = max(logits);
    let total: f64 = logits.iter().map(|v| (v - highest).exp()).sum();
    let score = |v: &f64| match scoring {
        Scoring::Softmax => (v - highest).exp() / total,
        _ => UnaryFn::Sigmoid.at(*v),
    };
    logits.iter().map(|v| f64::from(score(v) as f32)).collect()
}

/// The indices of values in descending order; the lower index first among equals. NaN comes first.
fn falling(values: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let lower = |a: f32, b: f32| b.partial_cmp(&a).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()));
    // `sort_by` is stable.
    order.sort_by(|i, j| lower(values[*i], values[*j]));
    order
}

/// Which experts remain after the choice of groups.
fn left<T>(op: &RouterTopK<T>, choice: &[f32]) -> Vec<bool> {
    let per_group = (choice.len() / op.groups).max(1);
    let mark = |group: &[f32]| {
        let best: Vec<f32> = falling(group).iter().map(|i| group[*i]).collect();
        match (op.group_score, best.get(1)) {
            (GroupScore::Top2, Some(second)) => best[0] + second,
            _ => best[0],
        }
    };
    let marks: Vec<f32> = choice.chunks(per_group).map(mark).collect();
    let kept = &falling(&marks)[..op.groups_kept.min(marks.len())];
    (0..choice.len()).map(|i| kept.contains(&(i / per_group))).collect()
}

/// The ids and weights of one token.
fn route<T>(op: &RouterTopK<T>, logits: &[f64], bias: Option<&[f64]>) -> (Vec<usize>, Vec<f64>) {
    let before = op.order == ScoringOrder::Before;
    let scored = if before { scores(op.scoring, logits) } else { logits.to_vec() };
    let biased = |(i, v): (usize, &f64)| bias.map_or(*v as f32, |b| *v as f32 + b[i] as f32);
    let choice: Vec<f32> = scored.iter().enumerate().map(biased).collect();
    let left = left(op, &choice);
    let ids: Vec<usize> = falling(&choice).into_iter().filter(|i| left[*i]).take(op.k).collect();
    let chosen: Vec<f64> = ids.iter().map(|i| scored[*i]).collect();
    let mut weights = if before { chosen } else { scores(op.scoring, &chosen) };
    if op.renormalize {
        let sum = weights.iter().sum::<f64>() + 1e-20;
        weights.iter_mut().for_each(|w| *w /= sum);
    }
    weights.iter_mut().for_each(|w| *w *= op.scale);
    (ids, weights)
}

fn router_topk<T>(
    op: &RouterTopK<T>,
    logits: Raw<'_>,
    bias: Option<Raw<'_>>,
    mut weights: RawMut<'_>,
    mut ids: RawMut<'_>,
) -> Result<()> {
    let bias = bias.map(|b| b.values());
    for i in 0..logits.dims()[0] {
        let row = logits.gather(logits.layout.narrow(0, i, 1)?.positions());
        let (chosen, weight) = route(op, &row, bias.as_deref());
        weights.scatter(weights.layout.narrow(0, i, 1)?.positions(), weight);
        ids.scatter(ids.layout.narrow(0, i, 1)?.positions(), chosen.iter().map(|i| *i as f64));
    }
    Ok(())
}

fn combine_experts(x: Raw<'_>, weights: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let [n, k, d] = [x.dims()[0], x.dims()[1], x.dims()[2]];
    for i in 0..n {
        let rows = x.gather(x.layout.narrow(0, i, 1)?.positions());
        let weights = weights.gather(weights.layout.narrow(0, i, 1)?.positions());
        let sum = |l: usize| (0..k).map(|j| weights[j] * rows[j * d + l]).sum::<f64>();
        y.scatter(y.layout.narrow(0, i, 1)?.positions(), (0..d).map(sum));
    }
    Ok(())
}

impl<T: Float> Kernel<RouterTopK<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RouterTopK<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (weights, ids) = (RawMut::of(&mut a.weights), RawMut::of(&mut a.ids));
        router_topk(op, Raw::of(&a.logits), Raw::any_if(&a.bias), weights, ids)
    }
}
impl<T: Float> Kernel<CombineExperts<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, CombineExperts<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        combine_experts(Raw::of(&a.x), Raw::of(&a.weights), RawMut::of(&mut a.y))
    }
}
