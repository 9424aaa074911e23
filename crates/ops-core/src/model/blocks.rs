//! The blocks of a paged cache: which sequence holds which, and which are free.
use crate::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A budget of blocks, each of which holds the keys and values of the same number of tokens in every layer.
///
/// A [`Sequence`] takes blocks as it grows and returns them when it is truncated or dropped. Sequences with a
/// common beginning share blocks: [`Sequence::fork`] copies nothing. A shared block is never written: the
/// first sequence that would write to it takes a copy.
///
/// This is bookkeeping on the host. The memory is in [`PagedCache`](super::PagedCache)s, one for each layer,
/// which all use the same blocks. The caller decides which sequence to drop when the blocks run out.
///
/// ```
/// use rocm_ops::model::Blocks;
///
/// let blocks = Blocks::new(3, 4)?; // 3 blocks of 4 tokens
/// let mut text = blocks.sequence();
/// let slots = blocks.append(&mut [(&mut text, 6)], |_| Ok(()))?;
/// assert_eq!((slots, text.blocks()), (vec![0, 1, 2, 3, 4, 5], &[0, 1][..]));
/// // Another text that begins alike shares both blocks, until it writes to the second one.
/// let mut other = text.fork(6);
/// let mut copied = Vec::new();
/// let slots = blocks.append(&mut [(&mut other, 1)], |copies| Ok(copied.extend_from_slice(copies)))?;
/// assert_eq!((slots, copied), (vec![2 * 4 + 2], vec![(1, 2)]));
/// // All blocks are taken now. Nothing changes when they run out.
/// assert!(blocks.append(&mut [(&mut text, 3)], |_| Ok(())).is_err());
/// assert_eq!((text.len(), blocks.free()), (6, 0));
/// drop(other);
/// assert_eq!(blocks.free(), 1);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
///
/// A model with recurrent layers also has a budget of *memories*, each of which is what these layers keep of one text
/// ([`with_memories`](Blocks::with_memories)). A sequence takes one with its first token.
///
/// Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention", 2023.
#[derive(Clone, Debug)]
pub struct Blocks {
    pool: Arc<Pool>,
}

/// A sequence: its number of tokens, and the blocks that hold them.
#[derive(Debug)]
pub struct Sequence {
    pool: Arc<Pool>,
    /// Exactly as many as `len` tokens need.
    blocks: Vec<u32>,
    len: usize,
    /// The index of its memory.
    memory: Option<u32>,
}

/// A block and the block that becomes its copy.
pub type BlockCopy = (u32, u32);

#[derive(Debug)]
struct Pool {
    count: usize,
    size: usize,
    /// The number of memories; `None` if sequences need none.
    memories: Option<usize>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of sequences that hold each block; blocks beyond the end were never taken and are free too.
    holders: Vec<usize>,
    /// Blocks that were returned.
    free: Vec<u32>,
    /// Whether a sequence has each memory; those beyond the end were never taken.
    remembers: Vec<bool>,
}

impl Blocks {
    /// A budget of `count` blocks of `size` tokens.
    ///
    /// # Errors
    /// [`Error::Param`] if `size` is 0, or if a token's slot would not fit an index of u32, whose largest value means "none".
    pub fn new(count: usize, size: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::param("blocks", "size", size, "a positive number of tokens"));
        }
        if count.checked_mul(size).is_none_or(|slots| slots > u32::MAX as usize) {
            let want = format!("at most {} blocks of {size} tokens", u32::MAX as usize / size);
            return Err(Error::param("blocks", "count", count, want));
        }
        Ok(Blocks { pool: Arc::new(Pool { count, size, memories: None, state: Mutex::default() }) })
    }
    /// Like [`new`](Self::new), with memories, which hold the state of recurrent layers, for at most `memories` sequences at a time.
    ///
    /// A memory cannot return to an earlier token and cannot be shared. So [`Sequence::fork`] leaves the original's memory alone and
    /// gives the new sequence none, and [`Sequence::truncate`] drops the memory if it removes tokens. Appending to a sequence that has
    /// tokens but no memory is an error; truncate it to 0 and process its tokens again.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_memories(count: usize, size: usize, memories: usize) -> Result<Self> {
        let Blocks { pool } = Self::new(count, size)?;
        let Pool { count, size, .. } = *pool;
        Ok(Blocks { pool: Arc::new(Pool { count, size, memories: Some(memories), state: Mutex::default() }) })
    }

    /// A sequence without tokens.
    pub fn sequence(&self) -> Sequence {
        Sequence { pool: self.pool.clone(), blocks: Vec::new(), len: 0, memory: None }
    }
    /// Number of blocks.
    pub fn count(&self) -> usize {
        self.pool.count
    }
    /// Tokens of a block.
    pub fn size(&self) -> usize {
        self.pool.size
    }
    /// Number of blocks that no sequence holds.
    pub fn free(&self) -> usize {
        self.pool.free(&self.pool.lock())
    }
    /// Number of blocks that several sequences hold.
    pub fn shared(&self) -> usize {
        self.pool.lock().holders.iter().filter(|holders| **holders > 1).count()
    }
    /// Number of blocks needed to add the given number of tokens to each sequence, including copies of shared
    /// blocks.
    pub fn needed<'s>(&self, rows: impl IntoIterator<Item = (&'s Sequence, usize)>) -> usize {
        let (state, mut leaving) = (self.pool.lock(), Vec::new());
        let wanted = |(text, n)| self.pool.growth(&state, &mut leaving, text, n).blocks();
        rows.into_iter().map(wanted).fold(0, usize::saturating_add)
    }

    /// Adds the given number of tokens to each sequence, and returns the slots of all of them in order:
    /// `block · size + row`.
    ///
    /// `copy` receives the blocks whose contents must be copied before anything is written to the slots. It
    /// is called once, after the blocks are found and before any sequence changes. It should call
    /// [`PagedCache::copy_blocks`](super::PagedCache::copy_blocks) for each layer.
    ///
    /// # Errors
    /// [`Error::OutOfBlocks`], [`Error::OutOfMemories`], [`Error::Param`] for a sequence of other blocks or one that has lost its memory,
    /// and the errors of `copy`. No sequence has changed then, and no block is taken.
    pub fn append(
        &self,
        rows: &mut [(&mut Sequence, usize)],
        copy: impl FnOnce(&[BlockCopy]) -> Result<()>,
    ) -> Result<Vec<u32>> {
        let mut reserved = self.reserve(rows)?;
        copy(&reserved.copies)?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(rows.iter().map(|(_, n)| *n).sum()).map_err(|_| host_memory(rows.len()))?;
        // Nothing can fail from here on. `fresh` starts with the copies, in the order of the sequences that
        // take them.
        let mut state = self.pool.lock();
        let (fresh, memories) =
            (core::mem::take(&mut reserved.fresh), core::mem::take(&mut reserved.memories));
        let mut memories = memories.into_iter();
        let (mut copies, mut fresh) = (reserved.copies.iter(), fresh.into_iter().skip(reserved.copies.len()));
        for ((text, n), growth) in rows.iter_mut().zip(&reserved.growths) {
            if growth.copies_last
                && let (Some((from, to)), Some(last)) = (copies.next(), text.blocks.last_mut())
            {
                *last = *to;
                state.release(*from);
            }
            text.blocks.extend(fresh.by_ref().take(growth.fresh));
            slots.extend((text.len..text.len + *n).map(|at| text.slot(at)));
            text.len += *n;
            if self.pool.needs_memory(text, *n) {
                text.memory = memories.next();
            }
        }
        Ok(slots)
    }

    /// Finds the blocks for [`append`](Self::append), and reserves room for them in the block tables.
    fn reserve(&self, rows: &mut [(&mut Sequence, usize)]) -> Result<Reserved<'_>> {
        if rows.iter().any(|(text, _)| !Arc::ptr_eq(&text.pool, &self.pool)) {
            return Err(Error::param(
                "blocks",
                "sequence",
                "a sequence of another cache",
                "a sequence of this cache",
            ));
        }
        let mut state = self.pool.lock();
        let (mut leaving, mut growths) = (Vec::new(), Vec::new());
        for (text, n) in rows.iter() {
            growths.push(self.pool.growth(&state, &mut leaving, text, *n));
        }
        let wanted = growths.iter().map(Growth::blocks).fold(0, usize::saturating_add);
        let free = self.pool.free(&state);
        if wanted > free {
            return Err(Error::OutOfBlocks { wanted, free, count: self.pool.count });
        }
        for ((text, _), growth) in rows.iter_mut().zip(&growths) {
            text.blocks.try_reserve(growth.fresh).map_err(|_| host_memory(growth.fresh))?;
        }
        let lost = |(text, n): &&(&mut Sequence, usize)| self.pool.needs_memory(text, *n) && text.len > 0;
        if let Some((text, _)) = rows.iter().find(lost) {
            let got = format!("a sequence of {} tokens that was forked or truncated", text.len);
            let want =
                "one that has kept its memory of them, or one truncated to 0 whose tokens are read again";
            return Err(Error::param("blocks", "sequence", got, want));
        }
        let joining = rows.iter().filter(|(text, n)| self.pool.needs_memory(text, *n)).count();
        let remember = self.pool.free_memories(&state);
        if joining > remember {
            let count = self.pool.memories.unwrap_or(0);
            return Err(Error::OutOfMemories { wanted: joining, free: remember, count });
        }
        let memories = state.take_memories(joining)?;
        let mut reserved =
            Reserved { pool: &self.pool, fresh: Vec::new(), memories, copies: Vec::new(), growths };
        let fresh = state.take(wanted);
        drop(state);
        reserved.fresh = fresh?;
        reserved.copies = leaving.into_iter().zip(reserved.fresh.iter().copied()).collect();
        Ok(reserved)
    }
}

/// The blocks that more tokens of a sequence need.
struct Growth {
    /// The last block has other holders and room for a token, so it is copied.
    copies_last: bool,
    /// Blocks after the last one.
    fresh: usize,
}
impl Growth {
    fn blocks(&self) -> usize {
        self.fresh.saturating_add(usize::from(self.copies_last))
    }
}

/// Blocks and memories taken for sequences that do not hold them yet. They are returned unless they are moved out.
struct Reserved<'p> {
    pool: &'p Pool,
    fresh: Vec<u32>,
    memories: Vec<u32>,
    copies: Vec<BlockCopy>,
    growths: Vec<Growth>,
}
impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.pool.release(&self.fresh, &self.memories);
    }
}

impl Pool {
    /// No code that holds the lock leaves the state half changed, so a poisoned lock is harmless.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    fn free(&self, state: &State) -> usize {
        self.count - state.holders.len() + state.free.len()
    }
    fn release(&self, blocks: &[u32], memories: &[u32]) {
        if blocks.is_empty() && memories.is_empty() {
            return;
        }
        let mut state = self.lock();
        blocks.iter().for_each(|block| state.release(*block));
        memories.iter().for_each(|memory| state.remembers[*memory as usize] = false);
    }
    fn free_memories(&self, state: &State) -> usize {
        self.memories.unwrap_or(usize::MAX) - state.remembers.iter().filter(|taken| **taken).count()
    }
    /// Whether a sequence needs a memory that it does not have, to gain `n` tokens.
    fn needs_memory(&self, text: &Sequence, n: usize) -> bool {
        self.memories.is_some() && text.memory.is_none() && n > 0
    }
    /// The blocks that `n` more tokens of a sequence need. `leaving` lists the shared blocks that earlier
    /// sequences of this call will replace by copies, once for each of those sequences; the last holder keeps
    /// the block.
    fn growth(&self, state: &State, leaving: &mut Vec<u32>, text: &Sequence, n: usize) -> Growth {
        let is_open = n > 0 && !text.len.is_multiple_of(self.size);
        let shared = text.blocks.last().filter(|last| {
            let gone = leaving.iter().filter(|block| block == last).count();
            is_open && state.holders[**last as usize] > gone + 1
        });
        leaving.extend(shared);
        let blocks = text.len.saturating_add(n).div_ceil(self.size);
        Growth { copies_last: shared.is_some(), fresh: blocks - text.blocks.len() }
    }
}

impl State {
    /// Takes `count` blocks with one holder each. There must be enough.
    fn take(&mut self, count: usize) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        let unused = count.saturating_sub(self.free.len());
        // Reserves room for every block in `free`, so that returning one does not allocate.
        let room = self.holders.len() + unused - self.free.len();
        let reserved = taken.try_reserve_exact(count).and(self.holders.try_reserve(unused));
        reserved.and(self.free.try_reserve(room)).map_err(|_| host_memory(count))?;
        for _ in 0..count {
            let block = self.free.pop().unwrap_or_else(|| {
                self.holders.push(0);
                self.holders.len() as u32 - 1
            });
            self.holders[block as usize] = 1;
            taken.push(block);
        }
        Ok(taken)
    }
    /// Takes `count` memories, those with the lowest indices, so that the texts of a step are often neighbours. There must be enough.
    fn take_memories(&mut self, count: usize) -> Result<Vec<u32>> {
        let mut taken = Vec::new();
        let reserved = taken.try_reserve_exact(count).and(self.remembers.try_reserve(count));
        reserved.map_err(|_| host_memory(count))?;
        for _ in 0..count {
            let at = self.remembers.iter().position(|taken| !taken).unwrap_or(self.remembers.len());
            self.remembers.resize(self.remembers.len().max(at + 1), true);
            self.remembers[at] = true;
            taken.push(at as u32);
        }
        Ok(taken)
    }
    fn release(&mut self, block: u32) {
        let holders = &mut self.holders[block as usize];
        *holders -= 1;
        if *holders == 0 {
            self.free.push(block);
        }
    }
}

fn host_memory(indices: usize) -> Error {
    let bytes = indices.saturating_mul(size_of::<u32>());
    Error::OutOfMemory { backend: "host", bytes, detail: "block tables".into() }
}

impl Sequence {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The blocks that hold the tokens, in order: the row of a block table.
    pub fn blocks(&self) -> &[u32] {
        &self.blocks
    }
    /// The index of what recurrent layers keep of its tokens, if they keep anything.
    pub fn memory(&self) -> Option<u32> {
        self.memory
    }
    /// The slot of the token at this position, which the sequence's blocks must cover.
    fn slot(&self, at: usize) -> u32 {
        let size = self.pool.size;
        self.blocks[at / size] * size as u32 + (at % size) as u32
    }

    /// A new sequence that begins with the first `len` tokens of this one, or with all if there are fewer. It
    /// shares their blocks.
    #[must_use]
    pub fn fork(&self, len: usize) -> Sequence {
        let len = len.min(self.len);
        let blocks = self.blocks[..len.div_ceil(self.pool.size)].to_vec();
        let mut state = self.pool.lock();
        blocks.iter().for_each(|block| state.holders[*block as usize] += 1);
        drop(state);
        Sequence { pool: self.pool.clone(), blocks, len, memory: None }
    }
    /// Removes all but the first `len` tokens, and returns the blocks that are no longer needed; and the memory, if tokens are removed.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len {
            self.forget();
        }
        self.give_back(len);
    }
    /// Like [`truncate`](Self::truncate), for tokens that no step has read yet: the sequence keeps the memory of the others.
    pub fn give_back(&mut self, len: usize) {
        self.len = self.len.min(len);
        let kept = self.len.div_ceil(self.pool.size);
        self.pool.release(&self.blocks[kept..], &[]);
        self.blocks.truncate(kept);
        if self.len == 0 {
            self.forget();
        }
    }
    fn forget(&mut self) {
        self.pool.release(&[], self.memory.take().as_slice());
    }
}

impl Drop for Sequence {
    fn drop(&mut self) {
        self.pool.release(&self.blocks, self.memory.as_slice());
    }
}
