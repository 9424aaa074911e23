//! Attention, with keys in tensors or in the blocks of a paged cache.
use crate::call::on_float;
use crate::convert::{typed, with_last};
use crate::ops::{Computes, Ops};
use candle_core::{Result, Tensor};
use rocm_ops::ops::{Attention, AttentionExtras, AttentionMethods, Paging, RaggedAttentionMethods};
use rocm_ops::prelude::*;

/// The optional operands of attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// Broadcasts to `[b, h, t, s]`. Floats are added to the scores; a `u8` of 0 hides the key. Not for paged attention.
    pub mask: Option<&'a Tensor>,
    /// The slope of each head.
    pub alibi: Option<&'a Tensor>,
    /// A score of each head without a value, which takes a share of every row's weight; in the type of `q`.
    pub sinks: Option<&'a Tensor>,
}

/// The options, for operands of `T`.
fn options<T: Float>(given: Attention<()>) -> Attention<T> {
    let mut op = Attention::full();
    (op.scale, op.causal, op.window, op.softcap) = (given.scale, given.causal, given.window, given.softcap);
    op
}

/// The optional operands in a backend's memory.
fn extras<'a, S: Space>(
    mask: Option<AnyRef<'a, S>>,
    alibi: Option<AnyRef<'a, S>>,
    sinks: Option<AnyRef<'a, S>>,
) -> AttentionExtras<'a, S> {
    let extras = mask.map_or(AttentionExtras::new(), |mask| AttentionExtras::new().mask(mask));
    let extras = alibi.map_or(extras, |alibi| extras.alibi(alibi));
    sinks.map_or(extras, |sinks| extras.sinks(sinks))
}

impl<B: Computes> Ops<B> {
    /// `softmax(scale · q kᵀ) · v` of each head, with the options and extras of [`Attention`]: causality, windows, softcap, masks, alibi
    /// slopes and sinks. `q[b, h, t, d]`, `k[b, h_kv, s, d]`, `v[b, h_kv, s, dv]`, where `h` is a multiple of `h_kv`: keys and values need
    /// not be repeated. A causal query sees the keys up to its own position, which is the last one for the last query.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops::ops::Attention;
    /// # use rocm_ops_candle::{Extras, Ops};
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// // One head, one query, two keys: both count the same.
    /// let q = Tensor::new(&[[[[1f32, 0.0]]]], &cpu)?;
    /// let k = Tensor::new(&[[[[0f32, 1.0], [0.0, 2.0]]]], &cpu)?;
    /// let v = Tensor::new(&[[[[1f32, 2.0], [3.0, 4.0]]]], &cpu)?;
    /// let o = ops.attention(&q, &k, &v, Extras::default(), Attention::causal())?;
    /// assert_eq!(o.flatten_all()?.to_vec1::<f32>()?, [2.0, 3.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn attention(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        with: Extras<'_>,
        op: Attention<()>,
    ) -> Result<Tensor> {
        const OP: &str = "attention";
        let dims = with_last(q, v.dims().last().copied().unwrap_or(0));
        let optional = [("mask", with.mask), ("alibi", with.alibi), ("sinks", with.sinks)];
        on_float!(OP, "q", q, T => self.compute::<T, 3, 3>(
            OP, &dims, [("q", q), ("k", k), ("v", v)], optional,
            |[q, k, v], [mask, alibi, sinks], o| {
                let (q, k, v) = (typed::<T, _>(OP, "q", q)?, typed::<T, _>(OP, "k", k)?, typed::<T, _>(OP, "v", v)?);
                self.backend.attention_with_into(q, k, v, extras(mask, alibi, sinks), o, options::<T>(op))
            },
        ))
    }

    /// Attention of several sequences over keys and values in the blocks of a paged cache, which is read in place:
    /// [`AttentionPaged`](rocm_ops::ops::AttentionPaged). `q[n, h, d]` holds the queries of all sequences, `k[blocks, block, h_kv, d]` and
    /// `v[blocks, block, h_kv, dv]` are the cache. `pages` says where the keys of each sequence are: `block_table[b, width]` and
    /// `lengths[b]`, both u8, u32, i32 or i64, and `cu_q[b + 1]` of u32. `with` takes no mask.
    ///
    /// ```
    /// # use candle_core::{DType, Device, Tensor};
    /// # use rocm_ops::ops::{Attention, Paging};
    /// # use rocm_ops_candle::{Extras, Ops};
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// // A cache of three blocks of two keys. The sequence has three keys, in blocks 2 and 0. All count the same.
    /// let q = Tensor::zeros((1, 1, 1), DType::F32, &cpu)?;
    /// let k = Tensor::zeros((3, 2, 1, 1), DType::F32, &cpu)?;
    /// let v = Tensor::new(&[1f32, 2.0, 3.0, 4.0, 5.0, 6.0], &cpu)?.reshape((3, 2, 1, 1))?;
    /// let (block_table, lengths) = (Tensor::new(&[[2u32, 0]], &cpu)?, Tensor::new(&[3u32], &cpu)?);
    /// let cu_q = Tensor::new(&[0u32, 1], &cpu)?;
    /// let pages = Paging { block_table: &block_table, lengths: &lengths, cu_q: &cu_q };
    /// let o = ops.attention_paged(&q, &k, &v, pages, Extras::default(), Attention::causal())?;
    /// assert!((o.flatten_all()?.to_vec1::<f32>()?[0] - 4.0).abs() < 1e-6); // The mean of 5, 6 and 1.
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; a block or a length that the cache does not have.
    pub fn attention_paged(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        pages: Paging<&Tensor>,
        with: Extras<'_>,
        op: Attention<()>,
    ) -> Result<Tensor> {
        const OP: &str = "attention_paged";
        let dims = with_last(q, v.dims().last().copied().unwrap_or(0));
        let Paging { block_table, lengths, cu_q } = pages;
        let operands = [
            ("q", q),
            ("k", k),
            ("v", v),
            ("block_table", block_table),
            ("lengths", lengths),
            ("cu_q", cu_q),
        ];
        let optional = [("mask", with.mask), ("alibi", with.alibi), ("sinks", with.sinks)];
        on_float!(OP, "q", q, T => self.compute::<T, 6, 3>(
            OP, &dims, operands, optional,
            |[q, k, v, block_table, lengths, cu_q], [mask, alibi, sinks], o| {
                let (q, k, v) = (typed::<T, _>(OP, "q", q)?, typed::<T, _>(OP, "k", k)?, typed::<T, _>(OP, "v", v)?);
                let pages = Paging { block_table, lengths, cu_q: typed::<u32, _>(OP, "cu_q", cu_q)? };
                self.backend.attention_paged_into(q, k, v, pages, extras(mask, alibi, sinks), o, options::<T>(op))
            },
        ))
    }
}
