//! Steps of many texts whose keys and values are in the blocks of a shared cache.
use super::recurrent::{Memory, Remembered};
use super::{Decoder, Draw, Drawn, state};
use crate::{Config, Error, HeadShape, Result};
use ops_core::model::{
    Blocks, CacheRotation, MemoriesOfPart, MemoriesOfStep, PagedCache, Projection, Queries, Sequence,
    Transformer,
};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, Space, Tensor, TensorOf};

/// Memory for the keys and values of many texts: a budget of blocks, and a cache for each layer. Recurrent layers instead have memories
/// of fixed size, one for each text ([`Decoder::pages_for`]).
///
/// A text is a [`Sequence`] of [`blocks`](Pages::blocks), which takes blocks as it grows. Texts with a common
/// beginning may share blocks ([`Sequence::fork`]).
///
/// ```no_run
/// # use rocm_ops::models::Decoder;
/// # let (cpu, gguf) = (rocm_ops::Cpu::new(), rocm_ops::gguf::Gguf::open("model.gguf")?);
/// let model = Decoder::<f32, _>::load(&cpu, &gguf, 512)?;
/// let mut pages = model.pages(&cpu, 100, 16)?; // 100 blocks of 16 tokens
/// let mut long = pages.blocks().sequence();
/// model.forward_paged(&cpu, &mut pages, &mut [(&mut long, &[1, 2, 3])])?;
/// // One more token of this text, and another text that has its first two tokens.
/// let mut other = long.fork(2);
/// let logits = model.forward_paged(&cpu, &mut pages, &mut [(&mut long, &[4]), (&mut other, &[5, 6])])?;
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub struct Pages<S: Space, T: Float> {
    blocks: Blocks,
    caches: Vec<PagedCache<S, T>>,
    /// One per recurrent layer, each of all texts.
    memories: Vec<Memory<S, T>>,
}

/// A text of a step over pages: its sequence, and the tokens to append.
pub type PagedRow<'r> = (&'r mut Sequence, &'r [u32]);

/// The inputs of a step over pages, in the backend's memory. The rows of all texts are concatenated.
#[derive(Debug)]
pub struct PagedStep<S: Space> {
    /// The tokens, `[n]`.
    pub ids: Tensor<S, u32>,
    /// The position of each token in its text, `[n]`.
    pub positions: Tensor<S, u32>,
    /// The cache slot of each token's key and value, `[n]`: `block · size + row`. The largest value skips a
    /// token.
    pub slots: Tensor<S, u32>,
    /// The blocks of each text, `[texts, width]`. Entries after a text's blocks are not read.
    pub block_table: Tensor<S, u32>,
    /// Number of tokens in each text, including those of the step, `[texts]`.
    pub lengths: Tensor<S, u32>,
    /// The first row of each text, and the end of the last one, `[texts + 1]`.
    pub cu_q: Tensor<S, u32>,
    /// The row of each text's last token, `[texts]`.
    pub last: Tensor<S, u32>,
    /// Where recurrent layers remember the texts.
    pub(super) memories: Option<MemoriesOfStep<S>>,
}

impl<S: Space, T: Float> Pages<S, T> {
    /// The budget of blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }
}

impl<S: Space> PagedStep<S> {
    /// The inputs of [`attention_paged`](RaggedAttentionMethods::attention_paged), except the cache.
    pub(super) fn paging(&self) -> Paging<&Tensor<S, u32>> {
        Paging { block_table: &self.block_table, lengths: &self.lengths, cu_q: &self.cu_q }
    }
    /// Uploads the inputs of a step. Each row is a sequence that already includes the step's tokens, and
    /// these tokens. The table has room for `width` blocks of each text, at least.
    pub(super) fn new<B: Backend<Space = S>>(
        backend: &B,
        rows: &[PagedRow<'_>],
        slots: &[u32],
        width: usize,
    ) -> Result<Self> {
        let width = rows.iter().map(|(text, _)| text.blocks().len()).fold(width, usize::max);
        let (mut ids, mut positions) = (Vec::new(), Vec::new());
        let (mut lengths, mut cu_q, mut last) = (Vec::new(), vec![0], Vec::new());
        for (text, tokens) in rows {
            ids.extend_from_slice(tokens);
            positions.extend((text.len() - tokens.len()..text.len()).map(|at| at as u32));
            lengths.push(text.len() as u32);
            cu_q.push(ids.len() as u32);
            last.push((ids.len() as u32).saturating_sub(1));
        }
        Ok(PagedStep {
            ids: backend.tensor(&[ids.len()], &ids)?,
            positions: backend.tensor(&[ids.len()], &positions)?,
            slots: backend.tensor(&[slots.len()], slots)?,
            block_table: backend.tensor(&[rows.len(), width], &table(rows, width))?,
            lengths: backend.tensor(&[rows.len()], &lengths)?,
            cu_q: backend.tensor(&[cu_q.len()], &cu_q)?,
            last: backend.tensor(&[rows.len()], &last)?,
            memories: MemoriesOfStep::new(
                backend,
                rows.iter().map(|(text, tokens)| (&**text, tokens.len())),
            )?,
        })
    }
}

/// The blocks of each text, in rows of `width`.
pub(super) fn table(rows: &[PagedRow<'_>], width: usize) -> Vec<u32> {
    let none = std::iter::repeat(&u32::MAX);
    rows.iter().flat_map(|(text, _)| text.blocks().iter().chain(none.clone()).take(width)).copied().collect()
}

/// What the layers of a step remember of its texts.
pub(super) enum Past<'p, 'r, S: Space, T: Float> {
    /// One state per text, and the position of each row, which is also its cache slot.
    States(&'p mut [state::Row<'r, S, T>], &'p Tensor<S, u32>),
    /// Blocks shared by all texts.
    Pages(&'p mut Pages<S, T>, &'p PagedStep<S>),
}

/// What a layer with attention remembers.
pub(super) enum Keys<'c, S: Space, T: Float> {
    Apart(Vec<state::Cache<'c, S, T>>, &'c Tensor<S, u32>),
    Paged(&'c mut PagedCache<S, T>, &'c PagedStep<S>),
}

impl<S: Space, T: Float> Past<'_, '_, S, T> {
    /// The memory of the attention layer with this slot.
    pub(super) fn keys(&mut self, slot: usize) -> Keys<'_, S, T> {
        match self {
            Past::States(rows, positions) => Keys::Apart(state::caches(rows, slot), positions),
            Past::Pages(pages, step) => Keys::Paged(&mut pages.caches[slot], step),
        }
    }
    /// The memory of the recurrent layer with this slot.
    pub(super) fn memories(&mut self, slot: usize) -> Result<Remembered<'_, S, T>> {
        let (pages, step) = match self {
            Past::States(rows, _) => return Ok(state::memories(rows, slot)),
            Past::Pages(pages, step) => (pages, step),
        };
        let parts = step.memories.as_ref().map_or(Ok(Vec::new()), MemoriesOfStep::parts)?;
        if parts.iter().map(MemoriesOfPart::len).sum::<usize>() != step.ids.layout().len() {
            let (got, wanted) = ("a step whose tokens are not those of its texts", "one of these pages");
            return Err(Error::Pages { got: got.to_owned(), wanted: wanted.to_owned() });
        }
        let memories = vec![&mut pages.memories[slot]];
        Ok(Remembered { memories, parts: parts.into_iter().map(|part| (0, part)).collect() })
    }
}

impl<'c, S: Space, T: Float> Keys<'c, S, T> {
    /// The position of each row in its text, `[t]`.
    pub(super) fn positions(&self) -> &'c Tensor<S, u32> {
        match self {
            Keys::Apart(_, positions) => positions,
            Keys::Paged(_, step) => &step.positions,
        }
    }
    /// The cache slot of each row, `[t]`.
    pub(super) fn slots(&self) -> &'c Tensor<S, u32> {
        match self {
            Keys::Apart(_, positions) => positions,
            Keys::Paged(_, step) => &step.slots,
        }
    }
    /// Adds the rotated keys and the values of a projection, and returns its rotated queries, if the backend has kernels for all of it.
    pub(super) fn add_projected<B: Transformer<T> + Backend<Space = S>>(
        &mut self,
        b: &B,
        projection: Projection<'_, S, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<Option<Tensor<S, T>>> {
        match self {
            Keys::Paged(cache, _) => Ok(cache.write_projected(b, projection, rotation)?),
            Keys::Apart(caches, _) => match &mut caches[..] {
                [(cache, _)] => Ok(cache.append_projected(b, projection, rotation)?),
                _ => Ok(None),
            },
        }
    }
    /// Rotates keys, and adds them and the values, `[t, h_kv, d]` each.
    pub(super) fn add_rotated<B: Transformer<T> + Backend<Space = S>>(
        &mut self,
        b: &B,
        mut queries: Option<Queries<'_, S, T>>,
        k: Ref<'_, B, T>,
        v: Ref<'_, B, T>,
        rotation: CacheRotation<'_, S>,
    ) -> Result<()> {
        let caches = match self {
            Keys::Apart(caches, _) => caches,
            Keys::Paged(cache, _) => return Ok(cache.write_rotated(b, queries, k, v, rotation)?),
        };
        let mut at = 0;
        for (cache, t) in caches {
            let positions = rotation.positions.narrow(0, at, *t)?;
            let of_text = CacheRotation { positions, slots: positions, ..rotation };
            let queries = queries.as_mut().map(|queries| queries.narrow(at, *t)).transpose()?;
            cache.append_rotated(b, queries, k.narrow(0, at, *t)?, v.narrow(0, at, *t)?, of_text)?;
            at += *t;
        }
        Ok(())
    }
    /// Adds keys `[t, h_kv, d]`; the values are the first features.
    pub(super) fn add_keys<B: Transformer<T> + Backend<Space = S>>(
        &mut self,
        b: &B,
        k: Ref<'_, B, T>,
    ) -> Result<()> {
        let caches = match self {
            Keys::Apart(caches, _) => caches,
            Keys::Paged(cache, step) => return Ok(cache.write_keys(b, k, &step.slots)?),
        };
        let mut at = 0;
        for (cache, t) in caches {
            cache.append_keys(b, k.narrow(0, at, *t)?.unsqueeze(0)?.transpose(1, 2)?)?;
            at += *t;
        }
        Ok(())
    }
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Allocates memory for texts of `count` blocks in total, with `size` tokens each. If the model has recurrent layers, this is
    /// [`pages_for`](Self::pages_for) up to 64 texts.
    ///
    /// # Errors
    /// Those of [`Blocks::new`] and of the backend.
    pub fn pages(&self, backend: &B, count: usize, size: usize) -> Result<Pages<B::Space, T>> {
        self.pages_for(backend, count, size, count.min(64))
    }

    /// Like [`pages`](Self::pages), for up to `texts` texts at a time if the model has recurrent layers, whose memory is of fixed size.
    /// Other models need no such limit. The rules for texts with a memory are those of [`Blocks::with_memories`].
    ///
    /// # Errors
    /// As [`pages`](Self::pages).
    pub fn pages_for(
        &self,
        backend: &B,
        count: usize,
        size: usize,
        texts: usize,
    ) -> Result<Pages<B::Space, T>> {
        let Config { layers, latent, .. } = self.config;
        let own = (0..layers).filter(|layer| self.config.has_own_keys(*layer));
        let (recurrent, own): (Vec<_>, Vec<_>) = own.partition(|layer| self.config.is_recurrent(*layer));
        let blocks = match recurrent.is_empty() {
            true => Blocks::new(count, size)?,
            false => Blocks::with_memories(count, size, texts)?,
        };
        let cache = |layer| {
            let HeadShape { kv_heads, head_dim, .. } = self.config.heads_of(layer);
            let dims = [count, size, kv_heads, head_dim];
            match latent {
                Some(latent) => PagedCache::latent(backend, dims, latent.rank),
                None => PagedCache::new(backend, dims),
            }
        };
        let plans = recurrent.iter().flat_map(|_| &self.config.recurrent);
        Ok(Pages {
            blocks,
            caches: own.into_iter().map(cache).collect::<ops_core::Result<_>>()?,
            memories: plans.map(|plan| Memory::new(backend, plan, texts)).collect::<ops_core::Result<_>>()?,
        })
    }

    /// A step of several texts in `pages`, with one or more tokens each: returns the logits for the token
    /// after each.
    ///
    /// # Errors
    /// [`Error::Tokens`] if a text has no tokens, or more than the model was loaded for; [`Error::Pages`] for pages of another
    /// model; [`OutOfBlocks`](ops_core::Error::OutOfBlocks) or [`OutOfMemories`](ops_core::Error::OutOfMemories) if there is too little
    /// for all texts; errors of the backend. All texts then have the tokens that they had. If the step had begun, those of a model with
    /// recurrent layers have lost their memory, and must be truncated to 0 and read again.
    pub fn forward_paged(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
    ) -> Result<Vec<Vec<f32>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        self.with_step(b, pages, rows, |pages, step| {
            let logits = self.logits(b, self.paged_hidden(b, pages, step)?.as_ref())?;
            Ok(logits.chunks(self.vocabulary().max(1)).map(<[f32]>::to_vec).collect())
        })
    }

    /// A step of several texts in `pages`, as [`forward_paged`](Self::forward_paged): returns the token drawn
    /// after each, with one counter per text. The logits stay on the backend. If a text has NaN among its logits, this is its
    /// [`NanLogit`](crate::NanLogit), at every temperature.
    ///
    /// # Errors
    /// As [`forward_paged`](Self::forward_paged), and the errors of [`SamplingMethods::sample`].
    pub fn sample_paged(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        counters: &[i64],
        sample: Sample<f32>,
    ) -> Result<Vec<Drawn>> {
        self.next_paged(b, pages, rows, &Draw::alike(sample, counters, rows.len())?)
    }

    /// [`sample_paged`](Self::sample_paged), with each token drawn in its own way.
    pub(crate) fn next_paged(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        draws: &[Draw<'_>],
    ) -> Result<Vec<Drawn>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        // `with_step` refuses rows without tokens.
        let positions: Vec<usize> =
            rows.iter().map(|(text, tokens)| (text.len() + tokens.len()).saturating_sub(1)).collect();
        self.with_step(b, pages, rows, |pages, step| {
            self.drawn(b, &self.paged_hidden(b, pages, step)?, draws, &positions)
        })
    }

    /// The logits for the token after each text of a step, `[texts, vocabulary]`, on the backend. Everything
    /// that changes from step to step is read from the memory of `step`.
    ///
    /// # Errors
    /// [`Error::Pages`] for pages of another model; those of the backend.
    pub fn logits_paged(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        step: &PagedStep<B::Space>,
    ) -> Result<TensorOf<B, f32>> {
        self.check_pages(pages)?;
        self.share.step(|| self.capped(b, self.logits_on(b, self.paged_hidden(b, pages, step)?.as_ref())?))
    }

    /// Appends the tokens to their texts, runs the step, and removes the tokens if it fails.
    fn with_step<R>(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        run: impl FnOnce(&mut Pages<B::Space, T>, &PagedStep<B::Space>) -> Result<R>,
    ) -> Result<R> {
        self.with_tokens(b, pages, rows, |pages, rows, slots| {
            let step = PagedStep::new(b, rows, slots, 0)?;
            self.share.step(|| run(pages, &step))
        })
    }

    /// Appends the tokens to their texts, passes on their slots, and removes the tokens after an error.
    pub(super) fn with_tokens<R>(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
        run: impl FnOnce(&mut Pages<B::Space, T>, &[PagedRow<'_>], &[u32]) -> Result<R>,
    ) -> Result<R> {
        let before: Vec<usize> = rows.iter().map(|(text, _)| text.len()).collect();
        let slots = self.append(b, pages, rows);
        let result = slots.and_then(|slots| run(pages, rows, &slots));
        if result.is_err() {
            rows.iter_mut().zip(before).for_each(|((text, _), len)| text.truncate(len));
        }
        result
    }

    /// Appends tokens to texts in `pages`, and uploads the inputs of a step of these tokens.
    /// [`logits_paged`](Self::logits_paged) is the step itself.
    ///
    /// # Errors
    /// As [`forward_paged`](Self::forward_paged). If the upload fails, the texts have the new tokens and the
    /// caller must remove them.
    pub fn paged_step(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        rows: &mut [PagedRow<'_>],
    ) -> Result<PagedStep<B::Space>> {
        let slots = self.append(b, pages, rows)?;
        PagedStep::new(b, rows, &slots, 0)
    }

    /// Appends tokens to texts in `pages`, and returns their slots.
    fn append(&self, b: &B, pages: &mut Pages<B::Space, T>, rows: &mut [PagedRow<'_>]) -> Result<Vec<u32>> {
        self.check_pages(pages)?;
        for (text, tokens) in rows.iter() {
            let (got, before) = (tokens.len(), text.len());
            let room = self.context().saturating_sub(before);
            if got == 0 || got > room {
                return Err(Error::Tokens { got, before, room });
            }
        }
        let Pages { blocks, caches, memories } = pages;
        let mut texts: Vec<_> = rows.iter_mut().map(|(text, tokens)| (&mut **text, tokens.len())).collect();
        let slots = blocks.append(&mut texts, |copies| {
            caches.iter_mut().try_for_each(|cache| cache.copy_blocks(b, copies))
        })?;
        // A memory may hold what another text has left.
        let new = rows.iter().filter(|(text, tokens)| text.len() == tokens.len());
        let new: Vec<u32> = new.filter_map(|(text, _)| text.memory()).collect();
        if !new.is_empty() {
            let ids = b.tensor(&[new.len()], &new)?;
            memories.iter_mut().try_for_each(|memory| memory.clear_texts(b, ids.as_ref()))?;
        }
        Ok(slots)
    }

    fn check_pages(&self, pages: &Pages<B::Space, T>) -> Result<()> {
        let Config { layers, shared_kv, .. } = self.config;
        let recurrent = (0..layers).filter(|layer| self.config.is_recurrent(*layer)).count();
        let got = [pages.caches.len(), pages.memories.len()];
        let wanted = [layers - shared_kv - recurrent, recurrent];
        if got != wanted {
            let layers = |[keys, recurrent]: [usize; 2]| {
                format!("{keys} layers with keys and {recurrent} recurrent ones")
            };
            let (got, wanted) = (layers(got), layers(wanted));
            let (got, wanted) = (format!("pages of {got}"), format!("pages of this model's {wanted}"));
            return Err(Error::Pages { got, wanted });
        }
        Ok(())
    }

    /// The normed output of the last layer for the last token of each text, `[texts, dim]`.
    pub(super) fn paged_hidden(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        step: &PagedStep<B::Space>,
    ) -> Result<TensorOf<B, T>> {
        let h = self.through_layers(b, &step.ids, &mut Past::Pages(pages, step))?;
        if step.last.dims() == step.ids.dims() {
            return Ok(h);
        }
        Ok(b.index_select(&h, &step.last, 0)?)
    }
}
