//! Feed-forward blocks: dense, and mixtures of experts.
use super::{Linear, Normed, Output, Summed};
use crate::{Activation, Experts, Result, Share};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{AnyRef, Backend, Float, Ref, TensorOf};

/// A single block for all tokens.
pub(crate) struct Dense<B: Backend> {
    pub(crate) gate: Option<Linear<B>>,
    pub(crate) up: Linear<B>,
    pub(crate) down: Summed<B>,
}

/// The weights and ids of each row's experts, `[t, used]`.
type Chosen<B> = (TensorOf<B, f32>, TensorOf<B, u32>);

/// A choice of blocks for each token.
pub(crate) struct Mixture<B: Backend> {
    pub(crate) router: Linear<B>,
    /// Added to scores only to choose experts.
    pub(crate) choice_bias: Option<TensorOf<B, f32>>,
    pub(crate) gate: Matrices<B>,
    pub(crate) up: Matrices<B>,
    pub(crate) down: Matrices<B>,
    /// The block that computes every token, and the projection to the gate of its result.
    pub(crate) shared: Option<(Dense<B>, Option<Linear<B>>)>,
    pub(crate) plan: Experts,
    /// The number of each expert among those of this rank, or the largest number, which means none.
    pub(crate) numbers: Option<TensorOf<B, u32>>,
    pub(crate) share: Share<B::Space>,
}

/// One matrix per expert, `[count, n, k]`, and their biases, `[count, n]`.
pub(crate) struct Matrices<B: Backend> {
    pub(crate) weight: Weight<B::Space>,
    pub(crate) bias: Option<TensorOf<B, f32>>,
}

impl<B: Backend> Matrices<B> {
    fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>, ids: &TensorOf<B, u32>) -> Result<TensorOf<B, T>>
    where
        B: ExpertOps<T>,
    {
        Ok(b.linear_experts(x, &self.weight, ids, self.bias())?)
    }

    fn bias(&self) -> Option<AnyRef<'_, B::Space>> {
        self.bias.as_ref().map(|bias| bias.any())
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
        self.down.apply(b, self.activated(b, activation, h)?.as_ref())
    }

    /// The same for the stream, added to `onto` if one kernel computes both.
    pub(crate) fn apply_onto<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        input: &Normed<'_, T, B>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>>
    where
        B: Transformer<T>,
    {
        let fused = match (activation, &self.gate) {
            (Activation::Swiglu, Some(gate)) => input.swiglu(b, gate, &self.up)?,
            _ => None,
        };
        let f = fused.map_or_else(|| self.activated(b, activation, input.h(b)?), Ok)?;
        self.down.apply_onto(b, f.as_ref(), onto)
    }

    /// `f(gate(h), up(h))`
    fn activated<T: Float>(&self, b: &B, activation: Activation, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
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
            return Ok(b.linear_swiglu(h, gate, up)?);
        }
        let up = self.up.apply(b, h)?;
        let gate = self.gate.as_ref().map(|gate| gate.apply(b, h)).transpose()?;
        activate(b, activation, gate.as_ref(), &up)
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
        (Activation::GegluSparse { deviations }, Some(gate)) => {
            b.geglu(&largest(b, gate, deviations)?, up)?
        }
        (Activation::GegluErf, Some(gate)) => b.mul(&b.gelu_erf(gate)?, up)?,
        (Activation::SwigluClamped { alpha, limit }, Some(gate)) => {
            b.swiglu_clamped(gate, up, SwigluClamped::new(alpha, limit))?
        }
        (Activation::GeluErf, _) => b.gelu_erf(up)?,
        (Activation::Relu, _) => b.relu(up)?,
        _ => b.gelu(up)?,
    })
}

/// What each gate of a row exceeds their mean by, less this many standard deviations; 0 if it does not.
fn largest<T: Float, B: Transformer<T>>(
    b: &B,
    gate: &TensorOf<B, T>,
    deviations: f64,
) -> Result<TensorOf<B, T>> {
    let gate = b.cast::<f32>(gate)?;
    let of_row = Axes::from(-1).keep_dims();
    let off = b.sub(&gate, &b.mean(&gate, of_row)?)?;
    let deviation = b.sqrt(&b.mean(&b.sqr(&off)?, of_row)?)?;
    let least = b.affine(&deviation, deviations, 0.0)?;
    Ok(b.cast::<T>(&b.relu(&b.sub(&off, &least)?)?)?)
}

impl<B: Backend> Mixture<B> {
    /// Computes everything on the backend, including routing, so nothing has to wait.
    pub(crate) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
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
    pub(crate) fn choose<T: Float>(&self, b: &B, u: Ref<'_, B, T>) -> Result<Chosen<B>>
    where
        B: Transformer<T>,
    {
        let bias = self.choice_bias.as_ref().map(|bias| bias.any());
        Ok(b.router_topk(&self.router.apply(b, u)?, bias, self.plan.router())?)
    }

    /// The sum of the chosen experts' results for `h[t, dim]`.
    pub(crate) fn combined<T: Float>(
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
        let own;
        let ids = match &self.numbers {
            Some(numbers) => {
                let all = ids.as_ref().reshape(&[ids.layout().len()])?;
                own = b.index_select(numbers, all, IndexSelect::axis(0))?.reshape(ids.dims())?;
                &own
            }
            None => ids,
        };
        let f = self.activated(b, activation, row, ids)?;
        if self.share.in_order() {
            let mut y = self.down.apply(b, f.as_ref(), ids)?;
            // Only one rank has another number than 0, so this sum is exact, and the next one is that of a single rank.
            self.share.all_reduce(&mut y)?;
            return Ok(b.combine_experts(&y, weights)?);
        }
        let mut y = if b.fuses_linear_experts_combine(&f, &self.down.weight, ids, weights) {
            b.linear_experts_combine(&f, &self.down.weight, ids, self.down.bias(), weights)?
        } else {
            b.combine_experts(&self.down.apply(b, f.as_ref(), ids)?, weights)?
        };
        self.share.all_reduce(&mut y)?;
        Ok(y)
    }

    /// `f(gate(row), up(row))` of each row's experts.
    fn activated<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        row: Ref<'_, B, T>,
        ids: &TensorOf<B, u32>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let fused = match activation {
            Activation::Swiglu => Some(LinearExpertsSwiglu::plain()),
            Activation::SwigluClamped { alpha, limit } => {
                Some(LinearExpertsSwiglu::plain().clamped(alpha, limit))
            }
            _ => None,
        };
        let (gate, up) = (&self.gate, &self.up);
        if let Some(op) = fused
            && b.fuses_linear_experts_swiglu(&row, &gate.weight, &up.weight, ids)
        {
            let biases = (gate.bias(), up.bias());
            return Ok(b.linear_experts_swiglu(
                row,
                &gate.weight,
                &up.weight,
                ids,
                biases.0,
                biases.1,
                op,
            )?);
        }
        let (gate, up) = (gate.apply(b, row.shorten(), ids)?, up.apply(b, row, ids)?);
        activate(b, activation, Some(&gate), &up)
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
