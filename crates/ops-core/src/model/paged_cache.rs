//! Cache of the keys and values of many texts, in blocks.
use super::kv_cache::{Values, fits};
use super::{BlockCopy, CacheRotation, Projection, Queries};
use crate::ops::{CacheMethods, CacheOps, CopyMethods, CopyOps, KeysValues};
use crate::{AsAny, AsView, Backend, Error, Float, Layout, Result, Space, Tensor, TensorMut, TensorRef};

/// The keys and values of one layer, each `[blocks, block, h_kv, d]`, where a block holds `block` tokens.
///
/// [`Blocks`](super::Blocks) records which block holds which tokens. This is the same for all layers, so a
/// model has one `PagedCache` for each layer and a single `Blocks`. Attention reads the cache in place:
/// [`AttentionPaged`](crate::ops::AttentionPaged).
///
/// In latent attention, values are the first features of keys and use no memory of their own
/// ([`latent`](PagedCache::latent)).
///
/// ```
/// # use rocm_ops::{Backend, model::{Blocks, PagedCache}, ops::*};
/// # let b = rocm_ops::Cpu::new();
/// let blocks = Blocks::new(4, 2)?; // 4 blocks of 2 tokens
/// let mut cache = PagedCache::new(&b, [4, 2, 1, 1])?; // one head of one feature
/// let mut text = blocks.sequence();
///
/// // Three tokens, whose values are 1, 2 and 6. All keys count the same.
/// let slots = blocks.append(&mut [(&mut text, 3)], |copies| cache.copy_blocks(&b, copies))?;
/// let (keys, values) = (b.zeros(&[3, 1, 1])?, b.tensor(&[3, 1, 1], &[1.0f32, 2.0, 6.0])?);
/// cache.write(&b, &keys, &values, b.tensor([3], &slots)?)?;
///
/// // The last token sees all three.
/// let q = b.zeros(&[1, 1, 1])?;
/// let (table, lengths) = (b.tensor(&[1, 2], text.blocks())?, b.tensor(&[1], &[3u32])?);
/// let cu_q = b.tensor(&[2], &[0u32, 1])?;
/// let paging = Paging { block_table: &table, lengths: &lengths, cu_q: &cu_q };
/// let o = b.attention_paged(&q, cache.keys(), cache.values()?, paging, AttentionExtras::new(), Attention::causal())?;
/// assert_eq!(o.to_vec(&b)?, [3.0]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct PagedCache<S: Space, T: Float> {
    keys: Tensor<S, T>,
    values: Values<S, T>,
}

impl<S: Space, T: Float> PagedCache<S, T> {
    /// Allocates a cache of `dims = [blocks, block, h_kv, d]`.
    ///
    /// # Errors
    /// As [`Backend::zeros`].
    pub fn new<B: Backend<Space = S>>(backend: &B, dims: [usize; 4]) -> Result<Self> {
        Ok(PagedCache { keys: backend.zeros(&dims)?, values: Values::Own(backend.zeros(&dims)?) })
    }
    /// Allocates a cache of keys, `dims = [blocks, block, h_kv, d]`, whose first `dv` features are the values.
    ///
    /// # Errors
    /// [`Error::Param`] if `dv` is more than `d`; as [`Backend::zeros`].
    pub fn latent<B: Backend<Space = S>>(backend: &B, dims: [usize; 4], dv: usize) -> Result<Self> {
        let values = Values::of_keys("PagedCache::latent", dims[3], dv)?;
        Ok(PagedCache { keys: backend.zeros(&dims)?, values })
    }

    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.keys.dims()[0]
    }
    /// The keys, `[blocks, block, h_kv, d]`.
    pub fn keys(&self) -> TensorRef<'_, S, T> {
        self.keys.as_ref()
    }
    /// The values, `[blocks, block, h_kv, d]`, or the first features of the keys.
    ///
    /// # Errors
    /// None in practice: the view always exists.
    pub fn values(&self) -> Result<TensorRef<'_, S, T>> {
        match &self.values {
            Values::Own(values) => Ok(values.as_ref()),
            Values::OfKeys(dv) => self.keys.narrow(3, 0, *dv),
        }
    }
    /// The keys and the values as the ops of [`CacheOps`] write them: `[slots, h_kv, d]` each, one slot for
    /// each token that fits.
    ///
    /// # Errors
    /// [`Error::Param`] if the values are a part of the keys.
    pub fn slots_mut(&mut self) -> Result<(TensorMut<'_, S, T>, TensorMut<'_, S, T>)> {
        self.slots_for("PagedCache::slots_mut")
    }

    fn slots_for(&mut self, call: &'static str) -> Result<(TensorMut<'_, S, T>, TensorMut<'_, S, T>)> {
        let values = self.values.own(call, "write_keys")?;
        Ok((by_slot(self.keys.as_mut())?, by_slot(values.as_mut())?))
    }

    /// Writes the keys and values `[n, h_kv, d]` of `n` tokens to their slots, of any index type.
    ///
    /// # Errors
    /// [`Error::Param`] if the values are a part of the keys; any error that the backend reports, [`Error::Index`] for a slot that
    /// there is not among them.
    pub fn write<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
        values: impl AsView<S, T>,
        slots: impl AsAny<S>,
    ) -> Result<()> {
        const CALL: &str = "PagedCache::write";
        let (keys, values) = (keys.view(), values.view());
        let slots = slots.any_view();
        let (to_keys, to_values) = self.slots_for(CALL)?;
        fit(CALL, (keys.layout(), to_keys.dims()), Some((values.layout(), to_values.dims())))?;
        let written = backend.cache_write(values, slots, to_values);
        written.and_then(|()| backend.cache_write(keys, slots, to_keys)).map_err(|error| error.of_call(CALL))
    }
    /// Rotates the keys `[n, h_kv, d]` of `n` tokens, after a norm if `rotation` has one, and writes them and
    /// the values to their slots. The same op rotates `queries`, if given.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`Error::Index`] for a position that the tables do not have.
    pub fn write_rotated<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        queries: Option<Queries<'_, S, T>>,
        keys: impl AsView<S, T>,
        values: impl AsView<S, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<()> {
        const CALL: &str = "PagedCache::write_rotated";
        let (keys, values) = (keys.view(), values.view());
        let (k_cache, v_cache) = self.slots_for(CALL)?;
        fit(CALL, (keys.layout(), k_cache.dims()), Some((values.layout(), v_cache.dims())))?;
        let (rows, caches) = (KeysValues { keys, values }, KeysValues { keys: k_cache, values: v_cache });
        rotation.write(backend, queries, rows, caches).map_err(|error| error.of_call(CALL))
    }
    /// Computes queries, keys and values of `n` tokens from `projection`, rotates queries and keys, and writes keys and values to their slots.
    /// Returns the queries `[n, heads, d]`; or `None`, with nothing done, if the backend has no kernel for all of it.
    ///
    /// # Errors
    /// As [`write_rotated`](Self::write_rotated). Values of some tokens may then be written already.
    pub fn write_projected<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        projection: Projection<'_, S, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<Option<Tensor<S, T>>> {
        const CALL: &str = "PagedCache::write_projected";
        let (keys, values) = self.slots_for(CALL)?;
        rotation
            .project(backend, projection, KeysValues { keys, values })
            .map_err(|error| error.of_call(CALL))
    }
    /// Writes the keys `[n, h_kv, d]` of `n` tokens; the values are the first features.
    ///
    /// # Errors
    /// As [`write`](Self::write), or if the cache has separate values.
    pub fn write_keys<B: CacheOps<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        keys: impl AsView<S, T>,
        slots: impl AsAny<S>,
    ) -> Result<()> {
        const CALL: &str = "PagedCache::write_keys";
        let keys = keys.view();
        self.values.none(CALL, "write")?;
        let cache = by_slot(self.keys.as_mut())?;
        fit(CALL, (keys.layout(), cache.dims()), None)?;
        backend.cache_write(keys, slots.any_view(), cache).map_err(|error| error.of_call(CALL))
    }

    /// Copies whole blocks, as [`Blocks::append`](super::Blocks::append) requests.
    ///
    /// # Errors
    /// [`Error::Index`] for a block that there is not, before anything is copied; any error that the backend reports.
    pub fn copy_blocks<B: CopyOps + Backend<Space = S>>(
        &mut self,
        backend: &B,
        copies: &[BlockCopy],
    ) -> Result<()> {
        let bound = self.blocks();
        let all = copies.iter().flat_map(|(from, to)| [*from, *to]);
        if let Some((position, index)) = all.enumerate().find(|(_, block)| *block as usize >= bound) {
            let (op, operand, index) = ("PagedCache::copy_blocks", "copies", i64::from(index));
            return Err(Error::Index { op, operand, position, index, bound });
        }
        for (from, to) in copies.iter().filter(|(from, to)| from != to) {
            copy_block(backend, &mut self.keys, *from as usize, *to as usize)?;
            if let Values::Own(values) = &mut self.values {
                copy_block(backend, values, *from as usize, *to as usize)?;
            }
        }
        Ok(())
    }
}

/// Checks rows of keys, and of values if there are any, against their caches, `[slots, h_kv, d]`.
fn fit(
    call: &'static str,
    (keys, cache): (&Layout, &[usize]),
    values: Option<(&Layout, &[usize])>,
) -> Result<()> {
    let n = keys.dims().first().copied().unwrap_or(0);
    fits(call, "keys", keys, &[n, cache[1], cache[2]])?;
    values.map_or(Ok(()), |(values, cache)| fits(call, "values", values, &[n, cache[1], cache[2]]))
}

/// `[blocks, block, h_kv, d]` as `[slots, h_kv, d]`.
fn by_slot<S: Space, T: Float>(cache: TensorMut<'_, S, T>) -> Result<TensorMut<'_, S, T>> {
    let &[blocks, block, heads, d] = cache.dims() else { unreachable!("a cache has four axes") };
    cache.reshape(&[blocks * block, heads, d])
}

fn copy_block<T: Float, B: CopyOps>(
    b: &B,
    cache: &mut Tensor<B::Space, T>,
    from: usize,
    to: usize,
) -> Result<()> {
    let (low, high) = cache.as_mut().split_at(0, from.max(to))?;
    let (low, high) = (low.narrow(0, from.min(to), 1)?, high.narrow(0, 0, 1)?);
    if from < to { b.copy_into(low, high) } else { b.copy_into(high, low) }
}
