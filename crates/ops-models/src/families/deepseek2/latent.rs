//! Attention over compressed keys and values.
use crate::pieces::{Linear, Loader, Matrices, Norm, Summed};
use crate::share::only;
use crate::{Config, Latent as Plan, Result};
use ops_core::model::Transformer;
use ops_core::ops::{CopyMethods, ExpertMethods};
use ops_core::{Backend, Float, Ref, Shape, TensorOf};

/// The matrices of latent attention. The expansions of keys and values are applied to queries and results
/// instead, so that the caches stay compressed.
pub(crate) struct Latent<B: Backend> {
    /// Compresses queries, if the model does so.
    query_down: Option<(Linear<B>, Norm<B>)>,
    query: Linear<B>,
    key_value: Linear<B>,
    key_value_norm: Norm<B>,
    /// `[heads, rank, nope]`
    key_up: Matrices<B>,
    /// `[heads, value_dim, rank]`
    value_up: Matrices<B>,
    output: Summed<B>,
    /// `0..heads`, with which each head selects its matrices.
    heads: TensorOf<B, u32>,
    plan: Plan,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(crate) fn latent(&self, i: usize, plan: Plan) -> Result<Latent<B>> {
        let Config { dim, heads, head_dim, rope_dim, .. } = *self.config;
        let Plan { rank, query_rank, nope, value_dim } = plan;
        let part = |name: &str| format!("blk.{i}.{name}");
        let width = self.product("attention.key_length_mla", heads, nope + rope_dim)?;
        let query_down = |rank| -> Result<_> {
            Ok((self.linear(&part("attn_q_a"), [rank, dim])?, self.norm(&part("attn_q_a_norm"), rank)?))
        };
        let (query, from) = query_rank.map_or(("attn_q", dim), |rank| ("attn_q_b", rank));
        let results = self.product("attention.value_length_mla", heads, value_dim)?;
        let cut = self.heads();
        let own = &cut.own;
        let ids: Vec<u32> = (0..own.len() as u32).collect();
        let per_head = nope + rope_dim;
        Ok(Latent {
            query_down: query_rank.map(query_down).transpose()?,
            query: self.rows(&part(query), &[width, from], own.start * per_head..own.end * per_head)?,
            key_value: self.linear(&part("attn_kv_a_mqa"), [head_dim, dim])?,
            key_value_norm: self.norm(&part("attn_kv_a_norm"), rank)?,
            key_up: self.matrices(&part("attn_k_b"), [heads, rank, nope], own.clone())?,
            value_up: self.matrices(&part("attn_v_b"), [heads, value_dim, rank], own.clone())?,
            output: self.summed(&part("attn_output"), [dim, results], &cut.times(value_dim), only)?,
            heads: self.backend.tensor(&[1, own.len()], &ids)?,
            plan,
        })
    }
}

impl<B: Backend> Latent<B> {
    /// Queries for compressed keys of `h[t, dim]`, `[t, heads · (rank + rotated)]`, before their rotation: a head's query times
    /// the expansion of its keys.
    pub(crate) fn queries<T: Float>(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let Plan { rank, nope, .. } = self.plan;
        let q = match &self.query_down {
            Some((down, norm)) => self.query.apply(b, norm.apply(b, down.apply(b, h)?.as_ref())?.as_ref())?,
            None => self.query.apply(b, h)?,
        };
        let (t, heads) = (q.dims()[0], self.heads.dims()[1]);
        let rotated = q.dims()[1] / heads - nope;
        let q = q.as_ref().reshape(&[t, heads, nope + rotated])?;
        let mut wide = b.empty(Shape::new(&[t, heads, rank + rotated])?)?;
        let (to, ids) = (wide.as_mut().narrow(2, 0, rank)?, self.heads.as_ref().broadcast(&[t, heads])?);
        b.linear_experts_into(q.narrow(2, 0, nope)?, &self.key_up.weight, ids, None, to)?;
        b.copy_into(q.narrow(2, nope, rotated)?, wide.as_mut().narrow(2, rank, rotated)?)?;
        Ok(wide.reshape(&[t, heads * (rank + rotated)])?)
    }

    /// The compressed keys of `h[t, dim]` before their rotation, `[t, rank + rotated]`.
    pub(crate) fn keys<T: Float>(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let rank = self.plan.rank;
        let mut k = self.key_value.apply(b, h)?;
        let normed = self.key_value_norm.apply(b, k.as_ref().narrow(1, 0, rank)?)?;
        b.copy_into(&normed, k.as_mut().narrow(1, 0, rank)?)?;
        Ok(k)
    }

    /// The result of attention, `o[t, heads · rank]`, after the expansion of values.
    pub(crate) fn result<T: Float>(&self, b: &B, o: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let Plan { rank, value_dim, .. } = self.plan;
        let (t, heads) = (o.dims()[0], self.heads.dims()[1]);
        let ids = self.heads.as_ref().broadcast(&[t, heads])?;
        let o = o.as_ref().reshape(&[t, heads, rank])?;
        let y = b.linear_experts(o, &self.value_up.weight, ids, None)?;
        self.output.apply(b, y.as_ref().reshape(&[t, heads * value_dim])?)
    }
}
