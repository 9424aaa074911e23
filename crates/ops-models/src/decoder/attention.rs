//! Attention of a step over all tokens so far.
use super::pages::Keys;
use super::{Attend, Decoder, Rotation};
use crate::{Config, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Float, Mut, Ref, Shape, TensorOf, View};

/// Queries, keys, and values if they are not a part of the keys; `[t, heads · d]` each.
pub(super) type QueryKeyValue<'v, B, T> = (TensorOf<B, T>, TensorOf<B, T>, Option<&'v TensorOf<B, T>>);

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Attention of `h[t, dim]` in layer `i`, whose rows are the tokens of one text after the other.
    pub(super) fn attention(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        past: Keys<'_, B::Space, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let q = self.normed_heads(b, part.query.apply(b, h)?, part.query_norm.as_ref())?;
        let k = self.normed_heads(b, part.key.apply(b, h)?, part.key_norm.as_ref())?;
        let v = part.value.apply(b, h)?;
        let mut o = self.attend(b, i, (q, k, Some(&v)), part.sinks.as_ref(), past)?;
        if let Some(gate) = &part.gate {
            o = b.mul(&o, &b.sigmoid(&gate.apply(b, h)?)?)?;
        }
        part.output.apply(b, o.as_ref())
    }

    /// Rotates queries and keys, `[t, heads · d]`, adds keys and values to what is there, and attends to these: `[t, heads · dv]`.
    /// Without `v`, values are the first features of keys.
    pub(super) fn attend(
        &self,
        b: &B,
        i: usize,
        (mut q, mut k, v): QueryKeyValue<'_, B, T>,
        sinks: Option<&Weight<B::Space>>,
        past: Keys<'_, B::Space, T>,
    ) -> Result<TensorOf<B, T>> {
        let mut caches = match past {
            Keys::Apart(caches) => caches,
            Keys::Paged(cache, step) => return self.attend_paged(b, i, (q, k, v), sinks, (cache, step)),
        };
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let value_dim = self.config.value_dim();
        let mut o = b.empty(Shape::new(&[q.dims()[0], heads * value_dim])?)?;
        let extras = AttentionExtras::new();
        let extras = sinks.map_or(extras, |sinks| extras.sinks(sinks.as_ref()));
        let mut at = 0;
        for (cache, t) in &mut caches {
            // Views rows [t, heads · d] of a text as [1, heads, t, d] without a copy.
            let (rows, by_head) = ((at, *t), |heads: usize, d: usize| [1, *t, heads, d]);
            self.rotate(b, i, &mut q, rows, cache.len())?;
            self.rotate(b, i, &mut k, rows, cache.len())?;
            let k = k.as_ref().narrow(0, at, *t)?.reshape(&by_head(kv_heads, head_dim))?.transpose(1, 2)?;
            match v {
                Some(v) => {
                    let v = v.as_ref().narrow(0, at, *t)?.reshape(&by_head(kv_heads, value_dim))?;
                    cache.append(b, k, v.transpose(1, 2)?)?;
                }
                None => cache.append_keys(b, k)?,
            }
            let q = q.as_ref().narrow(0, at, *t)?.reshape(&by_head(heads, head_dim))?.transpose(1, 2)?;
            let o = o.as_mut().narrow(0, at, *t)?.reshape(&by_head(heads, value_dim))?.transpose(1, 2)?;
            b.attention_with_into(q, cache.keys()?, cache.values()?, extras, o, self.scores(i))?;
            at += *t;
        }
        Ok(o)
    }

    /// The heads of query or key, `[t, heads · d]`: normed if the model does so.
    fn normed_heads(
        &self,
        b: &B,
        x: TensorOf<B, T>,
        norm: Option<&TensorOf<B, f32>>,
    ) -> Result<TensorOf<B, T>> {
        let Config { head_dim, norm_eps, .. } = self.config;
        let Some(weight) = norm else { return Ok(x) };
        let &[t, width] = x.dims() else { unreachable!("rows of heads") };
        let heads = x.as_ref().reshape(&[t * (width / head_dim), head_dim])?;
        let normed = b.rms_norm(heads, weight, RmsNorm::eps(norm_eps))?;
        Ok(normed.reshape(&[t, width])?)
    }

    /// Rotates rows `at..at + t` of query or key, which stand at positions from `start` on.
    fn rotate(
        &self,
        b: &B,
        i: usize,
        x: &mut TensorOf<B, T>,
        (at, t): (usize, usize),
        start: usize,
    ) -> Result<()> {
        let (tables, op) = (self.tables(i), Rope::new(self.config.rope).start(start));
        let view = self.rotated_part(x.as_mut().narrow(0, at, t)?)?;
        Ok(b.rope_inplace(view, &tables.cos, &tables.sin, op)?)
    }
    /// The features of queries or keys `[t, heads · d]` that are rotated, `[1, heads, t, rope_dim]`.
    pub(super) fn rotated_part<'x>(&self, x: Mut<'x, B, T>) -> Result<Mut<'x, B, T>> {
        let Config { head_dim, rope_dim, .. } = self.config;
        let (t, heads) = (x.dims()[0], x.dims()[1] / head_dim);
        // In latent attention these are the last ones.
        let first = self.config.latent.map_or(0, |latent| latent.rank);
        Ok(x.reshape(&[1, t, heads, head_dim])?.transpose(1, 2)?.narrow(-1, first, rope_dim)?)
    }
    /// The angles of layer `i`.
    pub(super) fn tables(&self, i: usize) -> &Rotation<B> {
        match &self.windowed_rotation {
            Some(windowed) if self.config.is_windowed(i) => windowed,
            _ => &self.rotation,
        }
    }

    pub(super) fn scores(&self, i: usize) -> Attention<T> {
        let mut op = Attention::causal();
        if let Some(scale) = self.config.score_scale {
            op = op.scale(scale);
        }
        if let Some(cap) = self.config.score_softcap {
            op = op.softcap(cap);
        }
        match &self.config.window {
            // A window counts the token's own position.
            Some(window) if self.config.is_windowed(i) => op.window(Some(window.size - 1), None),
            _ => op,
        }
    }
}
