//! The methods for attention over sequences of different lengths.
use super::paged::args::attention_paged;
use super::varlen::args::attention_varlen;
use super::{
    Attention, AttentionExtras, AttentionPaged, AttentionVarlen, Paging, Starts, denominators, rows_of_values,
};
use crate::ops::declare::family;
use crate::{
    AnyRef, AsAny, AsView, AsViewMut, Backend, Error, Execute, Float, Result, Space, TensorMut, TensorOf,
};

family! {
    /// Attention in `T` over sequences of different lengths, whose rows are concatenated or in the blocks of a
    /// paged cache.
    ///
    /// The options are those of [`Attention`]. These ops take the alibi slopes and sinks of [`AttentionExtras`],
    /// but no mask.
    pub trait RaggedAttentionOps<T: Float>: Execute<AttentionVarlen<T>>, Execute<AttentionPaged<T>>;
    methods RaggedAttentionMethods;
}

/// The methods of [`RaggedAttentionOps`].
pub trait RaggedAttentionMethods: Backend {
    /// [`AttentionVarlen`] of the sequences that `starts` divides the rows into.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // Two sequences of one query each, the first with two keys, the second with one. All keys count the same.
    /// let (q, k) = (b.zeros::<f32>(&[2, 1, 2])?, b.zeros(&[3, 1, 2])?);
    /// let v = b.tensor(&[3, 1, 1], &[1.0f32, 3.0, 7.0])?;
    /// let (queries, keys) = (b.tensor(&[3], &[0u32, 1, 2])?, b.tensor(&[3], &[0u32, 2, 3])?);
    /// let starts = Starts { queries: &queries, keys: &keys };
    /// let o = b.attention_varlen(&q, &k, &v, starts, AttentionExtras::new(), Attention::causal())?;
    /// assert_eq!(o.to_vec(&b)?, [2.0, 7.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_varlen<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        starts: Starts<impl AsView<Self::Space, u32>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        self.attention_varlen_into(q, k, v, starts, extras, &mut o, op)?;
        Ok(o)
    }
    /// [`attention_varlen`](Self::attention_varlen) into `o`.
    ///
    /// # Errors
    /// As [`attention_varlen`](Self::attention_varlen), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn attention_varlen_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        starts: Starts<impl AsView<Self::Space, u32>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let outputs = (o.view_mut(), None);
        self.run(&AttentionVarlen::of(op), varlen((&q, &k, &v), &starts, &extras, outputs)?)
    }
    /// [`AttentionVarlen`] and the logarithm of each row's denominator, from which results over parts of the keys can be merged.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (q, k) = (b.zeros::<f32>(&[2, 1, 2])?, b.zeros(&[3, 1, 2])?);
    /// let v = b.tensor(&[3, 1, 1], &[1.0f32, 3.0, 7.0])?;
    /// let (queries, keys) = (b.tensor(&[3], &[0u32, 1, 2])?, b.tensor(&[3], &[0u32, 2, 3])?);
    /// let (starts, extras) = (Starts { queries: &queries, keys: &keys }, AttentionExtras::new());
    /// let (o, lse) = b.attention_varlen_lse(&q, &k, &v, starts, extras, Attention::causal())?;
    /// assert_eq!(o.to_vec(&b)?, [2.0, 7.0]);
    /// assert_eq!((lse.dims(), lse.to_vec(&b)?), (&[2, 1][..], vec![2.0f32.ln(), 0.0]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_varlen_lse<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        starts: Starts<impl AsView<Self::Space, u32>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<(TensorOf<Self, T>, TensorOf<Self, f32>)>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        let mut lse = self.empty(denominators(&q.view())?)?;
        self.attention_varlen_lse_into(q, k, v, starts, extras, &mut o, &mut lse, op)?;
        Ok((o, lse))
    }
    /// [`attention_varlen_lse`](Self::attention_varlen_lse) into `o` and `lse[n, h]`.
    ///
    /// # Errors
    /// As [`attention_varlen_lse`](Self::attention_varlen_lse), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn attention_varlen_lse_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        starts: Starts<impl AsView<Self::Space, u32>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        mut lse: impl AsViewMut<Self::Space, f32>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let outputs = (o.view_mut(), Some(lse.view_mut()));
        self.run(&AttentionVarlen::of(op), varlen((&q, &k, &v), &starts, &extras, outputs)?)
    }
    /// [`AttentionPaged`] with the keys that `pages` finds in the cache.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Param`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // A cache of three blocks of two keys. The sequence has three keys, in blocks 2 and 0. All count the same.
    /// let (q, k) = (b.zeros::<f32>(&[1, 1, 1])?, b.zeros(&[3, 2, 1, 1])?);
    /// let v = b.tensor(&[3, 2, 1, 1], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// let (block_table, lengths) = (b.tensor(&[1, 2], &[2u32, 0])?, b.tensor(&[1], &[3u32])?);
    /// let cu_q = b.tensor(&[2], &[0u32, 1])?;
    /// let pages = Paging { block_table: &block_table, lengths: &lengths, cu_q: &cu_q };
    /// let o = b.attention_paged(&q, &k, &v, pages, AttentionExtras::new(), Attention::causal())?;
    /// assert!((o.to_vec(&b)?[0] - 4.0).abs() < 1e-6); // The mean of 5, 6 and 1.
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_paged<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        pages: Paging<impl AsAny<Self::Space>, impl AsAny<Self::Space>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        self.attention_paged_into(q, k, v, pages, extras, &mut o, op)?;
        Ok(o)
    }
    /// [`attention_paged`](Self::attention_paged) into `o`.
    ///
    /// # Errors
    /// As [`attention_paged`](Self::attention_paged), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn attention_paged_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        pages: Paging<impl AsAny<Self::Space>, impl AsAny<Self::Space>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let outputs = (o.view_mut(), None);
        let args = paged((&q, &k, &v), &pages, &extras, outputs)?;
        self.run(&AttentionPaged::of(op), args)
    }
    /// [`AttentionPaged`] and the logarithm of each row's denominator, from which results over parts of the keys can be merged.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Param`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (q, k) = (b.zeros::<f32>(&[1, 1, 1])?, b.zeros(&[2, 2, 1, 1])?);
    /// let v = b.tensor(&[2, 2, 1, 1], &[1.0f32, 3.0, 5.0, 7.0])?;
    /// let (block_table, lengths) = (b.tensor(&[1, 1], &[1u32])?, b.tensor(&[1], &[2u32])?);
    /// let cu_q = b.tensor(&[2], &[0u32, 1])?;
    /// let pages = Paging { block_table: &block_table, lengths: &lengths, cu_q: &cu_q };
    /// let extras = AttentionExtras::new();
    /// let (o, lse) = b.attention_paged_lse(&q, &k, &v, pages, extras, Attention::causal())?;
    /// assert_eq!((o.to_vec(&b)?, lse.to_vec(&b)?), (vec![6.0], vec![2.0f32.ln()]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_paged_lse<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        pages: Paging<impl AsAny<Self::Space>, impl AsAny<Self::Space>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<(TensorOf<Self, T>, TensorOf<Self, f32>)>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        let mut lse = self.empty(denominators(&q.view())?)?;
        self.attention_paged_lse_into(q, k, v, pages, extras, &mut o, &mut lse, op)?;
        Ok((o, lse))
    }
    /// [`attention_paged_lse`](Self::attention_paged_lse) into `o` and `lse[n, h]`.
    ///
    /// # Errors
    /// As [`attention_paged_lse`](Self::attention_paged_lse), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn attention_paged_lse_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        pages: Paging<impl AsAny<Self::Space>, impl AsAny<Self::Space>, impl AsView<Self::Space, u32>>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        mut lse: impl AsViewMut<Self::Space, f32>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: RaggedAttentionOps<T>,
    {
        let op = op.into();
        let outputs = (o.view_mut(), Some(lse.view_mut()));
        let args = paged((&q, &k, &v), &pages, &extras, outputs)?;
        self.run(&AttentionPaged::of(op), args)
    }
}

/// The operands `o` and `lse` of a call.
type Outputs<'r, S, T> = (TensorMut<'r, S, T>, Option<TensorMut<'r, S, f32>>);

fn varlen<'r, S: Space, T: Float>(
    (q, k, v): (&'r impl AsView<S, T>, &'r impl AsView<S, T>, &'r impl AsView<S, T>),
    starts: &'r Starts<impl AsView<S, u32>, impl AsView<S, u32>>,
    extras: &'r AttentionExtras<'_, S>,
    (o, lse): Outputs<'r, S, T>,
) -> Result<attention_varlen::Args<'r, S, T>> {
    let (sinks, alibi) = without_mask("attention_varlen", extras)?;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let (cu_q, cu_k) = (starts.queries.view(), starts.keys.view());
    Ok(attention_varlen::Args { q, k, v, cu_q, cu_k, sinks, alibi, o, lse })
}

fn paged<'r, S: Space, T: Float>(
    (q, k, v): (&'r impl AsView<S, T>, &'r impl AsView<S, T>, &'r impl AsView<S, T>),
    pages: &'r Paging<impl AsAny<S>, impl AsAny<S>, impl AsView<S, u32>>,
    extras: &'r AttentionExtras<'_, S>,
    (o, lse): Outputs<'r, S, T>,
) -> Result<attention_paged::Args<'r, S, T>> {
    let (sinks, alibi) = without_mask("attention_paged", extras)?;
    let (q, k, v) = (q.view(), k.view(), v.view());
    let (block_table, lengths) = (pages.block_table.any_view(), pages.lengths.any_view());
    let cu_q = pages.cu_q.view();
    Ok(attention_paged::Args { q, k, v, block_table, lengths, cu_q, sinks, alibi, o, lse })
}

/// An optional operand.
type Optional<'r, S> = Option<AnyRef<'r, S>>;

/// The sinks and slopes of the extras; a mask is an error.
fn without_mask<'r, S: Space>(
    op: &'static str,
    extras: &'r AttentionExtras<'_, S>,
) -> Result<(Optional<'r, S>, Optional<'r, S>)> {
    if extras.mask.is_some() {
        return Err(Error::param(op, "mask", "a mask", "no mask: sequences differ in length"));
    }
    Ok((extras.sinks.map(|sinks| sinks.shorten()), extras.alibi.map(|alibi| alibi.shorten())))
}
