//! Feed-forward blocks: dense, and mixtures of experts.
use super::Linear;
use crate::{Activation, Experts, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf, View};

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
    /// A matrix for each expert: `[count, n, k]`, as the two below.
    pub(super) gate: Weight<B::Space>,
    pub(super) up: Weight<B::Space>,
    pub(super) down: Weight<B::Space>,
    pub(super) plan: Experts,
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
    let gate = gate.map(|gate| gate.apply(b, h)).transpose()?;
    down.apply(b, activate(b, activation, gate.as_ref(), &up)?.as_ref())
}

/// `f(gate, up)`
fn activate<T: Float, B: Transformer<T>>(
    b: &B,
    activation: Activation,
    gate: Option<&TensorOf<B, T>>,
    up: &TensorOf<B, T>,
) -> Result<TensorOf<B, T>> {
    Ok(match (activation, gate) {
        (Activation::Swiglu, Some(gate)) => b.swiglu(gate, up)?,
        (Activation::Geglu, Some(gate)) => b.geglu(gate, up)?,
        _ => b.gelu(up)?,
    })
}

impl<B: Backend> Mixture<B> {
    /// Everything is computed on the backend, routing included, so nothing waits for it.
    fn apply<T: Float>(&self, b: &B, activation: Activation, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, dim, router) = (h.dims()[0], h.dims()[1], RouterTopK::of(self.plan.used));
        let router = if self.plan.renormalize { router.renormalize() } else { router };
        let (weights, ids) = b.router_topk(&self.router.apply(b, h)?, None, router)?;
        let h = h.reshape(&[t, 1, dim])?;
        let gate = b.linear_experts(h, &self.gate, &ids, None)?;
        let up = b.linear_experts(h, &self.up, &ids, None)?;
        let f = activate(b, activation, Some(&gate), &up)?;
        let y = b.linear_experts(&f, &self.down, &ids, None)?;
        Ok(b.combine_experts(&y, &weights)?)
    }
}
