//! Keys and values of the tokens seen so far.
use crate::ops::CopyOps;
use crate::{Backend, Element, Error, Float, Ref, Result, Space, Tensor, TensorRef, View};

/// Keys and values of one layer, `[b, h_kv, capacity, d]` of which the first [`len`](KvCache::len)
/// tokens are filled.
///
/// Plain core code over copies and views, owned by the caller: it works with every backend and
/// combinator of its [`Space`], and attention reads it in place.
#[derive(Debug)]
pub struct KvCache<S: Space, T: Element> {
    keys: Tensor<S, T>,
    values: Tensor<S, T>,
    len: usize,
}

impl<S: Space, T: Float> KvCache<S, T> {
    /// An empty cache for `dims = [b, h_kv, capacity, d]`.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new<B: Backend<Space = S>>(backend: &B, dims: [usize; 4]) -> Result<Self> {
        Ok(KvCache { keys: backend.zeros(&dims)?, values: backend.zeros(&dims)?, len: 0 })
    }
    /// Tokens held.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Tokens that fit.
    pub fn capacity(&self) -> usize {
        self.keys.dims()[2]
    }
    /// Forgets all but the first `len` tokens.
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

    /// The keys held, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn keys(&self) -> Result<TensorRef<'_, S, T>> {
        self.keys.as_ref().narrow(2, 0, self.len)
    }
    /// The values held, `[b, h_kv, len, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        self.values.as_ref().narrow(2, 0, self.len)
    }
}
