//! The methods that write to caches.
use super::projected::{self, Heads};
use super::{
    CacheWrite, KeysValues, NormedProduct, QkNormRopeCacheWrite, QueryKey, RmsNormLinearRopeCacheWrite,
    RopeCacheWrite, RopeQkCacheWrite, Tables, args,
};
#[cfg(doc)]
use crate::Error;
use crate::ops::declare::family;
use crate::{AsAny, AsOptional, AsView, AsViewMut, Backend, Element, Execute, Float, Op, Result, TensorOf};

family! {
    /// Writing in `T` to caches of keys and values.
    ///
    /// The caches are tensors of `T` or of [`F8E4M3`](crate::F8E4M3), contiguous or not: a cache `[heads, tokens, d]` is written
    /// through a transposed view.
    pub trait CacheOps<T: Float>: Execute<CacheWrite<T>>, Execute<RopeCacheWrite<T>>, Execute<QkNormRopeCacheWrite<T>>,
        Execute<RopeQkCacheWrite<T>>, Execute<RmsNormLinearRopeCacheWrite<T>>;
    methods CacheMethods;
}

/// The methods of [`CacheOps`].
pub trait CacheMethods: Backend {
    /// [`CacheWrite`]: `cache[slots[i], ..] = x[i, ..]`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[3, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// // The second row is skipped.
    /// let slots = b.tensor(&[3], &[2, u32::MAX, 0])?;
    /// let mut cache = b.zeros::<f32>(&[3, 2])?;
    /// b.cache_write(&x, &slots, &mut cache)?;
    /// assert_eq!(cache.to_vec(&b)?, [5.0, 6.0, 0.0, 0.0, 1.0, 2.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn cache_write<T: Float, C: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        slots: impl AsAny<Self::Space>,
        mut cache: impl AsViewMut<Self::Space, C>,
    ) -> Result<()>
    where
        Self: CacheOps<T>,
    {
        let (slots, mut cache) = (slots.any_view(), cache.view_mut());
        let args = args::cache_write::Args { x: x.view(), slots, cache: cache.reborrow().any() };
        self.run(&CacheWrite::<T>::OP, args)
    }
    /// [`RopeCacheWrite`] of the keys and values `rows` into `caches`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (k, v) = (b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?, b.tensor(&[1, 1, 2], &[3.0f32, 4.0])?);
    /// // Row 1 of the tables is a quarter turn.
    /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
    /// let (positions, slots) = (b.tensor(&[1], &[1u32])?, b.tensor(&[1], &[2u32])?);
    /// let (mut keys, mut values) = (b.zeros::<f32>(&[3, 1, 2])?, b.zeros::<f32>(&[3, 1, 2])?);
    /// let (rows, tables) = (KeysValues { keys: &k, values: &v }, Tables { cos: &cos, sin: &sin });
    /// let caches = KeysValues { keys: &mut keys, values: &mut values };
    /// b.rope_cache_write(rows, tables, &positions, &slots, caches, RopeOrder::Half)?;
    /// assert_eq!(keys.to_vec(&b)?, [0.0, 0.0, 0.0, 0.0, -2.0, 1.0]);
    /// assert_eq!(values.to_vec(&b)?, [0.0, 0.0, 0.0, 0.0, 3.0, 4.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn rope_cache_write<T: Float, C: Element>(
        &self,
        rows: KeysValues<impl AsView<Self::Space, T>, impl AsView<Self::Space, T>>,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        mut caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<RopeCacheWrite<T>>,
    ) -> Result<()>
    where
        Self: CacheOps<T>,
    {
        let op = op.into();
        let (k, v) = (rows.keys.view(), rows.values.view());
        let (cos, sin) = (tables.cos.any_view(), tables.sin.any_view());
        let (positions, slots) = (positions.any_view(), slots.any_view());
        let (mut keys, mut values) = (caches.keys.view_mut(), caches.values.view_mut());
        let (k_cache, v_cache) = (keys.reborrow().any(), values.reborrow().any());
        self.run(&op, args::rope_cache_write::Args { k, v, cos, sin, positions, slots, k_cache, v_cache })
    }
    /// [`QkNormRopeCacheWrite`] of the keys and values `rows` into `caches`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // A key of mean square 4, turned by a quarter.
    /// let (k, v) = (b.tensor(&[1, 1, 2], &[2.0f32, -2.0])?, b.tensor(&[1, 1, 1], &[7.0f32])?);
    /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
    /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
    /// let (positions, slots) = (b.tensor(&[1], &[0u32])?, b.tensor(&[1], &[0u32])?);
    /// let (mut keys, mut values) = (b.zeros::<f32>(&[1, 1, 2])?, b.zeros::<f32>(&[1, 1, 1])?);
    /// let (rows, tables) = (KeysValues { keys: &k, values: &v }, Tables { cos: &cos, sin: &sin });
    /// let caches = KeysValues { keys: &mut keys, values: &mut values };
    /// b.qk_norm_rope_cache_write(rows, &weight, tables, &positions, &slots, caches, 0.0)?;
    /// assert_eq!((keys.to_vec(&b)?, values.to_vec(&b)?), (vec![3.0, 1.0], vec![7.0]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    fn qk_norm_rope_cache_write<T: Float, C: Element>(
        &self,
        rows: KeysValues<impl AsView<Self::Space, T>, impl AsView<Self::Space, T>>,
        weight: impl AsAny<Self::Space>,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        mut caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<QkNormRopeCacheWrite<T>>,
    ) -> Result<()>
    where
        Self: CacheOps<T>,
    {
        let op = op.into();
        let (k, v, weight) = (rows.keys.view(), rows.values.view(), weight.any_view());
        let (cos, sin) = (tables.cos.any_view(), tables.sin.any_view());
        let (positions, slots) = (positions.any_view(), slots.any_view());
        let (mut keys, mut values) = (caches.keys.view_mut(), caches.values.view_mut());
        let (k_cache, v_cache) = (keys.reborrow().any(), values.reborrow().any());
        let args = args::qk_norm_rope_cache_write::Args {
            k,
            v,
            weight,
            cos,
            sin,
            positions,
            slots,
            k_cache,
            v_cache,
        };
        self.run(&op, args)
    }
    /// [`RopeQkCacheWrite`]: returns the rotated queries `[n, heads, d]`; writes the keys and values `rows` to `caches`. The norms'
    /// weights may be `None`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let q = b.tensor(&[1, 2, 2], &[1.0f32, 2.0, 5.0, 6.0])?;
    /// let (k, v) = (b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?, b.tensor(&[1, 1, 2], &[3.0f32, 4.0])?);
    /// // Row 1 of the tables is a quarter turn.
    /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
    /// let (positions, slots) = (b.tensor(&[1], &[1u32])?, b.tensor(&[1], &[0u32])?);
    /// let (mut keys, mut values) = (b.zeros::<f32>(&[1, 1, 2])?, b.zeros::<f32>(&[1, 1, 2])?);
    /// let (rows, tables) = (KeysValues { keys: &k, values: &v }, Tables { cos: &cos, sin: &sin });
    /// let caches = KeysValues { keys: &mut keys, values: &mut values };
    /// let norms = QueryKey { query: None, key: None };
    /// let y = b.rope_qk_cache_write(&q, rows, norms, tables, &positions, &slots, caches, 0.0)?;
    /// assert_eq!(y.to_vec(&b)?, [-2.0, 1.0, -6.0, 5.0]);
    /// assert_eq!((keys.to_vec(&b)?, values.to_vec(&b)?), (vec![-2.0, 1.0], vec![3.0, 4.0]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    fn rope_qk_cache_write<T: Float, C: Element>(
        &self,
        q: impl AsView<Self::Space, T>,
        rows: KeysValues<impl AsView<Self::Space, T>, impl AsView<Self::Space, T>>,
        norms: QueryKey<impl AsOptional<Self::Space>, impl AsOptional<Self::Space>>,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<RopeQkCacheWrite<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: CacheOps<T>,
    {
        let mut y = self.empty(q.view().shape())?;
        self.rope_qk_cache_write_into(q, rows, norms, tables, positions, slots, &mut y, caches, op)?;
        Ok(y)
    }
    /// [`rope_qk_cache_write`](Self::rope_qk_cache_write) into `y`.
    ///
    /// # Errors
    /// As [`rope_qk_cache_write`](Self::rope_qk_cache_write), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn rope_qk_cache_write_into<T: Float, C: Element>(
        &self,
        q: impl AsView<Self::Space, T>,
        rows: KeysValues<impl AsView<Self::Space, T>, impl AsView<Self::Space, T>>,
        norms: QueryKey<impl AsOptional<Self::Space>, impl AsOptional<Self::Space>>,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        mut caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<RopeQkCacheWrite<T>>,
    ) -> Result<()>
    where
        Self: CacheOps<T>,
    {
        let op = op.into();
        let (q, k, v) = (q.view(), rows.keys.view(), rows.values.view());
        let (q_norm, k_norm) = (norms.query.optional_view(), norms.key.optional_view());
        let (cos, sin) = (tables.cos.any_view(), tables.sin.any_view());
        let (positions, slots) = (positions.any_view(), slots.any_view());
        let (mut y, mut keys, mut values) = (y.view_mut(), caches.keys.view_mut(), caches.values.view_mut());
        let args = args::rope_qk_cache_write::Args {
            q,
            k,
            v,
            q_norm,
            k_norm,
            cos,
            sin,
            positions,
            slots,
            k_cache: keys.reborrow().any(),
            v_cache: values.reborrow().any(),
            y: y.reborrow(),
        };
        self.run(&op, args)
    }
    /// [`RmsNormLinearRopeCacheWrite`]: returns the rotated queries `[n, heads, d]` of the product of normed rows with the weights of queries,
    /// keys and values, and writes keys and values to `caches`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // A row of mean square 1, and one head of each kind: the query is (1, 2), the key (3, 4), and the value 5.
    /// let (x, norm) = (b.tensor(&[1, 1], &[1.0f32])?, b.tensor(&[1], &[1.0f32])?);
    /// let weight = b.tensor(&[5, 1], &[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
    /// // A quarter turn.
    /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
    /// let (positions, slots) = (b.tensor(&[1], &[0u32])?, b.tensor(&[1], &[0u32])?);
    /// let (mut keys, mut values) = (b.zeros::<f32>(&[1, 1, 2])?, b.zeros::<f32>(&[1, 1, 1])?);
    /// let product = NormedProduct { x: &x, norm: &norm, weight: &weight, bias: None };
    /// let tables = Tables { cos: &cos, sin: &sin };
    /// let caches = KeysValues { keys: &mut keys, values: &mut values };
    /// let y = b.rms_norm_linear_rope_cache_write(product, tables, &positions, &slots, caches, 0.0)?;
    /// assert_eq!(y.to_vec(&b)?, [-2.0, 1.0]);
    /// assert_eq!((keys.to_vec(&b)?, values.to_vec(&b)?), (vec![-4.0, 3.0], vec![5.0]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn rms_norm_linear_rope_cache_write<T: Float, C: Element>(
        &self,
        product: NormedProduct<
            impl AsView<Self::Space, T>,
            impl AsAny<Self::Space>,
            impl AsAny<Self::Space>,
            impl AsOptional<Self::Space>,
        >,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        mut caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<RmsNormLinearRopeCacheWrite<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: CacheOps<T>,
    {
        let op = op.into();
        let of_caches = [*caches.keys.view_mut().layout(), *caches.values.view_mut().layout()];
        let heads = Heads::of(Op::name(&op), product.weight.any_view().layout(), of_caches.each_ref())?;
        let n = product.x.view().dims().first().copied().unwrap_or(0);
        let mut y = self.empty(heads.of_queries(n)?)?;
        self.rms_norm_linear_rope_cache_write_into(product, tables, positions, slots, &mut y, caches, op)?;
        Ok(y)
    }
    /// [`rms_norm_linear_rope_cache_write`](Self::rms_norm_linear_rope_cache_write) into `y`.
    ///
    /// # Errors
    /// As [`rms_norm_linear_rope_cache_write`](Self::rms_norm_linear_rope_cache_write), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn rms_norm_linear_rope_cache_write_into<T: Float, C: Element>(
        &self,
        product: NormedProduct<
            impl AsView<Self::Space, T>,
            impl AsAny<Self::Space>,
            impl AsAny<Self::Space>,
            impl AsOptional<Self::Space>,
        >,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        mut caches: KeysValues<impl AsViewMut<Self::Space, C>, impl AsViewMut<Self::Space, C>>,
        op: impl Into<RmsNormLinearRopeCacheWrite<T>>,
    ) -> Result<()>
    where
        Self: CacheOps<T>,
    {
        let NormedProduct { x, norm, weight, bias } = product;
        let op = op.into();
        let (x, norm, weight, bias) = (x.view(), norm.any_view(), weight.any_view(), bias.optional_view());
        let (cos, sin) = (tables.cos.any_view(), tables.sin.any_view());
        let (positions, slots) = (positions.any_view(), slots.any_view());
        let (mut y, mut keys, mut values) = (y.view_mut(), caches.keys.view_mut(), caches.values.view_mut());
        let args = args::rms_norm_linear_rope_cache_write::Args {
            x,
            norm,
            weight,
            bias,
            cos,
            sin,
            positions,
            slots,
            k_cache: keys.reborrow().any(),
            v_cache: values.reborrow().any(),
            y: y.reborrow(),
        };
        self.run(&op, args)
    }
    /// Whether the backend has fused kernels for [`RmsNormLinearRopeCacheWrite`] of these operands. If not, call its parts.
    fn fuses_rms_norm_linear_rope_cache_write<T: Float, C: Element>(
        &self,
        product: NormedProduct<
            impl AsView<Self::Space, T>,
            impl AsAny<Self::Space>,
            impl AsAny<Self::Space>,
            impl AsOptional<Self::Space>,
        >,
        tables: Tables<impl AsAny<Self::Space>, impl AsAny<Self::Space>>,
        positions: impl AsAny<Self::Space>,
        slots: impl AsAny<Self::Space>,
        caches: KeysValues<impl AsView<Self::Space, C>, impl AsView<Self::Space, C>>,
        op: impl Into<RmsNormLinearRopeCacheWrite<T>>,
    ) -> bool
    where
        Self: CacheOps<T>,
    {
        let NormedProduct { x, norm, weight, bias } = product;
        let (x, norm, weight, bias) =
            (x.view().any(), norm.any_view(), weight.any_view(), bias.optional_view());
        let (cos, sin) = (tables.cos.any_view(), tables.sin.any_view());
        let (positions, slots) = (positions.any_view(), slots.any_view());
        let (keys, values) = (caches.keys.view().any(), caches.values.view().any());
        let read = [
            Some(x.operand("x")),
            Some(norm.operand("norm")),
            Some(weight.operand("weight")),
            bias.as_ref().map(|bias| bias.operand("bias")),
            Some(cos.operand("cos")),
            Some(sin.operand("sin")),
            Some(positions.operand("positions")),
            Some(slots.operand("slots")),
        ];
        let caches = [keys.operand("k_cache"), values.operand("v_cache")];
        projected::fuses(self, &op.into(), &read, caches)
    }
}
