//! Cache of the keys and values of earlier tokens.
use super::{CacheRotation, Projection, Queries};
use crate::ops::{CacheOps, CopyMethods, CopyOps, KeysValues};
use crate::{AsView, Backend, Element, Error, Float, Layout, Result, Space, Tensor, TensorMut, TensorRef};

/// The keys and values of one layer, each `[b, h_kv, capacity, d]`. The first [`len`](KvCache::len) tokens are filled.
///
/// In latent attention, values are the first features of keys and use no memory of their own
/// ([`latent`](KvCache::latent)).
///
/// The caller owns the cache. It uses only copies and views, so it works with every backend and combinator of its [`Space`], and
/// attention reads it in place.
#[derive(Debug)]
pub struct KvCache<S: Space, T: Element> {
    keys: Tensor<S, T>,
    values: Values<S, T>,
    len: usize,
}

/// Where the values are.
#[derive(Debug)]
pub(super) enum Values<S: Space, T: Element> {
    Own(Tensor<S, T>),
    /// The first features of each key, this many.
    OfKeys(usize),
}

impl<S: Space, T: Element> Values<S, T> {
    /// Values that are the first `dv` of the `d` features of keys.
    pub(super) fn of_keys(cache: &'static str, d: usize, dv: usize) -> Result<Self> {
        if dv > d {
            return Err(Error::param(cache, "dv", dv, format!("at most {d}, the width of keys")));
        }
        Ok(Values::OfKeys(dv))
    }
    /// The memory of separate values, or an error that names `instead`, the call for a cache of keys only.
    pub(super) fn own(&mut self, cache: &'static str, instead: &str) -> Result<&mut Tensor<S, T>> {
        match self {
            Values::Own(values) => Ok(values),
            Values::OfKeys(_) => {
                let want = format!(
                    "none: the values of this cache are the first features of its keys; call {instead}"
                );
                Err(Error::param(cache, "values", "some", want))
            }
        }
    }
    /// Checks that a cache holds keys only. The error names `instead`, the call that takes values too.
    pub(super) fn none(&self, cache: &'static str, instead: &str) -> Result<()> {
        match self {
            Values::Own(_) => {
                Err(Error::param(cache, "values", "none", format!("separate values; call {instead}")))
            }
            Values::OfKeys(_) => Ok(()),
        }
    }
}

/// Checks the shape of an operand of a call that writes to a cache.
pub(super) fn fits(call: &'static str, operand: &'static str, got: &Layout, want: &[usize]) -> Result<()> {
    if got.dims() == want { Ok(()) } else { Err(Error::shape(call, operand, got, format!("{want:?}"))) }
}

impl<S: Space, T: Float> KvCache<S, T> {
    /// Allocates an empty cache for `dims = [b, h_kv, capacity, d]`.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new<B: Backend<Space = S>>(backend: &B, dims: [usize; 4]) -> Result<Self> {
        Ok(KvCache { keys: backend.zeros(&dims)?, values: Values::Own(backend.zeros(&dims)?), len: 0 })
    }
    /// Allocates an empty cache of keys, `dims = [b, h_kv, capacity, d]`, whose first `dv` features are the values.
    ///
    /// # Errors
    /// [`Error::Param`] if `dv` is more than `d`; as [`Backend::zeros`].
    ///
    /// ```
    /// # use rocm_ops::{Backend, model::KvCache};
    /// # let b = rocm_ops::Cpu::new();
    /// let mut cache = KvCache::latent(&b, [1, 1, 8, 3], 2)?;
    /// let keys = b.tensor(&[1, 1, 1, 3], &[1.0f32, 2.0, 3.0])?;
    /// cache.append_keys(&b, &keys)?;
    /// assert_eq!(cache.values()?.dims(), [1, 1, 1, 2]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    pub fn latent<B: Backend<Space = S>>(backend: &B, dims: [usize; 4], dv: usize) -> Result<Self> {
        let values = Values::of_keys("KvCache::latent", dims[3], dv)?;
        Ok(KvCache { keys: backend.zeros(&dims)?, values, len: 0 })
    }
    /// An empty cache of the same extents.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn emptied<B: Backend<Space = S>>(&self, backend: &B) -> Result<Self> {
        match &self.values {
            Values::Own(_) => Self::new(backend, self.dims()),
            Values::OfKeys(dv) => Self::latent(backend, self.dims(), *dv),
        }
    }
    /// A copy, of the same capacity. Copies only the tokens in use.
    ///
    /// # Errors
    /// As [`Backend::zeros`], and errors of the copy.
    pub fn fork<B: CopyOps + Backend<Space = S>>(&self, backend: &B) -> Result<Self> {
        let mut copy = self.emptied(backend)?;
        if copy.is_latent() {
            copy.append_keys(backend, self.keys()?)?;
        } else {
            copy.append(backend, self.keys()?, self.values()?)?;
        }
        Ok(copy)
    }
    /// The extents, `[b, h_kv, capacity, d]`.
    pub fn dims(&self) -> [usize; 4] {
        let dims = self.keys.dims();
        [dims[0], dims[1], dims[2], dims[3]]
    }
    /// Whether the values are the first features of the keys.
    pub fn is_latent(&self) -> bool {
        matches!(self.values, Values::OfKeys(_))
    }
    /// Number of tokens in the cache.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether the cache holds no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Number of tokens that fit.
    pub fn capacity(&self) -> usize {
        self.keys.dims()[2]
    }
    /// Removes all but the first `len` tokens.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends the keys and values `[b, h_kv, t, d]` of `t` tokens.
    ///
    /// # Errors
    /// The cache is full or holds keys only (it is then unchanged), or the backend fails.
    pub fn append<B: CopyOps + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
        values: impl AsView<S, T>,
    ) -> Result<()> {
        const CALL: &str = "KvCache::append";
        let (keys, values) = (keys.view(), values.view());
        let (t, len) = (self.room_for(CALL, ("keys", keys.layout()), 2)?, self.len);
        let own = self.values.own(CALL, "append_keys")?;
        let (of_keys, of_values) = (self.keys.dims(), own.dims());
        fits(CALL, "keys", keys.layout(), &[of_keys[0], of_keys[1], t, of_keys[3]])?;
        fits(CALL, "values", values.layout(), &[of_values[0], of_values[1], t, of_values[3]])?;
        backend.copy_into(values, own.as_mut().narrow(2, len, t)?)?;
        backend.copy_into(keys, self.keys.as_mut().narrow(2, len, t)?)?;
        self.len += t;
        Ok(())
    }
    /// Rotates keys `[t, h_kv, d]` and appends them and the values `[t, h_kv, dv]` of one text with a single
    /// op, which rotates `queries` too, if given. The slots must be those of the next `t` tokens.
    ///
    /// # Errors
    /// The cache is full, holds keys only, or holds more than one text (it is then unchanged), or the backend
    /// fails.
    pub fn append_rotated<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        queries: Option<Queries<'_, S, T>>,
        keys: impl AsView<S, T>,
        values: impl AsView<S, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<()> {
        const CALL: &str = "KvCache::append_rotated";
        let (keys, values) = (keys.view(), values.view());
        let t = self.room_for(CALL, ("keys", keys.layout()), 0)?;
        let caches = self.used_by_slot(CALL, t)?;
        let (&[_, h, d], &[.., dv]) = (caches.keys.dims(), caches.values.dims()) else {
            unreachable!("rows of heads")
        };
        fits(CALL, "keys", keys.layout(), &[t, h, d])?;
        fits(CALL, "values", values.layout(), &[t, h, dv])?;
        rotation
            .write(backend, queries, KeysValues { keys, values }, caches)
            .map_err(|error| error.of_call(CALL))?;
        self.len += t;
        Ok(())
    }
    /// Computes queries, keys and values of one text from `projection`, rotates queries and keys, and appends keys and values. Returns the queries
    /// `[t, heads, d]`; or `None`, with nothing done, if the backend has no kernel for all of it.
    ///
    /// # Errors
    /// As [`append_rotated`](Self::append_rotated).
    pub fn append_projected<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        projection: Projection<'_, S, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<Option<Tensor<S, T>>> {
        const CALL: &str = "KvCache::append_projected";
        let t = self.room_for(CALL, ("x", projection.product.x.layout()), 0)?;
        let done = rotation.project(backend, projection, self.used_by_slot(CALL, t)?);
        let queries = done.map_err(|error| error.of_call(CALL))?;
        self.len += if queries.is_some() { t } else { 0 };
        Ok(queries)
    }
    /// Appends the keys `[b, h_kv, t, d]` of `t` tokens; the values are the first features.
    ///
    /// # Errors
    /// The cache is full or has separate values (it is then unchanged), or the backend fails.
    pub fn append_keys<B: CopyOps + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
    ) -> Result<()> {
        const CALL: &str = "KvCache::append_keys";
        let keys = keys.view();
        let t = self.room_for(CALL, ("keys", keys.layout()), 2)?;
        self.values.none(CALL, "append")?;
        let dims = self.keys.dims();
        fits(CALL, "keys", keys.layout(), &[dims[0], dims[1], t, dims[3]])?;
        backend.copy_into(keys, self.keys.as_mut().narrow(2, self.len, t)?)?;
        self.len += t;
        Ok(())
    }

    /// The slots `[n, h_kv, d]` of the tokens so far and of the next `t`, of a cache of one text. A combinator that copies operands copies no
    /// more than that.
    fn used_by_slot(&mut self, call: &'static str, t: usize) -> Result<KeysValues<TensorMut<'_, S, T>>> {
        let n = self.len + t;
        let (Values::Own(own), &[1, h, _, d]) = (&mut self.values, self.keys.dims()) else {
            let want = "a cache of one text with separate values";
            return Err(Error::param(call, "cache", "of several texts, or of keys only", want));
        };
        let dv = own.dims()[3];
        let keys = self.keys.as_mut().narrow(2, 0, n)?.reshape(&[h, n, d])?.transpose(0, 1)?;
        let values = own.as_mut().narrow(2, 0, n)?.reshape(&[h, n, dv])?.transpose(0, 1)?;
        Ok(KeysValues { keys, values })
    }

    /// The number of tokens of these rows, the extent of an axis, if they fit.
    fn room_for(
        &self,
        call: &'static str,
        (name, of): (&'static str, &Layout),
        axis: usize,
    ) -> Result<usize> {
        let (tokens, capacity) = (of.dims().get(axis).copied().unwrap_or(0), self.capacity());
        let room = capacity - self.len;
        if tokens <= room {
            return Ok(tokens);
        }
        let want = format!("at most {room} more tokens; the capacity is {capacity}");
        Err(Error::shape(call, name, of, want))
    }

    /// The keys in the cache, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn keys(&self) -> Result<TensorRef<'_, S, T>> {
        self.keys.narrow(2, 0, self.len)
    }
    /// The values in the cache, `[b, h_kv, len, d]`, or the first features of the keys.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        match &self.values {
            Values::Own(values) => values.narrow(2, 0, self.len),
            Values::OfKeys(dv) => self.keys()?.narrow(3, 0, *dv),
        }
    }
}
