//! Cache of the keys and values of earlier tokens.
use crate::ops::CopyOps;
use crate::{Backend, Element, Error, Float, Ref, Result, Space, Tensor, TensorRef, View};

/// The keys and values of one layer, each `[b, h_kv, capacity, d]`. The first [`len`](KvCache::len) tokens are filled.
///
/// In latent attention, values are the first features of keys and take no memory of their own
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
    /// So many features of each key.
    OfKeys(usize),
}

impl<S: Space, T: Element> Values<S, T> {
    /// The first `dv` of `d` features.
    pub(super) fn of_keys(cache: &'static str, d: usize, dv: usize) -> Result<Self> {
        if dv > d {
            return Err(Error::param(cache, "dv", dv, format!("at most {d}, the width of keys")));
        }
        Ok(Values::OfKeys(dv))
    }
    /// The memory of values, or the error that `instead` takes keys only.
    pub(super) fn own(&mut self, cache: &'static str, instead: &str) -> Result<&mut Tensor<S, T>> {
        match self {
            Values::Own(values) => Ok(values),
            Values::OfKeys(_) => {
                let want = format!("none: the values of this cache are a part of its keys; call {instead}");
                Err(Error::param(cache, "values", "some", want))
            }
        }
    }
    /// Checks that a cache takes keys only; `instead` takes values too.
    pub(super) fn none(&self, cache: &'static str, instead: &str) -> Result<()> {
        match self {
            Values::Own(_) => {
                Err(Error::param(cache, "values", "none", format!("values of their own; call {instead}")))
            }
            Values::OfKeys(_) => Ok(()),
        }
    }
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
    /// # use ops_core::{Backend, View, model::KvCache};
    /// # let b = ops_cpu::Cpu::new();
    /// let mut cache = KvCache::latent(&b, [1, 1, 8, 3], 2)?;
    /// let keys = b.tensor(&[1, 1, 1, 3], &[1.0f32, 2.0, 3.0])?;
    /// cache.append_keys(&b, keys.as_ref())?;
    /// assert_eq!(cache.values()?.dims(), [1, 1, 1, 2]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    pub fn latent<B: Backend<Space = S>>(backend: &B, dims: [usize; 4], dv: usize) -> Result<Self> {
        let values = Values::of_keys("kv_cache", dims[3], dv)?;
        Ok(KvCache { keys: backend.zeros(&dims)?, values, len: 0 })
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
    /// The cache is full or holds keys only, in which case nothing changed; and any error that the backend reports.
    pub fn append<B: CopyOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: Ref<'_, B, T>,
        values: Ref<'_, B, T>,
    ) -> Result<()> {
        let (t, len) = (self.room_for(&keys)?, self.len);
        let own = self.values.own("kv_cache", "append_keys")?;
        backend.copy_into(values, own.as_mut().narrow(2, len, t)?)?;
        backend.copy_into(keys, self.keys.as_mut().narrow(2, len, t)?)?;
        self.len += t;
        Ok(())
    }
    /// Appends the keys `[b, h_kv, t, d]` of `t` tokens, of which the values are a part.
    ///
    /// # Errors
    /// The cache is full or has values of its own, in which case nothing changed; and any error that the backend reports.
    pub fn append_keys<B: CopyOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: Ref<'_, B, T>,
    ) -> Result<()> {
        let t = self.room_for(&keys)?;
        self.values.none("kv_cache", "append")?;
        backend.copy_into(keys, self.keys.as_mut().narrow(2, self.len, t)?)?;
        self.len += t;
        Ok(())
    }

    /// The number of tokens of these keys, if they fit.
    fn room_for(&self, keys: &impl View) -> Result<usize> {
        let (t, room) = (keys.dims().get(2).copied().unwrap_or(0), self.capacity() - self.len);
        if t > room {
            let want = format!("at most {room} more of a capacity of {}", self.capacity());
            return Err(Error::param("kv_cache", "tokens", t, want));
        }
        Ok(t)
    }

    /// The keys in the cache, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn keys(&self) -> Result<TensorRef<'_, S, T>> {
        self.keys.as_ref().narrow(2, 0, self.len)
    }
    /// The values in the cache, `[b, h_kv, len, d]`, or the first features of the keys.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        match &self.values {
            Values::Own(values) => values.as_ref().narrow(2, 0, self.len),
            Values::OfKeys(dv) => self.keys()?.narrow(3, 0, *dv),
        }
    }
}
