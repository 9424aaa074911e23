//! Routing of tokens to experts, and the sums of their results.
use super::double::Double;
use super::{Values, Wants, dot, exactly, functions, integers, optional, values, want};
use crate::{CallError, Case};
use ops_core::DType;
use ops_core::ops::registry::Refused;
use ops_core::ops::{CombineExperts, RouterTopK};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["router_topk", "combine_experts"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "router_topk" { router(case) } else { combine(case) }
}

/// The options of a router.
struct Options {
    k: usize,
    sigmoid: bool,
    after: bool,
    renormalize: bool,
    scale: f64,
    groups: usize,
    kept: usize,
    max: bool,
}

impl Options {
    fn of(case: &Case) -> Result<Self, CallError> {
        let p = &case.params;
        let is = |name: &str, word: &str| {
            Ok::<bool, CallError>(p.word(name, |w| Some(w == word))?.unwrap_or(false))
        };
        Ok(Options {
            k: p.count("k")?.ok_or(Refused::Missing("k"))?,
            sigmoid: is("scoring", "sigmoid")?,
            after: is("order", "after")?,
            renormalize: p.flag("renormalize")?.unwrap_or(false),
            scale: p.number("scale")?.unwrap_or(1.0),
            groups: p.count("groups")?.unwrap_or(1),
            kept: p.count("groups_kept")?.unwrap_or(1),
            max: is("group_score", "max")?,
        })
    }

    /// The scores of these logits.
    fn scores(&self, logits: &[f64]) -> Vec<Double> {
        if self.sigmoid {
            let one = functions::unary("sigmoid").unwrap_or(|x| x);
            return logits.iter().map(|v| one(Double::of(*v))).collect();
        }
        let highest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<Double> =
            logits.iter().map(|v| (Double::of(*v) - Double::of(highest)).exp()).collect();
        let total = Double::total(powers.iter().copied());
        powers.into_iter().map(|p| p / total).collect()
    }

    /// The indices of the `k` largest values, by repeated search; the first among equals.
    fn largest(values: &[f32], among: &[usize], k: usize) -> Vec<usize> {
        let mut left = among.to_vec();
        let mut chosen = Vec::new();
        while chosen.len() < k && !left.is_empty() {
            let better =
                |best: usize, at: usize| if values[left[at]] > values[left[best]] { at } else { best };
            let best = (1..left.len()).fold(0, better);
            chosen.push(left.remove(best));
        }
        chosen
    }

    /// The ids and weights of one token. The suite does not use NaN logits here: their ids are undefined.
    fn route(&self, logits: &[f64], bias: Option<&Values>) -> (Vec<usize>, Vec<Double>) {
        let e = logits.len();
        let scores = if self.after { Vec::new() } else { self.scores(logits) };
        let value = |i: usize| if self.after { logits[i] as f32 } else { scores[i].nearest() as f32 };
        let choice: Vec<f32> = (0..e).map(|i| value(i) + bias.map_or(0.0, |b| b.of[i] as f32)).collect();
        let all: Vec<usize> = (0..e).collect();
        let size = e / self.groups;
        let mark = |g: usize| {
            let group = &all[g * size..(g + 1) * size];
            let best = Self::largest(&choice, group, if self.max { 1 } else { 2 });
            best.iter().map(|i| choice[*i]).sum::<f32>()
        };
        let marks: Vec<f32> = (0..self.groups).map(mark).collect();
        let kept = Self::largest(&marks, &(0..self.groups).collect::<Vec<_>>(), self.kept);
        let among: Vec<usize> = all.iter().copied().filter(|i| kept.contains(&(i / size.max(1)))).collect();
        let ids = Self::largest(&choice, &among, self.k);
        let mut weights: Vec<Double> = if self.after {
            self.scores(&ids.iter().map(|i| logits[*i]).collect::<Vec<_>>())
        } else {
            ids.iter().map(|i| scores[*i]).collect()
        };
        if self.renormalize {
            let sum = Double::total(weights.iter().copied()) + Double::of(1e-20);
            weights.iter_mut().for_each(|w| *w = *w / sum);
        }
        weights.iter_mut().for_each(|w| *w = *w * Double::of(self.scale));
        (ids, weights)
    }
}

fn router(case: &Case) -> Wants {
    let (options, logits, bias) = (Options::of(case)?, values(case, "logits")?, optional(case, "bias")?);
    let (mut weights, mut ids) = (Vec::new(), Vec::new());
    let e = logits.dims.last().copied().unwrap_or(0);
    for row in logits.of.chunks(e.max(1)) {
        let (chosen, weight) = options.route(row, bias.as_ref());
        ids.extend(chosen.into_iter().map(|i| i as i64));
        weights.extend(weight);
    }
    let weights = want(case, &RouterTopK::<f64>::of(options.k), "weights", &weights)?;
    Ok(vec![weights, exactly("ids", integers::array(DType::U32, &ids)?)])
}

fn combine(case: &Case) -> Wants {
    let (x, weights) = (values(case, "x")?, values(case, "weights")?);
    let &[n, k, d] = x.dims.as_slice() else { unreachable!("rows of choices of tokens") };
    let mut y = Vec::new();
    for (i, l) in (0..n).flat_map(|i| (0..d).map(move |l| (i, l))) {
        y.push(dot(DType::F64, (0..k).map(|j| (weights.of[i * k + j], x.of[(i * k + j) * d + l]))));
    }
    Ok(vec![want(case, &CombineExperts::<f64>::OP, "y", &y)?])
}
