//! Feed-forward blocks: dense, and mixtures of experts.
use super::{Linear, Norm};
use crate::{Activation, Experts, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf, View};

/// The feed-forward block of a layer.
pub(super) enum FeedForward<B: Backend> {
    Dense(Box<Dense<B>>),
    Mixture(Box<Mixture<B>>),
    Beside(Box<Beside<B>>),
}

/// A dense block and experts side by side, each with its norms: the experts and their router read the residual stream.
pub(super) struct Beside<B: Backend> {
    pub(super) dense: Dense<B>,
    pub(super) dense_norm: Norm<B>,
    pub(super) router_norm: Norm<B>,
    pub(super) pre_norm: Norm<B>,
    pub(super) mixture: Mixture<B>,
    /// Factors on the weights of the experts.
    pub(super) expert_scales: TensorOf<B, f32>,
    pub(super) mixture_norm: Norm<B>,
}

/// A single block for all tokens.
pub(crate) struct Dense<B: Backend> {
    pub(crate) gate: Option<Linear<B>>,
    pub(crate) up: Linear<B>,
    pub(crate) down: Linear<B>,
}

/// The weights and ids of each row's experts, `[t, used]`.
type Chosen<B> = (TensorOf<B, f32>, TensorOf<B, u32>);

/// A choice of blocks for each token.
pub(super) struct Mixture<B: Backend> {
    pub(super) router: Linear<B>,
    /// Added to scores only to choose experts.
    pub(super) choice_bias: Option<TensorOf<B, f32>>,
    pub(super) gate: Matrices<B>,
    pub(super) up: Matrices<B>,
    pub(super) down: Matrices<B>,
    /// The block that computes every token, and the projection to the gate of its result.
    pub(super) shared: Option<(Dense<B>, Option<Linear<B>>)>,
    pub(super) plan: Experts,
}

/// One matrix per expert, `[count, n, k]`, and their biases, `[count, n]`.
pub(super) struct Matrices<B: Backend> {
    pub(super) weight: Weight<B::Space>,
    pub(super) bias: Option<TensorOf<B, f32>>,
}

impl<B: Backend> Matrices<B> {
    fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>, ids: &TensorOf<B, u32>) -> Result<TensorOf<B, T>>
    where
        B: ExpertOps<T>,
    {
        Ok(b.linear_experts(x, &self.weight, ids, self.bias.as_ref().map(|bias| bias.any()))?)
    }
}

impl<B: Backend> FeedForward<B> {
    /// The block applied to `h[t, dim]`, which is normed from `x`.
    pub(super) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        match self {
            FeedForward::Dense(dense) => dense.apply(b, activation, h),
            FeedForward::Mixture(mixture) => mixture.apply(b, activation, h),
            FeedForward::Beside(both) => both.apply(b, activation, h, x),
        }
    }
}

impl<B: Backend> Dense<B> {
    /// `down(f(gate(h), up(h)))`
    pub(crate) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        if let (
            Activation::Swiglu,
            Some(Linear { weight: gate, bias: None }),
            Linear { weight: up, bias: None },
        ) = (activation, &self.gate, &self.up)
            && b.fuses_linear_swiglu(h, gate, up)
        {
            return self.down.apply(b, b.linear_swiglu(h, gate, up)?.as_ref());
        }
        let up = self.up.apply(b, h)?;
        let gate = self.gate.as_ref().map(|gate| gate.apply(b, h)).transpose()?;
        self.down.apply(b, activate(b, activation, gate.as_ref(), &up)?.as_ref())
    }
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
        (Activation::GegluErf, Some(gate)) => b.mul(&b.gelu_erf(gate)?, up)?,
        (Activation::SwigluClamped { alpha, limit }, Some(gate)) => {
            b.swiglu_clamped(gate, up, SwigluClamped::new(alpha, limit))?
        }
        (Activation::GeluErf, _) => b.gelu_erf(up)?,
        (Activation::Relu, _) => b.relu(up)?,
        _ => b.gelu(up)?,
    })
}

impl<B: Backend> Mixture<B> {
    /// Computes everything on the backend, including routing, so nothing has to wait.
    fn apply<T: Float>(&self, b: &B, activation: Activation, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let chosen = self.choose(b, h)?;
        let y = self.combined(b, activation, h, &chosen)?;
        let Some((shared, gate)) = &self.shared else { return Ok(y) };
        let mut all = shared.apply(b, activation, h)?;
        if let Some(gate) = gate {
            all = b.mul(&all, &b.sigmoid(&gate.apply(b, h)?)?)?;
        }
        Ok(b.add(&y, &all)?)
    }

    /// The weights and ids of the experts of each row, by the router's view `u` of it.
    fn choose<T: Float>(&self, b: &B, u: Ref<'_, B, T>) -> Result<Chosen<B>>
    where
        B: Transformer<T>,
    {
        let bias = self.choice_bias.as_ref().map(|bias| bias.any());
        Ok(b.router_topk(&self.router.apply(b, u)?, bias, self.plan.router())?)
    }

    /// The sum of the chosen experts' results for `h[t, dim]`.
    fn combined<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
        (weights, ids): &Chosen<B>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let row = h.reshape(&[h.dims()[0], 1, h.dims()[1]])?;
        let (gate, up) = (self.gate.apply(b, row, ids)?, self.up.apply(b, row, ids)?);
        let f = activate(b, activation, Some(&gate), &up)?;
        Ok(b.combine_experts(&self.down.apply(b, f.as_ref(), ids)?, weights)?)
    }
}

impl<B: Backend> Beside<B> {
    fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let dense = self.dense_norm.apply(b, self.dense.apply(b, activation, h)?.as_ref())?;
        let (weights, ids) = self.mixture.choose(b, self.router_norm.apply(b, x)?.as_ref())?;
        let scales = IndexOps::<f32>::index_select(
            b,
            &self.expert_scales,
            ids.as_ref().reshape(&[weights.layout().len()])?,
            IndexSelect::axis(0),
        )?;
        let weights = b.mul(&weights, &scales.reshape(weights.dims())?)?;
        let own = self.pre_norm.apply(b, x)?;
        let experts = self.mixture.combined(b, activation, own.as_ref(), &(weights, ids))?;
        Ok(b.add(&dense, &self.mixture_norm.apply(b, experts.as_ref())?)?)
    }
}

impl Experts {
    fn router<T>(&self) -> RouterTopK<T> {
        let mut op = RouterTopK::of(self.used).scoring(self.scoring).scale(self.scale);
        op = op.groups(self.groups.0, self.groups.1).group_score(self.group_score);
        (op.order, op.renormalize) = (self.order, self.renormalize);
        op
    }
}
