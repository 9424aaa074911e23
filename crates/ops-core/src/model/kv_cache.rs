//! Cache of the keys and values of earlier tokens.
use crate::ops::CopyOps;
use crate::{Backend, Element, Error, Float, Ref, Result, Space, Tensor, TensorRef, View};

/// The keys and values of one layer, each `[b, h_kv, capacity, d]`. The first [`len`](KvCache::len) tokens are filled.
///
/// The caller owns the cache. It uses only copies and views, so it works with every backend and combinator of its [`Space`], and
/// attention reads it in place.
#[derive(Debug)]
pub struct KvCache<S: Space, T: Element> {
    keys: Tensor<S, T>,
    values: Tensor<S, T>,
    len: usize,
}

impl<S: Space, T: Float> KvCache<S, T> {
    /// Allocates an empty cache for `dims = [b, h_kv, capacity, d]`.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new<B: Backend<Space = S>>(backend: &B, dims: [usize; 4]) -> Result<Self> {
        Ok(KvCache { keys: backend.zeros(&dims)?, values: backend.zeros(&dims)?, len: 0 })
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
    /// The cache is full, in which case nothing changed; and any error that the backend reports.
    pub fn append<B: CopyOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: Ref<'_, B, T>,
        values: Ref<'_, B, T>,
    ) -> Result<()> {
        let t = keys.dims().get(2).copied().unwrap_or(0);
        if t > self.capacity() - self.len {
            let want =
                format!("at most {} more of a capacity of {}", self.capacity() - self.len, self.capacity());
            return Err(Error::param("kv_cache", "tokens", t, want));
        }
        backend.copy_into(keys, self.keys.as_mut().narrow(2, self.len, t)?)?;
        backend.copy_into(values, self.values.as_mut().narrow(2, self.len, t)?)?;
        self.len += t;
        Ok(())
    }

    /// The keys in the cache, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn keys(&self) -> Result<TensorRef<'_, S, T>> {
        self.keys.as_ref().narrow(2, 0, self.len)
    }
    /// The values in the cache, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        self.values.as_ref().narrow(2, 0, self.len)
    }
}
