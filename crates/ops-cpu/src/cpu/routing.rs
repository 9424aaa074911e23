//! Routing of tokens to experts, and the weighted sum of the experts' results.
use super::Cpu;
use super::rows::{for_each_row, for_each_row_pair, row, widened};
use super::vectors::{on_vector, only_f64, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_float};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{CombineExperts, GroupScore, RouterTopK, Scoring, ScoringOrder};
use ops_core::{Call, Float, Result, Scalar};
use ops_simd::{Isa, Store};

/// The options of a call, without the type.
struct Router<'a> {
    k: usize,
    scoring: Scoring,
    before: bool,
    renormalize: bool,
    scale: f64,
    groups: usize,
    kept: usize,
    top2: bool,
    /// Added to scores only to choose experts; empty if there is none.
    bias: &'a [f32],
}

/// The scores of logits, computed in f64 and rounded to f32.
fn score(scoring: Scoring, logits: &[f64]) -> Vec<f32> {
    if scoring == Scoring::Sigmoid {
        return logits.iter().map(|v| (1.0 / (1.0 + (-v).exp())) as f32).collect();
    }
    let highest = logits.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v });
    let powers: Vec<f64> = logits.iter().map(|v| (v - highest).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| (p / total) as f32).collect()
}

/// A sort key: larger values come first, then lower indices. NaN comes first, and zeros of either sign are
/// equal.
fn place(value: f32, at: usize) -> u64 {
    const SIGN: u32 = 1 << 31;
    let bits = if value == 0.0 { 0 } else { value.to_bits() };
    let key = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    let key = if value.is_nan() { u32::MAX } else { key };
    u64::from(!key) << 32 | at as u64
}

/// The first `k` keys in order.
fn first(places: &mut [u64], k: usize) -> &[u64] {
    let k = k.min(places.len());
    if 0 < k && k < places.len() {
        places.select_nth_unstable(k - 1);
    }
    places[..k].sort_unstable();
    &places[..k]
}

fn at(place: u64) -> usize {
    place as u32 as usize
}

impl Router<'_> {
    /// The score of a group of experts.
    fn mark(&self, group: &[f32]) -> f32 {
        let mut places: Vec<u64> = group.iter().enumerate().map(|(i, v)| place(*v, i)).collect();
        match *first(&mut places, 2) {
            [a, b] if self.top2 => group[at(a)] + group[at(b)],
            [a, ..] => group[at(a)],
            [] => 0.0,
        }
    }

    /// The keys of the experts that may be chosen.
    fn candidates(&self, choice: &[f32]) -> Vec<u64> {
        let experts = |range: core::ops::Range<usize>| range.map(|i| place(choice[i], i));
        if self.groups <= 1 {
            let all = if self.kept == 0 { 0 } else { choice.len() };
            return experts(0..all).collect();
        }
        let size = choice.len() / self.groups;
        let marks = choice.chunks(size.max(1)).enumerate();
        let mut marks: Vec<u64> = marks.map(|(g, group)| place(self.mark(group), g)).collect();
        let kept = first(&mut marks, self.kept).iter().map(|mark| at(*mark));
        kept.flat_map(|group| experts(group * size..(group + 1) * size)).collect()
    }

    /// One token.
    fn route(&self, logits: &[f64], weights: &mut [f32], ids: &mut [u32]) {
        let scored = if self.before { score(self.scoring, logits) } else { Vec::new() };
        let value = |i: usize| if self.before { scored[i] } else { logits[i] as f32 };
        let choice = (0..logits.len()).map(|i| value(i) + self.bias.get(i).copied().unwrap_or(0.0));
        let choice: Vec<f32> = choice.collect();
        let mut candidates = self.candidates(&choice);
        for (id, chosen) in ids.iter_mut().zip(first(&mut candidates, self.k)) {
            *id = at(*chosen) as u32;
        }
        let chosen = if self.before {
            ids.iter().map(|id| scored[*id as usize]).collect()
        } else {
            let chosen: Vec<f64> = ids.iter().map(|id| logits[*id as usize]).collect();
            score(self.scoring, &chosen)
        };
        let sum: f64 = chosen.iter().map(|w| f64::from(*w)).sum();
        let by = if self.renormalize { self.scale / (sum + 1e-20) } else { self.scale };
        weights.iter_mut().zip(chosen).for_each(|(w, score)| *w = (f64::from(score) * by) as f32);
    }
}

fn router_topk(router: &Router<'_>, logits: Raw<'_>, weights: RawMut<'_>, ids: RawMut<'_>) -> Result<()> {
    let (dtype, cost) = (logits.dtype, logits.layout.last().saturating_mul(16));
    for_each_row_pair("router_topk", weights, ids, cost, &|[scratch, ..], i, weights, ids| {
        let row = row(&logits, i, scratch);
        let wide: Vec<f64> = on_float!(dtype, T => {
            cast_slice::<u8, T>(row).iter().map(|v| v.to_f64()).collect()
        }, else return Err(unsupported_dtype(dtype)));
        router.route(&wide, cast_slice_mut(weights), cast_slice_mut(ids));
        Ok(())
    })
}

/// `y[i] = Σ_j weights[i, j] · x[i, j]`
pub(super) fn combine_experts(x: Raw<'_>, weights: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (k, d, dtype) = (x.dims()[1], x.layout.last(), x.dtype);
    for_each_row("combine_experts", y, d.saturating_mul(k.max(1)), &|[sx, sw, sums], i, y| {
        let weights = cast_slice::<u8, f32>(row(&weights, i, sw));
        on_vector!(dtype, T => {
            // The sums, and one row in f32.
            let (sums, rest) = cast_slice_mut::<u64, f32>(sums.words(d)).split_at_mut(d);
            sums.fill(0.0);
            for (j, weight) in weights.iter().enumerate() {
                let (x, wide) = (row(&x, i * k + j, sx), &mut rest[..d]);
                ops_simd::cast(Isa::best(), cast_slice::<u8, T>(x), wide, Store::Cached)?;
                sums.iter_mut().zip(wide).for_each(|(sum, x)| *sum += weight * *x);
            }
            Ok(ops_simd::cast(Isa::best(), sums, cast_slice_mut::<u8, T>(y), Store::Cached)?)
        }, else {
            only_f64(dtype)?;
            let y = cast_slice_mut::<u8, f64>(y);
            y.fill(0.0);
            for (j, weight) in weights.iter().enumerate() {
                let x = cast_slice::<u8, f64>(row(&x, i * k + j, sx));
                y.iter_mut().zip(x).for_each(|(y, x)| *y += f64::from(*weight) * x);
            }
            Ok(())
        })
    })
}

impl<T: Float> Kernel<RouterTopK<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RouterTopK<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let bias = Raw::any_if(&a.bias).map(|b| widened(&b)).transpose()?;
        let router = Router {
            k: op.k,
            scoring: op.scoring,
            before: op.order == ScoringOrder::Before,
            renormalize: op.renormalize,
            scale: op.scale,
            groups: op.groups,
            kept: op.groups_kept,
            top2: op.group_score == GroupScore::Top2,
            bias: bias.as_deref().unwrap_or(&[]),
        };
        router_topk(&router, Raw::of(&a.logits), RawMut::of(&mut a.weights), RawMut::of(&mut a.ids))
    }
}
impl<T: Float> Kernel<CombineExperts<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, CombineExperts<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        combine_experts(Raw::of(&a.x), Raw::of(&a.weights), RawMut::of(&mut a.y))
    }
}
