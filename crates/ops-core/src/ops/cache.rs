//! Writing rows to key and value caches, at slots that the device reads.
//!
//! A cache is `[slots, ..]`, a row for each token that it may hold. The slots are data, so that the same call
//! serves contiguous, rotating and paged caches, and a recorded call can be replayed with other slots.
use super::declare::ops;
use super::extents;
use super::norm::{valid_eps, weights};
use super::{RopeOrder, angles};
use crate::{DType, Error, Float, Layout, Op, Operand, Operands, Result, Shape, Tolerance};

mod methods;
mod parts;
mod projected;

pub use methods::*;

ops! {
    /// Writes rows to slots of a cache: `cache[slots[i], ..] = x[i, ..]`, converted to the cache's type.
    ///
    /// Operands:
    /// - `x[n, ..]`;
    /// - `slots[n]` of an index type: the row of the cache for each row of `x`. The largest value of the type
    ///   skips the row; any other slot that the cache does not have is [`Error::Index`]. Slots that are not
    ///   skipped must be distinct, or it is unspecified which row is kept;
    /// - `cache[slots, ..]` of `T` or f8e4m3, read and written: rows that no slot names are unchanged.
    pub struct CacheWrite<T: Float> {}
    const OP;
    operands cache_write { x: in T [n, h, d], slots: in any(indices) [n], cache: inout any [c, h, d] }

    /// Rotates keys and writes keys and values to their slots in the caches: `rope_thd` of `k`, then
    /// [`CacheWrite`] of both. Nothing is rounded in between.
    ///
    /// Operands:
    /// - `k[n, h, d]` with even `d`, and `v[n, h, dv]`;
    /// - `cos` and `sin` of any float type: tables `[t', r/2]`, where `r ≤ d`. The first `r` features of a head are rotated;
    /// - `positions[n]` of an index type: the table's row for each token. A position outside the table is
    ///   [`Error::Index`], even if the token's slot is skipped;
    /// - `slots[n]`, `k_cache[slots, h, d]` and `v_cache[slots, h, dv]`: as for [`CacheWrite`]; the caches have one type.
    pub struct RopeCacheWrite<T: Float> {
        /// How features pair up.
        pub order: RopeOrder [or RopeOrder::Half],
    }
    /// Rotates pairs of this order.
    fn order;
    operands rope_cache_write {
        k: in T [n, h, d], v: in T [n, h, e], cos: in any(floats) [t, d/2], sin: in any [t, d/2], positions: in any(indices) [n],
        slots: in any(indices) [n], k_cache: inout any [c, h, d], v_cache: inout any [c, h, e]
    }

    /// Norms keys, rotates them, and writes keys and values to their slots in the caches:
    /// [`QkNormRope`](super::QkNormRope) of `k`, then [`CacheWrite`] of both. Nothing is rounded in between.
    ///
    /// Operands: those of [`RopeCacheWrite`], and the norm's `weight[d]` of any float type.
    pub struct QkNormRopeCacheWrite<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
        /// How features pair up.
        pub order: RopeOrder = RopeOrder::Half,
    }
    /// Norms with this `eps` and rotates pairs `(i, i + r/2)`.
    fn eps;
    operands qk_norm_rope_cache_write {
        k: in T [n, h, d], v: in T [n, h, e], weight: in any(floats) [d], cos: in any(floats) [t, d/2], sin: in any [t, d/2],
        positions: in any(indices) [n], slots: in any(indices) [n], k_cache: inout any [c, h, d], v_cache: inout any [c, h, e]
    }

    /// All that a decoder layer does between its projections and attention. Norms the heads of queries and keys if their norm is given, rotates
    /// both, and writes keys and values to their slots in the caches. Nothing is rounded in between.
    ///
    /// Operands:
    /// - `q[n, g, d]`; `q_norm[d]` and `k_norm[d]`, optional: the norms' weights, of any float type;
    /// - the others as for [`RopeCacheWrite`];
    /// - `y` like `q`: the rotated queries, also of tokens whose slot is skipped.
    ///
    /// As parts: [`QkNormRope`](super::QkNormRope) or [`Rope`](super::Rope) of `q`; [`QkNormRopeCacheWrite`] or [`RopeCacheWrite`].
    pub struct RopeQkCacheWrite<T: Float> {
        /// Added to the mean square, inside the root, if there are norms.
        pub eps: f64 [or 0.0],
        /// How features pair up.
        pub order: RopeOrder = RopeOrder::Half,
    }
    /// Norms with this `eps` and rotates pairs `(i, i + r/2)`.
    fn eps;
    operands rope_qk_cache_write {
        q: in T [n, g, d], k: in T [n, h, d], v: in T [n, h, e], q_norm: opt any(floats) [d], k_norm: opt any(floats) [d],
        cos: in any(floats) [t, d/2], sin: in any [t, d/2], positions: in any(indices) [n], slots: in any(indices) [n],
        k_cache: inout any [c, h, d], v_cache: inout any [c, h, e], y: out T [n, g, d]
    }

    /// All that a decoder layer does before attention: the product of its normed rows with the weights of queries, keys and values, and
    /// [`RopeQkCacheWrite`] of the result, without norms of heads.
    ///
    /// Operands:
    /// - `x[n, m]`, the weight `norm[m]` of its norm, `weight[o, m]` and `bias[o]`: as for [`RmsNormLinear`](super::RmsNormLinear). The
    ///   rows of the weight are the heads of queries, then of keys, then of values, so `o = (g + h) d + h e`;
    /// - the others as for [`RopeQkCacheWrite`]; `y[n, g, d]` are the rotated queries.
    ///
    /// As parts: [`RmsNormLinear`](super::RmsNormLinear), then [`RopeQkCacheWrite`]. A backend may round the product to `T`.
    pub struct RmsNormLinearRopeCacheWrite<T: Float> {
        /// Added to the mean square of a row of `x`, inside the root.
        pub eps: f64,
        /// How features pair up.
        pub order: RopeOrder = RopeOrder::Half,
    }
    /// Norms with this `eps` and rotates pairs `(i, i + r/2)`.
    fn eps;
    operands rms_norm_linear_rope_cache_write {
        x: in T [n, m], norm: in any(floats) [m], weight: in any [o, m], bias: opt any(floats) [o],
        cos: in any(floats) [t, d/2], sin: in any [t, d/2], positions: in any(indices) [n], slots: in any(indices) [n],
        k_cache: inout any [c, h, d], v_cache: inout any [c, h, e], y: out T [n, g, d]
    }
}
impl<T: Float> Op for CacheWrite<T> {
    fn infer(&self, on: &args::cache_write::Shapes<'_>) -> Result<[Shape; 0]> {
        let op = self.name();
        let Some((&n, row)) = on.x.dims().split_first() else {
            return Err(Error::shape(op, "x", on.x, "[n, ..]"));
        };
        check_slots(op, &on.slots, n)?;
        check_cache::<T>(op, &on.cache, row)?;
        Ok([])
    }
    /// Rounded once by the cast rules, so all backends agree.
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl<T: Float> Op for RopeCacheWrite<T> {
    fn infer(&self, on: &args::rope_cache_write::Shapes<'_>) -> Result<[Shape; 0]> {
        let rows = Rows {
            op: self.name(),
            k: on.k,
            v: on.v,
            tables: [&on.cos, &on.sin],
            positions: &on.positions,
            slots: &on.slots,
            caches: [&on.k_cache, &on.v_cache],
        };
        rows.check::<T>()?;
        Ok([])
    }
    fn tolerance(&self, output: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        of_cache(output, dtype)
    }
}

impl<T> QkNormRopeCacheWrite<T> {
    /// Rotates pairs of this order.
    pub fn order(self, order: RopeOrder) -> Self {
        QkNormRopeCacheWrite { order, ..self }
    }
}
impl<T: Float> Op for QkNormRopeCacheWrite<T> {
    fn infer(&self, on: &args::qk_norm_rope_cache_write::Shapes<'_>) -> Result<[Shape; 0]> {
        valid_eps(self.name(), self.eps)?;
        let rows = Rows {
            op: self.name(),
            k: on.k,
            v: on.v,
            tables: [&on.cos, &on.sin],
            positions: &on.positions,
            slots: &on.slots,
            caches: [&on.k_cache, &on.v_cache],
        };
        weights(rows.op, Some(on.weight), rows.check::<T>()?)?;
        Ok([])
    }
    fn tolerance(&self, output: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        of_cache(output, dtype)
    }
}

impl<T> RopeQkCacheWrite<T> {
    /// Rotates pairs of this order.
    pub fn order(self, order: RopeOrder) -> Self {
        RopeQkCacheWrite { order, ..self }
    }
}
impl<T: Float> Op for RopeQkCacheWrite<T> {
    fn infer(&self, on: &args::rope_qk_cache_write::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        valid_eps(op, self.eps)?;
        let rows = Rows {
            op,
            k: on.k,
            v: on.v,
            tables: [&on.cos, &on.sin],
            positions: &on.positions,
            slots: &on.slots,
            caches: [&on.k_cache, &on.v_cache],
        };
        let d = rows.check::<T>()?;
        weights(op, on.q_norm, d)?;
        weights(op, on.k_norm, d)?;
        match (on.q.dims(), on.k.dims()) {
            (&[n, _, of_head], &[rows, ..]) if (n, of_head) == (rows, d) => Ok([on.q.shape()]),
            (_, k) => Err(Error::shape(op, "q", on.q, format!("[{}, heads, {d}]", k[0]))),
        }
    }
    fn tolerance(&self, output: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        of_cache(output, dtype)
    }
}

/// Values are stored unchanged, queries and keys are rounded once.
fn of_cache(output: &'static str, dtype: DType) -> Tolerance {
    if output == "v_cache" { Tolerance::Exact } else { Tolerance::rounded(dtype) }
}

fn check_slots(op: &'static str, slots: &Operand<'_>, n: usize) -> Result<()> {
    slots.require(op, DType::is_index, "u8, u32, i32 or i64")?;
    extents(op, "slots", slots.layout, &[n])
}

/// Checks a cache of rows of this shape, and returns its number of slots.
fn check_cache<T: Float>(op: &'static str, cache: &Operand<'_>, row: &[usize]) -> Result<usize> {
    if cache.dtype != T::DTYPE && cache.dtype != DType::F8E4M3 {
        let want = "the type of the rows, or f8e4m3";
        return Err(Error::DType { op, operand: cache.name, got: cache.dtype, want });
    }
    match cache.dims().split_first() {
        Some((slots, of_slot)) if of_slot == row => Ok(*slots),
        _ => {
            let want = format!("[slots, ..] with rows of {row:?}");
            Err(Error::shape(op, cache.name, cache.layout, want))
        }
    }
}

/// Operands that all ops on keys and values share.
struct Rows<'a> {
    op: &'static str,
    k: &'a Layout,
    v: &'a Layout,
    tables: [&'a Operand<'a>; 2],
    positions: &'a Operand<'a>,
    slots: &'a Operand<'a>,
    caches: [&'a Operand<'a>; 2],
}

impl Rows<'_> {
    /// Checks all operands, and returns the number of features per head.
    fn check<T: Float>(&self) -> Result<usize> {
        let op = self.op;
        let (n, h, d) = match *self.k.dims() {
            [n, h, d] if d % 2 == 0 => (n, h, d),
            _ => return Err(Error::shape(op, "k", self.k, "[n, h, d] with d even")),
        };
        match *self.v.dims() {
            [rows, heads, _] if (rows, heads) == (n, h) => {}
            _ => return Err(Error::shape(op, "v", self.v, format!("[{n}, {h}, dv]"))),
        }
        angles::check_rows(op, self.tables, self.positions, (n, d))?;
        check_slots(op, self.slots, n)?;
        let [keys, values] = self.caches;
        let slots = check_cache::<T>(op, keys, &self.k.dims()[1..])?;
        if values.dtype != keys.dtype {
            let want = "the type of `k_cache`";
            return Err(Error::DType { op, operand: values.name, got: values.dtype, want });
        }
        extents(op, values.name, values.layout, &[slots, h, self.v.dims()[2]])?;
        Ok(d)
    }
}

/// Keys and values: rows of tokens to write, or the caches to write them to.
#[derive(Clone, Copy, Debug)]
pub struct KeysValues<K, V = K> {
    /// The keys.
    pub keys: K,
    /// The values.
    pub values: V,
}

/// Rows, the weight of their norm, and the weight and bias of the product of the normed rows.
#[derive(Clone, Copy, Debug)]
pub struct NormedProduct<X, N, W, B> {
    /// The rows.
    pub x: X,
    /// The weight of the norm.
    pub norm: N,
    /// The weight of the product.
    pub weight: W,
    /// The bias of the product, which may be absent.
    pub bias: B,
}

/// The tables of a rotation, as [`Rope`](super::Rope) takes them.
#[derive(Clone, Copy, Debug)]
pub struct Tables<C, S = C> {
    /// The cosine of each angle.
    pub cos: C,
    /// The sine of each angle.
    pub sin: S,
}

/// The weights of the norms of queries and keys, each of which may be absent.
#[derive(Clone, Copy, Debug)]
pub struct QueryKey<Q, K = Q> {
    /// Of queries.
    pub query: Q,
    /// Of keys.
    pub key: K,
}
