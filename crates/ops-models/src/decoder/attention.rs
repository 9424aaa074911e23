//! Attention of a step over all tokens so far.
use super::{Attend, Decoder};
use crate::{Config, Result};
use ops_core::model::{KvCache, Transformer};
use ops_core::ops::*;
use ops_core::{Float, Ref, Shape, TensorOf, View};

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Attention of `h[t, dim]` in layer `i`.
    pub(super) fn attention(
        &self,
        b: &B,
        i: usize,
        part: &Attend<B>,
        cache: &mut KvCache<B::Space, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, kv_heads, head_dim, .. } = self.config;
        let t = h.dims()[0];
        // Views [t, heads · d] as [1, heads, t, d] without a copy.
        let by_head = |heads: usize| [1, t, heads, head_dim];
        let q = self.heads(b, i, part.query.apply(b, h)?, part.query_norm.as_ref(), cache.len())?;
        let k = self.heads(b, i, part.key.apply(b, h)?, part.key_norm.as_ref(), cache.len())?;
        let v = part.value.apply(b, h)?;
        let k = k.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        let v = v.as_ref().reshape(&by_head(kv_heads))?.transpose(1, 2)?;
        cache.append(b, k, v)?;

        let q = q.as_ref().reshape(&by_head(heads))?.transpose(1, 2)?;
        let mut o = b.empty(Shape::new(&[t, heads * head_dim])?)?;
        let o_by_head = o.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?;
        b.attention_into(q, cache.keys()?, cache.values()?, o_by_head, self.scores(i))?;
        part.output.apply(b, o.as_ref())
    }

    /// The heads of query or key, `[t, heads · d]`: normed if the model does so, then rotated.
    fn heads(
        &self,
        b: &B,
        i: usize,
        x: TensorOf<B, T>,
        norm: Option<&TensorOf<B, f32>>,
        start: usize,
    ) -> Result<TensorOf<B, T>> {
        let Config { head_dim, rope_dim, rope, norm_eps, .. } = self.config;
        let &[t, width] = x.dims() else { unreachable!("rows of heads") };
        let heads = width / head_dim;
        let mut x = match norm {
            Some(weight) => {
                b.rms_norm(x.as_ref().reshape(&[t, heads, head_dim])?, weight, RmsNorm::eps(norm_eps))?
            }
            None => x,
        };
        let view = x.as_mut().reshape(&[1, t, heads, head_dim])?.transpose(1, 2)?.narrow(-1, 0, rope_dim)?;
        let tables = match &self.windowed_rotation {
            Some(windowed) if self.config.is_windowed(i) => windowed,
            _ => &self.rotation,
        };
        b.rope_inplace(view, &tables.cos, &tables.sin, Rope::new(rope).start(start))?;
        Ok(x)
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
