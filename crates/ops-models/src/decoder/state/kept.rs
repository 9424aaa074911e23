//! Copies of a state: for a text that continues in two ways, for a return to an earlier token, and for another run of the program.
use super::State;
use crate::decoder::recurrent::Memory;
use crate::{Error, Result};
use bytemuck::{bytes_of, cast_slice, pod_read_unaligned};
use ops_core::model::Transformer;
use ops_core::{Backend, Float, Space};

/// What recurrent layers remembered of a text after some of its tokens, see [`State::snapshot`].
pub struct Snapshot<S: Space, T: Float> {
    memories: Vec<Memory<S, T>>,
    len: usize,
}

/// The beginning of a saved state, and its version.
const MAGIC: &[u8; 8] = b"opstate1";

impl<S: Space, T: Float> Snapshot<S, T> {
    /// Number of tokens of the text when the snapshot was taken.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether the text had no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl<S: Space, T: Float> State<S, T> {
    /// A copy of the text, of the same capacity. Copies only what is in use.
    ///
    /// # Errors
    /// [`Error::Rewind`] after a failed step of a model with recurrent layers; those of the backend.
    pub fn fork<B: Transformer<T> + Backend<Space = S>>(&self, backend: &B) -> Result<Self> {
        self.check_whole()?;
        let caches = self.caches.iter().map(|cache| cache.fork(backend));
        Ok(State {
            caches: caches.collect::<ops_core::Result<_>>()?,
            memories: self.memories.iter().map(|memory| memory.fork(backend)).collect::<Result<_>>()?,
            ..*self
        })
    }

    /// Remembers this point of the text, so that [`rewind`](Self::rewind) can return to it. Only recurrent layers need a copy of
    /// their memory, of fixed size; keys and values stay where they are.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    pub fn snapshot<B: Transformer<T> + Backend<Space = S>>(&self, backend: &B) -> Result<Snapshot<S, T>> {
        self.check_whole()?;
        let memories = self.memories.iter().map(|memory| memory.fork(backend));
        Ok(Snapshot { memories: memories.collect::<Result<_>>()?, len: self.len })
    }

    /// Returns to a snapshot of this text, and so removes the tokens after it.
    ///
    /// # Errors
    /// [`Error::Rewind`] if the text is shorter than the snapshot, or another model made it; those of the backend.
    pub fn rewind<B: Transformer<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        to: &Snapshot<S, T>,
    ) -> Result<()> {
        let fits = to.memories.iter().zip(&self.memories).all(|(from, to)| from.dims() == to.dims());
        if to.len > self.len || to.memories.len() != self.memories.len() || !fits {
            return Err(Error::Rewind { got: to.len, len: self.len });
        }
        let memories = to.memories.iter().map(|memory| memory.fork(backend)).collect::<Result<_>>()?;
        self.memories = memories;
        (self.len, self.unfinished) = (to.len, false);
        self.caches.iter_mut().for_each(|cache| cache.truncate(to.len));
        Ok(())
    }

    /// The text's keys, values and recurrent memory as bytes, for [`restore`](Self::restore). They do not say which model made
    /// them, and are those of this machine's byte order.
    ///
    /// # Errors
    /// As [`fork`](Self::fork).
    pub fn save<B: Transformer<T> + Backend<Space = S>>(&self, backend: &B) -> Result<Vec<u8>> {
        self.check_whole()?;
        let mut bytes = MAGIC.to_vec();
        let head = [self.len, self.caches.len(), self.memories.len(), size_of::<T>()];
        head.iter().for_each(|n| bytes.extend(bytes_of(&(*n as u64))));
        let mut put = |part: &[u8]| {
            bytes.extend(bytes_of(&(part.len() as u64)));
            bytes.extend(part);
        };
        for cache in &self.caches {
            put(cast_slice(&cache.keys()?.to_vec(backend)?));
            if !cache.is_latent() {
                put(cast_slice(&cache.values()?.to_vec(backend)?));
            }
        }
        for memory in &self.memories {
            let (inputs, heads) = memory.contents(backend)?;
            put(cast_slice(&inputs));
            put(cast_slice(&heads));
        }
        Ok(bytes)
    }

    /// Replaces the text by a saved one. This state must be of the same model and of a capacity that suffices.
    ///
    /// # Errors
    /// [`Error::Saved`] for bytes that are damaged or of another model, with the state unchanged; those of the backend.
    pub fn restore<B: Transformer<T> + Backend<Space = S>>(
        &mut self,
        backend: &B,
        bytes: &[u8],
    ) -> Result<()> {
        let mut parts = Parts { rest: bytes };
        let [len, caches, memories, size] = parts.head()?;
        let (got, own) = ([caches, memories, size], [self.caches.len(), self.memories.len(), size_of::<T>()]);
        if got != own {
            return Err(saved(
                format!("{caches} caches and {memories} memories of {size}-byte numbers"),
                own,
            ));
        }
        if len > self.capacity {
            let wanted = format!("at most {}, the capacity", self.capacity);
            return Err(Error::Saved { got: format!("{len} tokens"), wanted });
        }
        let mut new = Vec::with_capacity(self.caches.len());
        for cache in &self.caches {
            let mut empty = cache.emptied(backend)?;
            let [b, heads, _, d] = cache.dims();
            let dims = [b, heads, len, d];
            let keys = backend.tensor(&dims, &parts.next::<T>(dims)?)?;
            if cache.is_latent() {
                empty.append_keys(backend, keys.as_ref())?;
            } else {
                let values = backend.tensor(&dims, &parts.next::<T>(dims)?)?;
                empty.append(backend, keys.as_ref(), values.as_ref())?;
            }
            new.push(empty);
        }
        let mut remembered = Vec::with_capacity(self.memories.len());
        for memory in &self.memories {
            let (inputs, heads) = memory.dims();
            let (inputs, heads) = (parts.next::<T>(inputs)?, parts.next::<f32>(heads)?);
            remembered.push(memory.holding(backend, &inputs, &heads)?);
        }
        if !parts.rest.is_empty() {
            return Err(saved(format!("{} further bytes", parts.rest.len()), "none"));
        }
        (self.caches, self.memories, self.len, self.unfinished) = (new, remembered, len, false);
        Ok(())
    }

    /// Refuses what a failed step has left in recurrent layers.
    fn check_whole(&self) -> Result<()> {
        match self.unfinished && !self.memories.is_empty() {
            true => Err(Error::Rewind { got: self.len, len: self.len }),
            false => Ok(()),
        }
    }
}

fn saved(got: impl ToString, wanted: impl std::fmt::Debug) -> Error {
    Error::Saved { got: got.to_string(), wanted: format!("{wanted:?}") }
}

/// Reads the parts of a saved state.
struct Parts<'b> {
    rest: &'b [u8],
}

impl<'b> Parts<'b> {
    fn take(&mut self, n: usize) -> Result<&'b [u8]> {
        let cut = || saved(format!("{} bytes at its end", self.rest.len()), n);
        let (part, rest) = self.rest.split_at_checked(n).ok_or_else(cut)?;
        self.rest = rest;
        Ok(part)
    }
    fn number(&mut self) -> Result<usize> {
        let n = pod_read_unaligned::<u64>(self.take(8)?);
        usize::try_from(n).map_err(|_| saved(n, "a number of bytes"))
    }
    fn head<const N: usize>(&mut self) -> Result<[usize; N]> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err(saved("other bytes at its start", "a state that `save` wrote"));
        }
        let mut head = [0; N];
        for n in &mut head {
            *n = self.number()?;
        }
        Ok(head)
    }
    /// The elements of a tensor of these extents.
    fn next<E: bytemuck::Pod>(&mut self, dims: [usize; 4]) -> Result<Vec<E>> {
        let count = dims.iter().try_fold(size_of::<E>(), |n, dim| n.checked_mul(*dim));
        let n = self.number()?;
        if Some(n) != count {
            return Err(saved(format!("{n} bytes of a layer"), dims));
        }
        Ok(self.take(n)?.chunks_exact(size_of::<E>()).map(pod_read_unaligned).collect())
    }
}
