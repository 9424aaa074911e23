//! Cache of the keys and values inside an attention window.
use super::kv_cache::{Values, fits};
use crate::ops::{CopyMethods, CopyOps};
use crate::{AsView, Backend, Error, Float, Result, Space, Tensor, TensorRef};

/// The keys and values of one layer with windowed attention: the last tokens of a text of any length, in
/// memory of a fixed size.
///
/// [`keys`](WindowCache::keys) are those of the tokens of the last step and, before them, those which the first of these may see.
/// They are in text order, so [`Attention`](crate::ops::Attention) with the same window gives the same result
/// as with all keys.
///
/// Tokens are appended until the memory is full. Then those that are still needed move to its front. This
/// happens at most once every `window` tokens or once per step, whichever is longer.
///
/// ```
/// # use rocm_ops::{Backend, model::WindowCache};
/// # let b = rocm_ops::Cpu::new();
/// // A token sees itself and the one before it. Steps are of one token.
/// let mut cache = WindowCache::new(&b, [1, 1, 1], 2, 1)?;
/// for n in 0..5 {
///     let key = b.tensor(&[1, 1, 1, 1], &[n as f32])?;
///     cache.append(&b, &key, &key)?;
/// }
/// assert_eq!((cache.len(), cache.keys()?.to_vec(&b)?), (5, vec![3.0, 4.0]));
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct WindowCache<S: Space, T: Float> {
    /// `[b, h_kv, tokens, d]`, with or without separate values.
    keys: Tensor<S, T>,
    values: Values<S, T>,
    /// Number of tokens before a step that its first token may see.
    reach: usize,
    /// Maximum number of tokens in a step.
    step: usize,
    /// Start and end of the last step's keys together with those that they may see.
    start: usize,
    end: usize,
    /// Number of tokens in the last step.
    last: usize,
    len: usize,
}

impl<S: Space, T: Float> WindowCache<S, T> {
    /// Allocates an empty cache for `dims = [b, h_kv, d]`, a window of `window` tokens (including the query's
    /// own), and steps of up to `step` tokens.
    ///
    /// # Errors
    /// [`Error::Param`] if `window` or `step` is 0; [`Error::TooLarge`]; as [`Backend::zeros`].
    pub fn new<B: Backend<Space = S>>(
        backend: &B,
        dims: [usize; 3],
        window: usize,
        step: usize,
    ) -> Result<Self> {
        let dims = extents(dims, window, step)?;
        let values = Values::Own(backend.zeros(&dims)?);
        Ok(Self::of(backend.zeros(&dims)?, values, window, step))
    }
    /// The same for a cache of keys whose first `dv` features are the values.
    ///
    /// # Errors
    /// As [`new`](Self::new), and [`Error::Param`] if `dv` is more than `d`.
    pub fn latent<B: Backend<Space = S>>(
        backend: &B,
        dims: [usize; 3],
        dv: usize,
        window: usize,
        step: usize,
    ) -> Result<Self> {
        let values = Values::of_keys("WindowCache::latent", dims[2], dv)?;
        Ok(Self::of(backend.zeros(&extents(dims, window, step)?)?, values, window, step))
    }
    fn of(keys: Tensor<S, T>, values: Values<S, T>, window: usize, step: usize) -> Self {
        WindowCache { keys, values, reach: window - 1, step, start: 0, end: 0, last: 0, len: 0 }
    }

    /// Number of tokens appended so far, including those already discarded.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether no token was appended.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Number of tokens whose keys are here.
    pub fn kept(&self) -> usize {
        self.end - self.start
    }
    /// Removes all tokens.
    pub fn clear(&mut self) {
        (self.start, self.end, self.last, self.len) = (0, 0, 0, 0);
    }
    /// Removes all but the first `len` tokens.
    ///
    /// # Errors
    /// [`Error::Param`] if tokens of earlier steps than the last one would go, because what these may see is no longer here; a text
    /// can always be truncated to 0 tokens.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        match self.len.checked_sub(len) {
            None | Some(0) => {}
            Some(_) if len == 0 => self.clear(),
            Some(gone) if gone <= self.last => {
                (self.end, self.last, self.len) = (self.end - gone, self.last - gone, len);
            }
            Some(_) => {
                let want =
                    format!("0, or at least {}, the length before the last step", self.len - self.last);
                return Err(Error::param("WindowCache::truncate", "len", len, want));
            }
        }
        Ok(())
    }

    /// Appends the keys and values `[b, h_kv, t, d]` of `t` tokens, and discards the tokens that the first of
    /// them cannot see.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are more tokens than a step may have, or they do not fit the cache; [`Error::Param`] if the cache
    /// holds keys only. Then nothing has changed. Any error that the backend reports.
    pub fn append<B: CopyOps + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
        values: impl AsView<S, T>,
    ) -> Result<()> {
        const CALL: &str = "WindowCache::append";
        let (keys, values) = (keys.view(), values.view());
        let t = self.tokens(CALL, &keys)?;
        let dims = self.values.own(CALL, "append_keys")?.dims();
        fits(CALL, "values", values.layout(), &[dims[0], dims[1], t, dims[3]])?;
        let start = self.make_room(backend, t)?;
        let end = start + self.seen();
        backend.copy_into(values, self.values.own(CALL, "append_keys")?.as_mut().narrow(2, end, t)?)?;
        backend.copy_into(keys, self.keys.as_mut().narrow(2, end, t)?)?;
        self.finish(start, end, t);
        Ok(())
    }
    /// Appends the keys `[b, h_kv, t, d]` of `t` tokens; the values are the first features.
    ///
    /// # Errors
    /// As [`append`](Self::append), or if the cache has separate values.
    pub fn append_keys<B: CopyOps + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
    ) -> Result<()> {
        const CALL: &str = "WindowCache::append_keys";
        let keys = keys.view();
        self.values.none(CALL, "append")?;
        let t = self.tokens(CALL, &keys)?;
        let start = self.make_room(backend, t)?;
        let end = start + self.seen();
        backend.copy_into(keys, self.keys.as_mut().narrow(2, end, t)?)?;
        self.finish(start, end, t);
        Ok(())
    }

    /// The number of tokens of these keys, if they fit the cache and a step may have that many.
    fn tokens(&self, call: &'static str, keys: &TensorRef<'_, S, T>) -> Result<usize> {
        let (t, dims) = (keys.dims().get(2).copied().unwrap_or(0), self.keys.dims());
        if t > self.step {
            let want = format!("at most {} tokens in a step", self.step);
            return Err(Error::shape(call, "keys", keys.layout(), want));
        }
        fits(call, "keys", keys.layout(), &[dims[0], dims[1], t, dims[3]])?;
        Ok(t)
    }
    /// Number of kept tokens that the next one may see.
    fn seen(&self) -> usize {
        self.reach.min(self.kept())
    }
    /// Returns where the tokens that the next `t` may see begin, with room for `t` after them. Moves them to
    /// the front if there is no room.
    fn make_room<B: CopyOps + Backend<Space = S>>(&mut self, backend: &B, t: usize) -> Result<usize> {
        let (seen, start) = (self.seen(), self.end - self.seen());
        if self.end + t <= self.keys.dims()[2] {
            return Ok(start);
        }
        let all = core::iter::once(&mut self.keys);
        let values = match &mut self.values {
            Values::Own(values) => Some(values),
            Values::OfKeys(_) => None,
        };
        for tensor in all.chain(values) {
            // The memory is large enough that source and destination do not overlap, but heads interleave, so
            // this goes through a copy.
            let moved = backend.copy_of(tensor.narrow(2, start, seen)?)?;
            backend.copy_into(&moved, tensor.as_mut().narrow(2, 0, seen)?)?;
        }
        // If the step fails after this, the same tokens are still here.
        (self.start, self.end, self.last) = (0, seen, 0);
        Ok(0)
    }
    fn finish(&mut self, start: usize, end: usize, t: usize) {
        if t == 0 {
            return;
        }
        (self.start, self.end, self.last, self.len) = (start, end + t, t, self.len + t);
    }

    /// The keys of the last step's tokens and of those that they may see, `[b, h_kv, kept, d]`.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn keys(&self) -> Result<TensorRef<'_, S, T>> {
        self.keys.narrow(2, self.start, self.kept())
    }
    /// The values, `[b, h_kv, kept, d]`, or the first features of the keys.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        match &self.values {
            Values::Own(values) => values.narrow(2, self.start, self.kept()),
            Values::OfKeys(dv) => self.keys()?.narrow(3, 0, *dv),
        }
    }
}

/// The extents of a cache: room for the tokens that a step may see, and for as many again before anything has
/// to move.
fn extents([b, heads, d]: [usize; 3], window: usize, step: usize) -> Result<[usize; 4]> {
    for (param, n) in [("window", window), ("step", step)] {
        if n == 0 {
            return Err(Error::param("WindowCache::new", param, n, "a positive number of tokens"));
        }
    }
    let tokens = (window - 1).checked_add(step.max(window - 1));
    let tokens = tokens.ok_or_else(|| Error::TooLarge { dims: [window, step].into() })?;
    Ok([b, heads, tokens, d])
}
