//! The state of recurrent layers for many sequences: one tensor for each kind of memory, `[memories, ..]`.
use super::Sequence;
use crate::ops::{CacheMethods, CacheOps, IndexMethods, IndexOps};
use crate::{Backend, Float, Result, Space, Tensor, TensorMut, TensorRef, View};
use core::ops::Range;

/// The memories that a call uses, as indices into the tensor of all. [`Blocks`](super::Blocks) gives each sequence its memory.
#[derive(Debug)]
pub enum Memories<'m, S: Space> {
    /// `n` consecutive memories from `first` on, which are used in place.
    Consecutive {
        /// The first.
        first: usize,
        /// How many.
        n: usize,
    },
    /// The memories at these distinct indices, `[n]`. The call works on a copy, which is then written back.
    Listed(TensorRef<'m, S, u32>),
}

impl<S: Space> Memories<'_, S> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Memories::Consecutive { n, .. } => *n,
            Memories::Listed(ids) => ids.layout().len(),
        }
    }
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `run` with these memories out of `all`, in this order.
    ///
    /// ```
    /// # use rocm_ops::{Backend, model::Memories, ops::*};
    /// # let b = rocm_ops::Cpu::new();
    /// let mut all = b.tensor(&[3, 1], &[1.0f32, 2.0, 3.0])?;
    /// let ids = b.tensor(&[2], &[2u32, 0])?;
    /// Memories::Listed(ids.as_ref()).update(&b, &mut all, |two| {
    ///     assert_eq!(two.dims(), [2, 1]);
    ///     b.affine_inplace(two, 2.0, 1.0)
    /// })?;
    /// assert_eq!(all.to_vec(&b)?, [3.0, 2.0, 7.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `run` and of the backend.
    pub fn update<T: Float, B>(
        &self,
        backend: &B,
        all: &mut Tensor<S, T>,
        run: impl FnOnce(TensorMut<'_, S, T>) -> Result<()>,
    ) -> Result<()>
    where
        B: IndexOps + CacheOps<T> + Backend<Space = S>,
    {
        match self {
            Memories::Consecutive { first, n } => run(all.as_mut().narrow(0, *first, *n)?),
            Memories::Listed(ids) => {
                let mut own = backend.index_select(&*all, *ids, 0)?;
                run(own.as_mut())?;
                write(backend, &own, *ids, all)
            }
        }
    }

    /// Sets the memories at these indices of `all` to zeros, whatever they hold.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn clear<T: Float, B: CacheOps<T> + Backend<Space = S>>(
        backend: &B,
        ids: TensorRef<'_, S, u32>,
        all: &mut Tensor<S, T>,
    ) -> Result<()> {
        let [_, width] = as_rows(all.dims());
        write(backend, &backend.zeros(&[ids.layout().len(), width])?, ids, all)
    }
}

/// The number of memories, and of elements of each.
fn as_rows(dims: &[usize]) -> [usize; 2] {
    [dims.first().copied().unwrap_or(1), dims.iter().skip(1).product()]
}

/// Writes memories to their places among all.
fn write<T: Float, B: CacheOps<T>>(
    backend: &B,
    own: &Tensor<B::Space, T>,
    ids: TensorRef<'_, B::Space, u32>,
    all: &mut Tensor<B::Space, T>,
) -> Result<()> {
    let (rows, to) = (as_rows(own.dims()), as_rows(all.dims()));
    backend.cache_write(own.as_ref().reshape(&rows)?, ids, all.as_mut().reshape(&to)?)
}

/// The memories of the texts of a step, in parts that a recurrent layer computes in one call each: consecutive texts that gain equally
/// many tokens.
#[derive(Debug)]
pub struct MemoriesOfStep<S: Space> {
    /// The index of each text's memory, `[texts]`.
    ids: Tensor<S, u32>,
    runs: Vec<Run>,
}

#[derive(Debug)]
struct Run {
    texts: Range<usize>,
    tokens: usize,
    /// The first text's memory, if the others' follow it.
    first: Option<usize>,
}

/// A part of a step, see [`MemoriesOfStep::parts`].
#[derive(Debug)]
pub struct MemoriesOfPart<'m, S: Space> {
    /// Those of its texts.
    pub memories: Memories<'m, S>,
    /// How many tokens each text gains.
    pub tokens: usize,
}

impl<S: Space> MemoriesOfStep<S> {
    /// The memories of texts and the number of tokens that each gains; `None` if a text has none.
    ///
    /// # Errors
    /// As [`Backend::tensor`].
    pub fn new<'s, B: Backend<Space = S>>(
        backend: &B,
        texts: impl IntoIterator<Item = (&'s Sequence, usize)>,
    ) -> Result<Option<Self>> {
        let texts = texts.into_iter().map(|(text, tokens)| Some((text.memory()?, tokens)));
        let Some(texts) = texts.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut runs: Vec<Run> = Vec::new();
        for (at, &(id, tokens)) in texts.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if run.tokens == tokens => {
                    run.first = run.first.filter(|first| first + run.texts.len() == id as usize);
                    run.texts.end += 1;
                }
                _ => runs.push(Run { texts: at..at + 1, tokens, first: Some(id as usize) }),
            }
        }
        let ids: Vec<u32> = texts.iter().map(|(id, _)| *id).collect();
        Ok(Some(MemoriesOfStep { ids: backend.tensor(&[ids.len()], &ids)?, runs }))
    }

    /// The same texts, each with this many tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: usize) -> Self {
        let runs = self.runs.into_iter().map(|run| Run { tokens, ..run }).collect();
        MemoriesOfStep { runs, ..self }
    }

    /// The parts, with all texts in order.
    ///
    /// # Errors
    /// None in practice: the views always exist.
    pub fn parts(&self) -> Result<Vec<MemoriesOfPart<'_, S>>> {
        let part = |run: &Run| {
            let (at, n) = (run.texts.start, run.texts.len());
            let memories = match run.first {
                Some(first) => Memories::Consecutive { first, n },
                None => Memories::Listed(self.ids.narrow(0, at, n)?),
            };
            Ok(MemoriesOfPart { memories, tokens: run.tokens })
        };
        self.runs.iter().map(part).collect()
    }
}

impl<S: Space> MemoriesOfPart<'_, S> {
    /// How many rows the part has in a step.
    pub fn len(&self) -> usize {
        self.memories.len().saturating_mul(self.tokens)
    }
    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The part's rows of `x`, from row `at` on, as `[texts, tokens, ..]`.
    ///
    /// # Errors
    /// `x` has too few rows.
    pub fn rows<V: View>(&self, x: V, at: usize) -> Result<V> {
        let dims =
            [&[self.memories.len(), self.tokens], x.layout().dims().get(1..).unwrap_or_default()].concat();
        let layout = x.layout().narrow(0, at, self.len())?.reshape(&dims)?;
        x.with_layout(layout)
    }
}
