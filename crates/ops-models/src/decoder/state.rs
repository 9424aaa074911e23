//! What a model remembers of a text.
use super::recurrent::{Memory, Remembered};
use crate::{Config, Error, HeadShape, Result};
use ops_core::model::{KvCache, Memories, MemoriesOfPart};
use ops_core::{Backend, Float, Space};

mod kept;

pub use kept::Snapshot;

/// The keys and values of the text so far, and the states of recurrent layers.
pub struct State<S: Space, T: Float> {
    /// One per attention layer.
    caches: Vec<KvCache<S, T>>,
    /// One per recurrent layer.
    memories: Vec<Memory<S, T>>,
    capacity: usize,
    /// Number of tokens in finished steps.
    len: usize,
    /// Whether a step has begun and not finished.
    unfinished: bool,
}

/// A text of a step: its state, and the tokens to append.
pub type Row<'r, S, T> = (&'r mut State<S, T>, &'r [u32]);
/// A text in an attention layer: its cache, and how many tokens it gains.
pub(super) type Cache<'c, S, T> = (&'c mut KvCache<S, T>, usize);

/// The texts in the attention layer with this slot.
pub(super) fn caches<'c, S: Space, T: Float>(
    rows: &'c mut [Row<'_, S, T>],
    slot: usize,
) -> Vec<Cache<'c, S, T>> {
    rows.iter_mut().map(|(state, tokens)| (&mut state.caches[slot], tokens.len())).collect()
}

/// The texts in the recurrent layer with this slot.
pub(super) fn memories<'c, S: Space, T: Float>(
    rows: &'c mut [Row<'_, S, T>],
    slot: usize,
) -> Remembered<'c, S, T> {
    let part = |(at, (_, tokens)): (usize, &Row<'_, S, T>)| {
        (at, MemoriesOfPart { memories: Memories::Consecutive { first: 0, n: 1 }, tokens: tokens.len() })
    };
    let parts = rows.iter().enumerate().map(part).collect();
    Remembered { memories: rows.iter_mut().map(|(state, _)| &mut state.memories[slot]).collect(), parts }
}

impl<S: Space, T: Float> State<S, T> {
    pub(super) fn new<B: Backend<Space = S>>(backend: &B, config: &Config, capacity: usize) -> Result<Self> {
        let (mut caches, mut memories) = (Vec::new(), Vec::new());
        for layer in (0..config.layers).filter(|layer| config.has_own_keys(*layer)) {
            let HeadShape { kv_heads, head_dim, .. } = config.heads_of(layer);
            let dims = [1, kv_heads, capacity, head_dim];
            match (config.latent, &config.recurrent) {
                (_, Some(plan)) if config.is_recurrent(layer) => {
                    memories.push(Memory::new(backend, plan, 1)?)
                }
                (Some(latent), _) => caches.push(KvCache::latent(backend, dims, latent.rank)?),
                (None, _) => caches.push(KvCache::new(backend, dims)?),
            }
        }
        Ok(State { caches, memories, capacity, len: 0, unfinished: false })
    }

    /// Number of tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes all but the first `len` tokens.
    ///
    /// # Errors
    /// [`Error::Rewind`] if the model has recurrent layers, and some tokens would stay: these layers keep one state for the whole
    /// text. A text can always be truncated to 0 tokens, and its tokens read again.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        if len == 0 {
            self.memories.iter_mut().for_each(Memory::clear);
            self.unfinished = false;
        } else if len < self.len && !self.memories.is_empty() {
            return Err(Error::Rewind { got: len, len: self.len });
        }
        self.len = self.len.min(len);
        self.caches.iter_mut().for_each(|cache| cache.truncate(self.len));
        Ok(())
    }

    /// Checks that this many tokens can follow.
    pub(super) fn check(&self, tokens: usize) -> Result<()> {
        let (before, room) = (self.len, self.capacity - self.len);
        if tokens == 0 || tokens > room {
            return Err(Error::Tokens { got: tokens, before, room });
        }
        if self.unfinished && !self.memories.is_empty() {
            return Err(Error::Rewind { got: self.len, len: self.len });
        }
        Ok(())
    }
    /// Begins a step, after removing what a failed one has left.
    pub(super) fn begin(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.truncate(self.len));
        self.unfinished = true;
    }
    /// Ends a step of this many tokens.
    pub(super) fn finish(&mut self, tokens: usize) {
        self.len += tokens;
        self.unfinished = false;
    }
}
