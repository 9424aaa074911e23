//! Rotating queries and keys, and writing keys and values to a cache.
use crate::ops::{
    CacheMethods, CacheOps, KeysValues, NormedProduct, QkNormRopeCacheWrite, QueryKey,
    RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder, RopeQkCacheWrite, Tables,
};
use crate::{AnyRef, AsView, Backend, Float, Result, Space, Tensor, TensorMut, TensorRef};

/// How keys are rotated as they are written to a cache, and where they and their values are stored.
#[derive(Clone, Copy, Debug)]
pub struct CacheRotation<'a, S: Space> {
    /// Tables, `[rows, r / 2]`.
    pub cos: AnyRef<'a, S>,
    /// Tables like `cos`.
    pub sin: AnyRef<'a, S>,
    /// The table row for each token, of an index type.
    pub positions: AnyRef<'a, S>,
    /// The cache slot for each token, of an index type.
    pub slots: AnyRef<'a, S>,
    /// How features pair up.
    pub order: RopeOrder,
    /// The weight and the eps of a norm before the rotation.
    pub norm: Option<(AnyRef<'a, S>, f64)>,
}

/// Queries that are rotated by the tables of their keys.
#[derive(Debug)]
pub struct Queries<'a, S: Space, T: Float> {
    /// The queries, `[t, heads, d]`.
    pub x: TensorRef<'a, S, T>,
    /// The weight of a norm before the rotation, with the eps of the keys' norm.
    pub norm: Option<AnyRef<'a, S>>,
    /// The rotated queries, like `x`.
    pub y: TensorMut<'a, S, T>,
}

impl<S: Space, T: Float> Queries<'_, S, T> {
    /// Those of `t` tokens from token `at` on.
    ///
    /// # Errors
    /// If there are fewer tokens.
    pub fn narrow(&mut self, at: usize, t: usize) -> Result<Queries<'_, S, T>> {
        let norm = self.norm.as_ref().map(|norm| norm.shorten());
        Ok(Queries { x: self.x.shorten().narrow(0, at, t)?, norm, y: self.y.reborrow().narrow(0, at, t)? })
    }
}

/// A product of normed rows.
pub type RowsProduct<'a, S, T> =
    NormedProduct<TensorRef<'a, S, T>, AnyRef<'a, S>, AnyRef<'a, S>, Option<AnyRef<'a, S>>>;

/// Rows from which one product, or two, make queries, keys and values.
#[derive(Debug)]
pub struct Projection<'a, S: Space, T: Float> {
    /// The rows `[t, m]`, their norm, and the product, whose columns are the heads of queries, keys and values.
    pub product: RowsProduct<'a, S, T>,
    /// The product of the same rows whose columns are the heads of values, if the first one does not have them.
    pub values: Option<RowsProduct<'a, S, T>>,
    /// The norm's eps.
    pub eps: f64,
}

impl<'a, S: Space> CacheRotation<'a, S> {
    /// Writes keys and values of the projection to `caches`, and returns its rotated queries `[t, heads, d]`, if the backend has kernels for all
    /// of that. Otherwise, it writes nothing.
    pub(super) fn project<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        self,
        b: &B,
        projection: Projection<'_, S, T>,
        caches: KeysValues<TensorMut<'_, S, T>>,
    ) -> Result<Option<Tensor<S, T>>> {
        if self.norm.is_some() {
            return Ok(None);
        }
        let Projection { product, values: apart, eps } = projection;
        let KeysValues { mut keys, mut values } = caches;
        let Some(apart) = apart else {
            let is_fused = self.fuses(b, &product, eps, [keys.view(), values.view()]);
            return is_fused.then(|| self.run(b, product, eps, KeysValues { keys, values })).transpose();
        };
        // Two calls: the values of one and the keys of the other have no features.
        let of_values =
            CacheRotation { cos: self.cos.narrow(1, 0, 0)?, sin: self.sin.narrow(1, 0, 0)?, ..self };
        let of_keys = [keys.view(), values.view().narrow(2, 0, 0)?];
        let own = [keys.view().narrow(2, 0, 0)?, values.view()];
        if !self.fuses(b, &product, eps, of_keys) || !of_values.fuses(b, &apart, eps, own) {
            return Ok(None);
        }
        let own = KeysValues { keys: keys.reborrow().narrow(2, 0, 0)?, values: values.reborrow() };
        of_values.run(b, apart, eps, own)?;
        self.run(b, product, eps, KeysValues { keys, values: values.narrow(2, 0, 0)? }).map(Some)
    }

    fn fuses<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        &self,
        b: &B,
        product: &RowsProduct<'_, S, T>,
        eps: f64,
        [keys, values]: [TensorRef<'_, S, T>; 2],
    ) -> bool {
        let NormedProduct { x, norm, weight, bias } = product;
        let product = NormedProduct { x, norm, weight, bias: bias.as_ref().map(|bias| bias.shorten()) };
        let (caches, op) = (KeysValues { keys, values }, self.projecting(eps));
        b.fuses_rms_norm_linear_rope_cache_write(
            product,
            self.tables(),
            self.positions,
            self.slots,
            caches,
            op,
        )
    }

    fn run<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        &self,
        b: &B,
        product: RowsProduct<'_, S, T>,
        eps: f64,
        caches: KeysValues<TensorMut<'_, S, T>>,
    ) -> Result<Tensor<S, T>> {
        let op = self.projecting(eps);
        b.rms_norm_linear_rope_cache_write(product, self.tables(), self.positions, self.slots, caches, op)
    }

    fn projecting<T: Float>(&self, eps: f64) -> RmsNormLinearRopeCacheWrite<T> {
        RmsNormLinearRopeCacheWrite::eps(eps).order(self.order)
    }

    fn tables(&self) -> Tables<AnyRef<'a, S>> {
        Tables { cos: self.cos, sin: self.sin }
    }

    /// Writes `rows` to `caches` with one op.
    pub(super) fn write<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        self,
        b: &B,
        queries: Option<Queries<'_, S, T>>,
        rows: KeysValues<TensorRef<'_, S, T>>,
        caches: KeysValues<TensorMut<'_, S, T>>,
    ) -> Result<()> {
        let (CacheRotation { positions, slots, order, norm, .. }, tables) = (self, self.tables());
        match (queries, norm) {
            (Some(Queries { x, norm: query, y }), _) => {
                let norms = QueryKey { query, key: norm.map(|(weight, _)| weight) };
                let op = RopeQkCacheWrite::eps(norm.map_or(0.0, |(_, eps)| eps)).order(order);
                b.rope_qk_cache_write_into(x, rows, norms, tables, positions, slots, y, caches, op)
            }
            (None, None) => {
                b.rope_cache_write(rows, tables, positions, slots, caches, RopeCacheWrite::order(order))
            }
            (None, Some((weight, eps))) => {
                let op = QkNormRopeCacheWrite::eps(eps).order(order);
                b.qk_norm_rope_cache_write(rows, weight, tables, positions, slots, caches, op)
            }
        }
    }
}
