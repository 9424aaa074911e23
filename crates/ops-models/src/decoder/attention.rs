//! The attention of a step over all tokens so far.
use super::pages::Keys;
use super::{Attend, Decoder, Rotation, Rotations, Row};
use crate::families::deepseek2::Latent;
use crate::pieces::{Normed, Output};
use crate::{Config, HeadShape, Result};
use ops_core::model::{CacheRotation, Projection, Queries, Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Float, Ref, Shape, TensorOf};
use std::ptr;

/// The position of each row of a step, `[t]`, which is also its slot in the text's caches.
pub(super) fn positions<T: Float, B: Transformer<T>>(
    b: &B,
    rows: &[Row<'_, B::Space, T>],
) -> Result<TensorOf<B, u32>> {
    let of_text = |(state, tokens): &Row<'_, B::Space, T>| state.len()..state.len() + tokens.len();
    let positions: Vec<u32> = rows.iter().flat_map(of_text).map(|position| position as u32).collect();
    Ok(b.tensor(&[positions.len()], &positions)?)
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Attention of the stream `[t, dim]` in layer `i`, added to `onto` if one kernel computes both; the rows of each text are
    /// consecutive.
    pub(super) fn attention(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        mut past: Keys<'_, B::Space, T>,
        input: &Normed<'_, T, B>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>> {
        let Config { heads, norm_eps, .. } = self.config;
        let HeadShape { head_dim, .. } = self.config.heads_of(i);
        let Rotation { cos, sin } = self.tables(i);
        let rotation = CacheRotation {
            cos: cos.any(),
            sin: sin.any(),
            positions: past.positions().any(),
            slots: past.slots().any(),
            order: self.order(),
            norm: part.key_norm.as_ref().map(|weight| (weight.any(), norm_eps)),
        };
        let at_once = self.projected_to(b, i, part, &mut past, input, rotation)?;
        let q = at_once.map_or_else(|| self.projected_apart(b, i, part, &mut past, input, rotation), Ok)?;
        let q = q.as_ref().reshape(&[input.x().dims()[0], heads * head_dim])?;
        let mut o = self.attend(b, i, q, part.sinks.as_ref(), &past)?;
        if let Some(gate) = &part.gate {
            o = b.mul(&o, &b.sigmoid(&input.times(b, gate)?)?)?;
        }
        part.output.apply_onto(b, o.as_ref(), onto)
    }

    /// Rotated queries `[t, heads, d]`, if the kernels that compute the projections also rotate queries and keys, and add keys and values to
    /// the caches.
    fn projected_to(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        past: &mut Keys<'_, B::Space, T>,
        input: &Normed<'_, T, B>,
        rotation: CacheRotation<'_, B::Space>,
    ) -> Result<Option<TensorOf<B, T>>> {
        let is_plain = part.query_norm.is_none() && part.value_norm.is_none() && !part.keys_are_values;
        if !is_plain || !self.rotates_together(i) {
            return Ok(None);
        }
        let (q, kv) = self.config.widths(i)?;
        let (first, values) = match &part.projections[..] {
            [all] => (all, None),
            // Values of another type.
            [first, values] if first.weight.dims()[0] == q + kv => (first, Some(values)),
            _ => return Ok(None),
        };
        let Some((product, eps)) = input.product(first) else { return Ok(None) };
        let values = values.and_then(|values| input.product(values)).map(|(values, _)| values);
        past.add_projected(b, Projection { product, values, eps }, rotation)
    }

    /// The same with several ops.
    fn projected_apart(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        past: &mut Keys<'_, B::Space, T>,
        input: &Normed<'_, T, B>,
        rotation: CacheRotation<'_, B::Space>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, norm_eps, .. } = self.config;
        let HeadShape { kv_heads, .. } = self.config.heads_of(i);
        let (q, kv) = self.config.widths(i)?;
        let projected = input.projected(b, &part.projections, [q, kv, kv])?;
        let (queries, norm) = (projected.heads(0, heads)?, part.query_norm.as_ref());
        let together = self.rotates_together(i) && (norm.is_none() || part.key_norm.is_some());
        let mut q = match together {
            true => b.empty(queries.shape())?,
            false => self.rotated(b, i, queries, norm, past.positions())?,
        };
        if self.config.has_own_keys(i) {
            let k = projected.heads(1, kv_heads)?;
            let v = if part.keys_are_values { k } else { projected.heads(2, kv_heads)? };
            let normed = part.value_norm.as_ref().map(|ones| b.rms_norm(v, ones, norm_eps)).transpose()?;
            let v = normed.as_ref().map_or(v, |normed| normed.as_ref());
            let norm = norm.map(|weight| weight.any());
            let queries = together.then(|| Queries { x: queries, norm, y: q.as_mut() });
            past.add_rotated(b, queries, k, v, rotation)?;
        }
        Ok(q)
    }

    /// Whether one op can rotate queries and keys: by the same tables.
    fn rotates_together(&self, i: usize) -> bool {
        self.config.has_own_keys(i) && ptr::eq(self.tables(i), self.query_tables(i))
    }

    /// Attention if keys and values are compressed.
    pub(super) fn latent_attention(
        &self,
        b: &B,
        i: usize,
        part: &Latent<B>,
        mut past: Keys<'_, B::Space, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { kv_heads, head_dim, .. } = self.config;
        let (mut q, mut k) = (part.queries(b, h)?, part.keys(b, h)?);
        self.rotate(b, i, &mut q, past.positions())?;
        self.rotate(b, i, &mut k, past.positions())?;
        past.add_keys(b, k.as_ref().reshape(&[h.dims()[0], kv_heads, head_dim])?)?;
        part.result(b, &self.attend(b, i, q.as_ref(), None, &past)?)
    }

    /// Queries `[t, heads, d]`, normed if the model does so and rotated at these positions: `[1, t, heads,
    /// d]`.
    fn rotated(
        &self,
        b: &B,
        i: usize,
        q: Ref<'_, B, T>,
        norm: Option<&TensorOf<B, f32>>,
        positions: &TensorOf<B, u32>,
    ) -> Result<TensorOf<B, T>> {
        let (Rotation { cos, sin }, Config { rope, norm_eps, .. }) = (self.query_tables(i), &self.config);
        let &[t, heads, d] = q.dims() else { unreachable!("rows of heads") };
        let (q, positions) = (q.reshape(&[1, t, heads, d])?, positions.as_ref().reshape(&[1, t])?);
        if let Some(weight) = norm {
            let op = QkNormRope::eps(*norm_eps).order(self.order());
            return Ok(b.qk_norm_rope_at(q, weight, cos, sin, positions, op)?);
        }
        let mut y = b.empty(Shape::new(&[1, t, heads, d])?)?;
        let by_head = y.as_mut().transpose(1, 2)?;
        b.rope_at_into(q.transpose(1, 2)?, cos, sin, positions, by_head, Rope::new(*rope))?;
        Ok(y)
    }

    /// Attention of rotated queries `[t, heads · d]` over the caches: `[t, heads · dv]`.
    fn attend(
        &self,
        b: &B,
        i: usize,
        q: Ref<'_, B, T>,
        sinks: Option<&Weight<B::Space>>,
        past: &Keys<'_, B::Space, T>,
    ) -> Result<TensorOf<B, T>> {
        let (heads, head_dim) = (self.config.heads, self.config.heads_of(i).head_dim);
        let (n, value_dim, op) = (q.dims()[0], self.config.value_dim(i), self.scores(i));
        let extras = AttentionExtras::new();
        let extras = sinks.map_or(extras, |sinks| extras.sinks(sinks.as_ref()));
        let caches = match past {
            Keys::Apart(caches, _) => caches,
            Keys::Paged(cache, step) => {
                let (q, paging) = (q.reshape(&[n, heads, head_dim])?, step.paging());
                let o = b.attention_paged(q, cache.keys(), cache.values()?, paging, extras, op)?;
                return Ok(o.reshape(&[n, heads * value_dim])?);
            }
        };
        let mut o = b.empty(Shape::new(&[n, heads * value_dim])?)?;
        let mut at = 0;
        for (cache, t) in caches {
            // Views rows [t, heads · d] of a text as [1, heads, t, d] without a copy.
            let q = q.narrow(0, at, *t)?.reshape(&[1, *t, heads, head_dim])?.transpose(1, 2)?;
            let o = o.as_mut().narrow(0, at, *t)?.reshape(&[1, *t, heads, value_dim])?.transpose(1, 2)?;
            b.attention_with_into(q, cache.keys()?, cache.values()?, extras, o, op)?;
            at += *t;
        }
        Ok(o)
    }

    fn tables(&self, i: usize) -> &Rotation<B> {
        match &self.rotations {
            Rotations { unrotated: Some(still), .. } if !self.config.is_rotated(i) => still,
            Rotations { windowed: Some(windowed), .. } if self.config.is_windowed(i) => windowed,
            Rotations { all, .. } => all,
        }
    }

    fn query_tables(&self, i: usize) -> &Rotation<B> {
        match &self.rotations.queries {
            Some(queries) if self.config.is_rotated(i) => queries,
            _ => self.tables(i),
        }
    }

    fn order(&self) -> RopeOrder {
        match self.config.rope {
            RopeForm::Interleaved => RopeOrder::Interleaved,
            _ => RopeOrder::Half,
        }
    }

    /// Rotates the last features of queries or keys `[t, heads · d]` at these positions, for latent
    /// attention.
    fn rotate(&self, b: &B, i: usize, x: &mut TensorOf<B, T>, positions: &TensorOf<B, u32>) -> Result<()> {
        let Config { head_dim, rope_dim, rope, .. } = self.config;
        let (t, heads) = (x.dims()[0], x.dims()[1] / head_dim);
        let rows = x.as_mut().reshape(&[1, t, heads, head_dim])?.transpose(1, 2)?;
        let (view, positions) = (rows.narrow(-1, head_dim - rope_dim, rope_dim)?, positions.as_ref());
        let Rotation { cos, sin } = self.tables(i);
        Ok(b.rope_at_inplace(view, cos, sin, positions.reshape(&[1, t])?, Rope::new(rope))?)
    }

    fn scores(&self, i: usize) -> Attention<T> {
        let causal = self.config.causal;
        let mut op = if causal { Attention::causal() } else { Attention::full() };
        if let Some(scale) = self.config.score_scale {
            op = op.scale(scale);
        }
        if let Some(cap) = self.config.score_softcap {
            op = op.softcap(cap);
        }
        match &self.config.window {
            // A window counts the token's own position.
            Some(window) if self.config.is_windowed(i) => {
                let side = Some(window.size - 1);
                op.window(side, side.filter(|_| !causal))
            }
            _ => op,
        }
    }
}
