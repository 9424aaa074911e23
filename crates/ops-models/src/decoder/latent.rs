//! Attention over compressed keys and values.
use super::feed_forward::Matrices;
use super::load::Loader;
use super::pages::Keys;
use super::{Decoder, Linear, Norm};
use crate::{Config, Latent as Plan, Result};
use ops_core::model::Transformer;
use ops_core::{Backend, Float, Ref, Shape, TensorOf, View};

/// The matrices of latent attention. The expansions of keys and values are applied to queries and results
/// instead, so that the caches stay compressed.
pub(super) struct Latent<B: Backend> {
    /// Compresses queries, if the model does so.
    query_down: Option<(Linear<B>, Norm<B>)>,
    query: Linear<B>,
    key_value: Linear<B>,
    key_value_norm: Norm<B>,
    /// `[heads, rank, nope]`
    key_up: Matrices<B>,
    /// `[heads, value_dim, rank]`
    value_up: Matrices<B>,
    output: Linear<B>,
    /// `0..heads`, with which each head selects its matrices.
    heads: TensorOf<B, u32>,
    plan: Plan,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(super) fn latent(&self, i: usize, plan: Plan) -> Result<Latent<B>> {
        let Config { dim, heads, head_dim, rope_dim, .. } = *self.config;
        let Plan { rank, query_rank, nope, value_dim } = plan;
        let part = |name: &str| format!("blk.{i}.{name}");
        let width = self.product("attention.key_length_mla", heads, nope + rope_dim)?;
        let query_down = |rank| -> Result<_> {
            Ok((self.linear(&part("attn_q_a"), [rank, dim])?, self.norm(&part("attn_q_a_norm"), rank)?))
        };
        let (query, from) = query_rank.map_or(("attn_q", dim), |rank| ("attn_q_b", rank));
        let results = self.product("attention.value_length_mla", heads, value_dim)?;
        let ids: Vec<u32> = (0..heads as u32).collect();
        Ok(Latent {
            query_down: query_rank.map(query_down).transpose()?,
            query: self.linear(&part(query), [width, from])?,
            key_value: self.linear(&part("attn_kv_a_mqa"), [head_dim, dim])?,
            key_value_norm: self.norm(&part("attn_kv_a_norm"), rank)?,
            key_up: self.matrices(&part("attn_k_b"), [heads, rank, nope])?,
            value_up: self.matrices(&part("attn_v_b"), [heads, value_dim, rank])?,
            output: self.linear(&part("attn_output"), [dim, results])?,
            heads: self.backend.tensor(&[1, heads], &ids)?,
            plan,
        })
    }
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Attention of `h[t, dim]` in layer `i`, as [`attention`](Self::attention).
    pub(super) fn latent_attention(
        &self,
        b: &B,
        i: usize,
        part: &Latent<B>,
        mut past: Keys<'_, B::Space, T>,
        h: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let Config { heads, kv_heads, head_dim, rope_dim, .. } = self.config;
        let (Plan { rank, nope, value_dim, .. }, t) = (part.plan, h.dims()[0]);
        let ids = part.heads.as_ref().broadcast(&[t, heads])?;

        let q = match &part.query_down {
            Some((down, norm)) => part.query.apply(b, norm.apply(b, down.apply(b, h)?.as_ref())?.as_ref())?,
            None => part.query.apply(b, h)?,
        };
        let q = q.as_ref().reshape(&[t, heads, nope + rope_dim])?;
        // A head's query times the expansion of its keys is a query for compressed keys.
        let mut wide = b.empty(Shape::new(&[t, heads, head_dim])?)?;
        let to = wide.as_mut().narrow(2, 0, rank)?;
        b.linear_experts_into(q.narrow(2, 0, nope)?, &part.key_up.weight, ids, None, to)?;
        b.copy_into(q.narrow(2, nope, rope_dim)?, wide.as_mut().narrow(2, rank, rope_dim)?)?;

        let mut k = part.key_value.apply(b, h)?;
        let normed = part.key_value_norm.apply(b, k.as_ref().narrow(1, 0, rank)?)?;
        b.copy_into(&normed, k.as_mut().narrow(1, 0, rank)?)?;

        let mut q = wide.reshape(&[t, heads * head_dim])?;
        self.rotate(b, i, &mut q, past.positions())?;
        self.rotate(b, i, &mut k, past.positions())?;
        past.add_keys(b, k.as_ref().reshape(&[t, kv_heads, head_dim])?)?;
        let o = self.attend(b, i, q.as_ref(), None, &past)?;
        let o = o.as_ref().reshape(&[t, heads, rank])?;
        let y = b.linear_experts(o, &part.value_up.weight, ids, None)?;
        part.output.apply(b, y.as_ref().reshape(&[t, heads * value_dim])?)
    }
}
