//! Attention of a step over all tokens so far.
use super::{Attend, Cache, Decoder};
use crate::{Config, Result};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Float, Ref, Shape, TensorOf, View};

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Attention of `h[t, dim]` in layer `i`, whose rows are the tokens of one text after the other.
    pub(super) fn attention(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        caches: &mut [Cache<'_, B::Space, T>],
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let mut q = self.normed_heads(b, part.query.apply(b, h)?, part.query_norm.as_ref())?;
        let mut k = self.normed_heads(b, part.key.apply(b, h)?, part.key_norm.as_ref())?;
        let v = part.value.apply(b, h)?;
        let mut o = b.empty(Shape::new(&[h.dims()[0], heads * head_dim])?)?;
        let mut at = 0;
        for (cache, t) in caches {
            // Views rows [t, heads · d] of a text as [1, heads, t, d] without a copy.
            let (rows, by_head) = ((at, *t), |heads: usize| [1, *t, heads, head_dim]);
            self.rotate(b, i, &mut q, rows, cache.len())?;
            self.rotate(b, i, &mut k, rows, cache.len())?;
            let k = k.as_ref().narrow(0, at, *t)?.reshape(&by_head(kv_heads))?.transpose(1, 2)?;
            let v = v.as_ref().narrow(0, at, *t)?.reshape(&by_head(kv_heads))?.transpose(1, 2)?;
            cache.append(b, k, v)?;
            let q = q.as_ref().narrow(0, at, *t)?.reshape(&by_head(heads))?.transpose(1, 2)?;
            let o = o.as_mut().narrow(0, at, *t)?.reshape(&by_head(heads))?.transpose(1, 2)?;
            b.attention_into(q, cache.keys()?, cache.values()?, o, self.scores(i))?;
            at += *t;
        }
        part.output.apply(b, o.as_ref())
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
        let Config { head_dim, rope_dim, rope, .. } = self.config;
        let heads = x.dims()[1] / head_dim;
        let rows = x.as_mut().narrow(0, at, t)?.reshape(&[1, t, heads, head_dim])?;
        let view = rows.transpose(1, 2)?.narrow(-1, 0, rope_dim)?;
        let tables = match &self.windowed_rotation {
            Some(windowed) if self.config.is_windowed(i) => windowed,
            _ => &self.rotation,
        };
        Ok(b.rope_inplace(view, &tables.cos, &tables.sin, Rope::new(rope).start(start))?)
    }

    fn scores(&self, i: usize) -> Attention<T> {
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
