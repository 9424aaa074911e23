//! Linear attention: a short convolution over time, then the gated delta rule.
use super::load::{Loader, Part};
use crate::config::KeyHeads;
use crate::pieces::{Linear, Normed, Output, Projected, Summed};
use crate::{Recurrent as Plan, Result};
use ops_core::model::{Memories, MemoriesOfPart, Transformer};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, Shape, Space, Tensor, TensorOf, TensorRef};
use std::ops::Range;

/// The `eps` of the norms of queries and keys; files have no key for it.
const HEAD_EPS: f64 = 1e-6;

/// The matrices of linear attention.
pub(super) struct Recurrent<T: Float, B: Backend> {
    /// Four projections of the input. Adjacent ones of one weight type are joined into one product:
    /// - the queries, keys and values of all heads, in this order;
    /// - the gate of the result;
    /// - `decay`: each step multiplies a head's state by `exp(rate · softplus(decay + bias))`;
    /// - `beta`: its sigmoid is the fraction of the new value that a head's state takes up.
    projections: Vec<Linear<B>>,
    decay_bias: TensorOf<B, f32>,
    decay_rate: TensorOf<B, f32>,
    /// `[2 · keys + values, window]`: channels are queries, then keys, then values.
    convolution: TensorOf<B, T>,
    norm: TensorOf<B, f32>,
    norm_eps: f64,
    output: Summed<B>,
    plan: Plan,
}

/// What a recurrent layer remembers of one text, or of each of several.
pub(super) struct Memory<S: Space, T: Float> {
    /// The last inputs of the convolution, `[texts, 2 · keys + values, window − 1]`.
    inputs: Tensor<S, T>,
    /// The heads' matrices from keys to values, `[texts, value_heads, key_dim, value_dim]`.
    heads: Tensor<S, f32>,
    /// Whether the tensors still hold a text that was cleared.
    is_stale: bool,
}

/// What a recurrent layer remembers of the texts of a step.
pub(super) struct Remembered<'m, S: Space, T: Float> {
    pub(super) memories: Vec<&'m mut Memory<S, T>>,
    /// All texts in order, and which of the memories has them.
    pub(super) parts: Vec<(usize, MemoriesOfPart<'m, S>)>,
}

impl<S: Space, T: Float> Memory<S, T> {
    /// The memory of texts without tokens.
    pub(super) fn new<B: Backend<Space = S>>(
        backend: &B,
        plan: &Plan,
        texts: usize,
    ) -> ops_core::Result<Self> {
        let (keys, values) = plan.widths();
        Ok(Memory {
            inputs: backend.zeros(&[texts, 2 * keys + values, plan.window - 1])?,
            heads: backend.zeros(&[texts, plan.value_heads, plan.key_dim, plan.value_dim])?,
            is_stale: false,
        })
    }
    /// The extents of the inputs and of the heads' matrices.
    pub(super) fn dims(&self) -> ([usize; 4], [usize; 4]) {
        let of = |dims: &[usize]| std::array::from_fn(|axis| dims.get(axis).copied().unwrap_or(1));
        (of(self.inputs.dims()), of(self.heads.dims()))
    }
    /// Clears the texts with these indices among several.
    pub(super) fn clear_texts<B>(&mut self, b: &B, ids: TensorRef<'_, S, u32>) -> ops_core::Result<()>
    where
        B: Transformer<T> + Backend<Space = S>,
    {
        Memories::clear(b, ids, &mut self.inputs)?;
        Memories::clear(b, ids, &mut self.heads)
    }
    /// The elements of the inputs and of the heads' matrices: zeros of a text that was cleared.
    pub(super) fn contents<B: Backend<Space = S>>(&self, backend: &B) -> Result<(Vec<T>, Vec<f32>)> {
        if self.is_stale {
            return Ok((vec![T::zeroed(); self.inputs.layout().len()], vec![0.0; self.heads.layout().len()]));
        }
        Ok((self.inputs.to_vec(backend)?, self.heads.to_vec(backend)?))
    }
    /// A copy.
    pub(super) fn fork<B: Transformer<T> + Backend<Space = S>>(&self, backend: &B) -> Result<Self> {
        if self.is_stale {
            let zeros = (backend.zeros(self.inputs.dims())?, backend.zeros(self.heads.dims())?);
            return Ok(Memory { inputs: zeros.0, heads: zeros.1, is_stale: false });
        }
        Ok(Memory {
            inputs: backend.cast::<T>(&self.inputs)?,
            heads: backend.cast::<f32>(&self.heads)?,
            is_stale: false,
        })
    }
    /// A memory of the same extents with these elements.
    pub(super) fn holding<B: Backend<Space = S>>(
        &self,
        backend: &B,
        inputs: &[T],
        heads: &[f32],
    ) -> Result<Self> {
        Ok(Memory {
            inputs: backend.tensor(self.inputs.dims(), inputs)?,
            heads: backend.tensor(self.heads.dims(), heads)?,
            is_stale: false,
        })
    }
    /// Clears the text. The next step, which has a backend, does the work.
    pub(super) fn clear(&mut self) {
        self.is_stale = true;
    }
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(super) fn recurrent(&self, i: usize, plan: &Plan) -> Result<Recurrent<T, B>> {
        let dim = self.config.dim;
        let &Plan { key_heads, value_heads, value_dim, window, .. } = plan;
        let part = |name: &str| format!("blk.{i}.{name}");
        let ((keys, values), cut) = (plan.widths(), self.recurrent_heads());
        let own = KeyHeads { plan, heads: cut.own.clone(), is_whole: self.share.is_whole() };
        // A key head's part includes all its value heads.
        let served = value_heads / key_heads;
        let of_heads = |from: usize| {
            let heads = own.heads.clone();
            heads
                .map(move |head| (2 * head + from) * served..(2 * head + from + 1) * served)
                .collect::<Vec<_>>()
        };
        let both = part("ssm_ba");
        let each = own.values(&own.heads, 1);
        let [decay, beta] = match self.has(&format!("{both}.weight")) {
            true => [1, 0].map(|from| (both.clone(), 2 * value_heads, of_heads(from))),
            false => ["ssm_alpha", "ssm_beta"].map(|alone| (part(alone), value_heads, each.clone())),
        };
        let [mixed, gate] = self.mixed_and_gate(i, &own);
        let results = cut.times(served * value_dim);
        // This rank's value heads are ordered by key head.
        let columns = |range: Range<usize>| {
            own.values(&(range.start / (served * value_dim)..range.end / (served * value_dim)), value_dim)
        };
        Ok(Recurrent {
            projections: self.stacked(&[mixed, gate, decay, beta])?,
            decay_bias: self.vector_groups(&part("ssm_dt.bias"), value_heads, &each)?,
            decay_rate: self.vector_groups(&part("ssm_a"), value_heads, &each)?,
            convolution: self.rows_in_t(
                &part("ssm_conv1d.weight"),
                [2 * keys + values, window],
                &own.mixed(),
            )?,
            norm: self.vector(&part("ssm_norm.weight"), value_dim)?,
            norm_eps: self.config.norm_eps,
            output: self.summed(&part("ssm_out"), [dim, values], &results, columns)?,
            plan: Plan {
                key_heads: own.heads.len(),
                value_heads: own.heads.len() * served,
                tiled: plan.tiled && own.is_whole,
                ..plan.clone()
            },
        })
    }

    /// Projections to queries, keys and values, and to the gate: two matrices, or in older files one with
    /// these parts for each key head.
    fn mixed_and_gate(&self, i: usize, own: &KeyHeads<'_>) -> [Part; 2] {
        let (keys, values) = own.plan.widths();
        let part = |name: &str| format!("blk.{i}.{name}");
        let one = part("ssm_in");
        if !self.has(&format!("{one}.weight")) {
            let gates = own.values(&own.heads, own.plan.value_dim);
            return [(part("attn_qkv"), 2 * keys + values, own.mixed()), (part("attn_gate"), values, gates)];
        }
        let (key, value) = (own.plan.key_dim, values / own.plan.key_heads);
        let of_heads = |from: usize, len: usize| {
            own.heads.clone().map(move |head| {
                let start = head * 2 * (key + value) + from;
                start..start + len
            })
        };
        let mixed: Vec<Range<usize>> =
            of_heads(0, key).chain(of_heads(key, key)).chain(of_heads(2 * key, value)).collect();
        let gate: Vec<Range<usize>> = of_heads(2 * key + value, value).collect();
        [mixed, gate].map(|groups| (one.clone(), 2 * (keys + values), groups))
    }
}

impl<T: Float, B: Transformer<T>> Recurrent<T, B> {
    /// Linear attention of the stream `[t, dim]`, added to `onto` if one kernel computes both; the rows of each text are consecutive, and
    /// each text has its own memory.
    pub(super) fn apply(
        &self,
        b: &B,
        past: &mut Remembered<'_, B::Space, T>,
        input: &Normed<'_, T, B>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>> {
        let &Plan { value_heads, key_dim, value_dim, .. } = &self.plan;
        let (t, (keys, values)) = (input.x().dims()[0], self.plan.widths());
        let widths = [2 * keys + values, values, value_heads, value_heads];
        let projected = input.projected(b, &self.projections, widths)?;
        let mixed = self.convolved(b, past, projected.part(0)?)?;
        let normed = self.normed(b, mixed.as_ref().narrow(1, 0, 2 * keys)?)?;
        let one = |which| normed.as_ref().narrow(1, which, 1)?.reshape(&[t, value_heads, key_dim]);
        let (q, k) = (one(0)?, one(1)?);
        let v = mixed.as_ref().narrow(1, 2 * keys, values)?.reshape(&[t, value_heads, value_dim])?;
        let (decay, beta) = self.gates(b, &projected)?;
        let mut o = b.empty(Shape::new(&[t, value_heads, value_dim])?)?;
        let mut at = 0;
        for (memory, part) in &past.parts {
            let (q, k, v) = (part.rows(q, at)?, part.rows(k, at)?, part.rows(v, at)?);
            let (gates, o) =
                ((part.rows(decay.as_ref(), at)?, part.rows(beta.as_ref(), at)?), part.rows(o.as_mut(), at)?);
            part.memories.update::<f32, _>(b, &mut past.memories[*memory].heads, |state| {
                b.gated_delta_rule_into(q, k, v, gates, state, o, GatedDeltaRule::new())
            })?;
            at += part.len();
        }
        let op = GatedRmsNorm::eps(self.norm_eps);
        let gate = projected.heads(1, value_heads)?;
        let y = b.gated_rms_norm(&o, gate, &self.norm, op)?;
        self.output.apply_onto(b, y.reshape(&[t, values])?.as_ref(), onto)
    }

    /// The convolution of each text's rows, followed by silu.
    fn convolved(
        &self,
        b: &B,
        past: &mut Remembered<'_, B::Space, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let mut y = b.empty(x.shape())?;
        let mut at = 0;
        for (memory, part) in &past.parts {
            let memory = &mut *past.memories[*memory];
            if memory.is_stale {
                *memory = Memory::new(b, &self.plan, 1)?;
            }
            let (x, y) = (part.rows(x, at)?, part.rows(y.as_mut(), at)?);
            let op = Conv1dUpdate::plain().activation(ConvActivation::Silu);
            part.memories.update(b, &mut memory.inputs, |state| {
                b.conv1d_update_into(x, &self.convolution, None, state, y, op)
            })?;
            at += part.len();
        }
        Ok(y)
    }

    /// Queries and keys `[t, 2 · key_heads · key_dim]`, normed, with each head repeated for every value head that
    /// it serves: `[t, 2, value_heads, key_dim]`.
    fn normed(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>> {
        let &Plan { key_heads, value_heads, key_dim, tiled, .. } = &self.plan;
        let (t, served) = (x.dims()[0], value_heads / key_heads);
        let repeated = if tiled {
            x.reshape(&[t, 2, 1, key_heads, key_dim])?.broadcast(&[t, 2, served, key_heads, key_dim])?
        } else {
            x.reshape(&[t, 2, key_heads, 1, key_dim])?.broadcast(&[t, 2, key_heads, served, key_dim])?
        };
        Ok(b.l2_norm(repeated, HEAD_EPS)?.reshape(&[t, 2, value_heads, key_dim])?)
    }

    /// The logarithm of the decay of each head's state, and the share of the new value: `[t, value_heads]`
    /// each, in f32.
    fn gates(&self, b: &B, projected: &Projected<B, T, 4>) -> Result<(TensorOf<B, f32>, TensorOf<B, f32>)> {
        let heads = self.plan.value_heads;
        let both = match projected.neighbours(2)? {
            Some(both) => b.cast::<f32>(both)?,
            None => b.cast::<f32>(&b.cat(&[projected.part(2)?, projected.part(3)?], 1)?)?,
        };
        let x = b.add(both.as_ref().narrow(1, 0, heads)?, &self.decay_bias)?;
        let decay = b.mul(&b.softplus(&x)?, &self.decay_rate)?;
        Ok((decay, b.sigmoid(both.as_ref().narrow(1, heads, heads)?)?))
    }
}
