//! Feed-forward blocks: dense, and mixtures of experts.
use super::Linear;
use crate::{Activation, Experts, Result};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, Shape, TensorOf, View};

/// The feed-forward block of a layer.
pub(super) enum FeedForward<B: Backend> {
    Dense(Box<Dense<B>>),
    Mixture(Box<Mixture<B>>),
}

/// One block for all tokens.
pub(super) struct Dense<B: Backend> {
    pub(super) gate: Option<Linear<B>>,
    pub(super) up: Linear<B>,
    pub(super) down: Linear<B>,
}

/// A choice of blocks for each token.
pub(super) struct Mixture<B: Backend> {
    pub(super) router: Linear<B>,
    pub(super) experts: Vec<Expert<B>>,
    pub(super) plan: Experts,
}

pub(super) struct Expert<B: Backend> {
    pub(super) gate: Linear<B>,
    pub(super) up: Linear<B>,
    pub(super) down: Linear<B>,
}

impl<B: Backend> FeedForward<B> {
    /// The block applied to `h[t, dim]`.
    pub(super) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        match self {
            FeedForward::Dense(dense) => {
                block(b, activation, dense.gate.as_ref(), (&dense.up, &dense.down), h)
            }
            FeedForward::Mixture(mixture) => mixture.apply(b, activation, h),
        }
    }
}

/// `down(f(gate(h), up(h)))`
fn block<T: Float, B: Transformer<T>>(
    b: &B,
    activation: Activation,
    gate: Option<&Linear<B>>,
    (up, down): (&Linear<B>, &Linear<B>),
    h: Ref<'_, B, T>,
) -> Result<TensorOf<B, T>> {
    let up = up.apply(b, h)?;
    let f = match (activation, gate) {
        (Activation::Swiglu, Some(gate)) => b.swiglu(gate.apply(b, h)?, &up)?,
        (Activation::Geglu, Some(gate)) => b.geglu(gate.apply(b, h)?, &up)?,
        _ => b.gelu(&up)?,
    };
    down.apply(b, f.as_ref())
}

impl<B: Backend> Mixture<B> {
    /// Each expert computes its tokens in one product. Routing is decided on the host, which waits for the router's logits.
    fn apply<T: Float>(&self, b: &B, activation: Activation, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, dim, used) = (h.dims()[0], h.dims()[1], self.plan.used);
        let logits: TensorOf<B, f32> = b.cast(&self.router.apply(b, h)?)?;
        let choices: Vec<Vec<(usize, f32)>> =
            logits.to_vec(b)?.chunks(self.plan.count).map(|row| choose(row, &self.plan)).collect();

        // Results by expert, then brought into the order of tokens and choices.
        let mut results = b.empty(Shape::new(&[t * used, dim])?)?;
        let (mut places, mut done) = (vec![0_u32; t * used], 0);
        for (e, expert) in self.experts.iter().enumerate() {
            let mut rows = Vec::new();
            for (token, chosen) in choices.iter().enumerate() {
                if let Some(j) = chosen.iter().position(|(chosen, _)| *chosen == e) {
                    places[token * used + j] = (done + rows.len()) as u32;
                    rows.push(token as u32);
                }
            }
            if rows.is_empty() {
                continue;
            }
            let ids = b.tensor(&[rows.len()], &rows)?;
            let own = b.index_select(h, &ids, IndexSelect::axis(0))?;
            let y = block(b, activation, Some(&expert.gate), (&expert.up, &expert.down), own.as_ref())?;
            b.copy_into(&y, results.as_mut().narrow(0, done, rows.len())?)?;
            done += rows.len();
        }
        let places = b.tensor(&[t * used], &places)?;
        let results = b.index_select(&results, &places, IndexSelect::axis(0))?;
        let weights: Vec<f32> = choices.iter().flatten().map(|(_, weight)| *weight).collect();
        combine(b, results.as_ref().reshape(&[t, used, dim])?, &weights)
    }
}

/// The experts of a token and their weights: softmax over all, the best ones in falling order, the lower number among equals.
fn choose(logits: &[f32], plan: &Experts) -> Vec<(usize, f32)> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|v| f64::from(v - most).exp()).collect();
    let all: f64 = powers.iter().sum();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|i, j| powers[*j].total_cmp(&powers[*i]));
    order.truncate(plan.used);
    let sum = if plan.renormalize { order.iter().map(|i| powers[*i]).sum() } else { all };
    order.into_iter().map(|i| (i, (powers[i] / sum) as f32)).collect()
}

/// `y[i] = Σ_j weights[i, j] · x[i, j]`, in the order of j.
fn combine<T: Float, B: Transformer<T>>(b: &B, x: Ref<'_, B, T>, weights: &[f32]) -> Result<TensorOf<B, T>> {
    let &[t, used, dim] = x.dims() else { unreachable!("results of choices") };
    let weights = b.tensor(&[t, used, 1], weights)?;
    let weights: TensorOf<B, T> = b.cast(&weights)?;
    let scaled = b.mul(x, weights.as_ref().broadcast(&[t, used, dim])?)?;
    let one = |j: usize| -> Result<_> { Ok(scaled.as_ref().narrow(1, j, 1)?.reshape(&[t, dim])?) };
    let mut sum = b.contiguous(one(0)?)?;
    for j in 1..used {
        sum = b.add(&sum, one(j)?)?;
    }
    Ok(sum)
}
