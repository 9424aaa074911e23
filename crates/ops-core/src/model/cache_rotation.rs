//! Rotating queries and keys, and writing keys and values to a cache.
use crate::ops::{
    CacheMethods, CacheOps, KeysValues, NormedProduct, QkNormRopeCacheWrite, QueryKey,
    RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder, RopeQkCacheWrite, Tables,
};
use crate::{AnyRef, Backend, Float, Result, Space, TensorMut, TensorRef};

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

/// Rows from which one product makes queries, keys and values.
#[derive(Debug)]
pub struct Projection<'a, S: Space, T: Float> {
    /// The rows `[t, m]`, their norm, and the product, whose columns are the heads of queries, keys and values.
    pub product: NormedProduct<TensorRef<'a, S, T>, AnyRef<'a, S>, AnyRef<'a, S>, Option<AnyRef<'a, S>>>,
    /// The norm's eps.
    pub eps: f64,
    /// The rotated queries, `[t, heads, d]`.
    pub y: TensorMut<'a, S, T>,
}

impl<S: Space> CacheRotation<'_, S> {
    /// Computes the projection, and writes its keys and values to `caches`, if the backend has a kernel for all of that. Otherwise,
    /// returns `false` and writes nothing.
    pub(super) fn project<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        self,
        b: &B,
        projection: Projection<'_, S, T>,
        caches: KeysValues<TensorMut<'_, S, T>>,
    ) -> Result<bool> {
        let CacheRotation { cos, sin, positions, slots, order, norm: None } = self else { return Ok(false) };
        let (tables, Projection { product, eps, y }) = (Tables { cos, sin }, projection);
        let NormedProduct { x, norm, weight, bias } = &product;
        let asked = NormedProduct { x, norm, weight, bias: bias.as_ref().map(|bias| bias.shorten()) };
        let op = RmsNormLinearRopeCacheWrite::eps(eps).order(order);
        let of_caches = KeysValues { keys: &caches.keys, values: &caches.values };
        if !b.fuses_rms_norm_linear_rope_cache_write(asked, tables, positions, slots, of_caches, op) {
            return Ok(false);
        }
        b.rms_norm_linear_rope_cache_write_into(product, tables, positions, slots, y, caches, op)?;
        Ok(true)
    }

    /// Writes `rows` to `caches` with one op.
    pub(super) fn write<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        self,
        b: &B,
        queries: Option<Queries<'_, S, T>>,
        rows: KeysValues<TensorRef<'_, S, T>>,
        caches: KeysValues<TensorMut<'_, S, T>>,
    ) -> Result<()> {
        let CacheRotation { cos, sin, positions, slots, order, norm } = self;
        let tables = Tables { cos, sin };
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
