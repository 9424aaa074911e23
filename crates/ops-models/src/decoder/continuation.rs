//! Steps of one token per text, recorded once and replayed.
use super::drawn::{Drawn, Draws};
use super::{Decoder, PagedStep, Pages};
use crate::pieces::most;
use crate::{Error, Result};
use ops_core::model::{Sequence, Transformer};
use ops_core::ops::*;
use ops_core::{Float, Space, Tensor};

/// A backend on which texts can be continued. It counts the steps, so that positions and lengths do not come
/// from the host.
pub trait Continues<T: Float>: Transformer<T> + ElementwiseOps<u32> {}
impl<T: Float, B: Transformer<T> + ElementwiseOps<u32>> Continues<T> for B {}

/// Continues texts in [`Pages`] token by token, with one recorded step.
///
/// A step reads the tokens that the step before has drawn, and increments its own counter. Its positions,
/// lengths, slots and sampling counters are a row of tables in the backend's memory. So one step is recorded
/// ([`Replay`](ops_core::Replay)) and every step is a replay of it. Only the drawn tokens are copied to the host.
///
/// On a backend that cannot record all of the model's calls, each step makes its calls again, with the same
/// results; [`refusal`](Continuation::refusal) says why.
///
/// Blocks for all steps are taken at the beginning. When the value is dropped, unused blocks are returned,
/// and each text has exactly the tokens that were read. To add or remove texts, drop the value and make
/// another.
///
/// ```no_run
/// # use rocm_ops::models::{Continuation, Decoder};
/// # use rocm_ops::ops::Sample;
/// # let (cpu, gguf) = (rocm_ops::Cpu::new(), rocm_ops::gguf::Gguf::open("model.gguf")?);
/// let model = Decoder::<f32, _>::load(&cpu, &gguf, 512)?;
/// let mut pages = model.pages(&cpu, 100, 16)?;
/// let mut text = pages.blocks().sequence();
/// let first = model.sample_paged(&cpu, &mut pages, &mut [(&mut text, &[1, 2, 3])], &[0], Sample::greedy())?;
/// let first = first[0].expect("logits that are numbers");
/// // At most 100 more, of which the first reads `first`.
/// let mut more = Continuation::new(&cpu, &model, &mut pages, vec![(&mut text, first, 1)], Sample::greedy(), 100)?;
/// for _ in 0..100 {
///     let token = more.next_tokens()?[0];
///     println!("{token:?}");
/// }
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub struct Continuation<'s, T: Float, B: Continues<T>> {
    backend: B,
    model: &'s Decoder<T, B>,
    pages: &'s mut Pages<B::Space, T>,
    texts: Texts<'s>,
    sample: Sample<f32>,
    /// Number of further steps for which blocks were taken.
    left: usize,
    /// The inputs of a step. It writes the tokens of the next step here.
    step: PagedStep<B::Space>,
    draws: Draws<B::Space>,
    plan: Plan<B::Space>,
    recorded: Recorded<T, B>,
}

/// What changes from step to step, in the backend's memory.
struct Plan<S: Space> {
    /// For all steps and texts, `[steps, texts]`.
    positions: Tensor<S, u32>,
    lengths: Tensor<S, u32>,
    slots: Tensor<S, u32>,
    counters: Tensor<S, i64>,
    /// The counters of the current step, `[1, texts]`.
    counter: Tensor<S, i64>,
    /// The number of the current step, `[1]`, and its increment.
    row: Tensor<S, u32>,
    one: Tensor<S, u32>,
}

/// The texts. When dropped, they have exactly the tokens that were read.
struct Texts<'s> {
    /// Each with its number of tokens before the first step.
    all: Vec<(&'s mut Sequence, usize)>,
    taken: usize,
    /// Whether a step has failed, which leaves recurrent layers between two tokens.
    failed: bool,
}

impl Drop for Texts<'_> {
    fn drop(&mut self) {
        let rest = if self.failed { Sequence::truncate } else { Sequence::give_back };
        self.all.iter_mut().for_each(|(text, before)| rest(text, *before + self.taken));
    }
}

/// How steps are run.
enum Recorded<T: Float, B: Continues<T>> {
    Graph(B::Graph, core::marker::PhantomData<T>),
    Refused(ops_core::Error),
    /// The value is still being made.
    NotYet,
}

impl<'s, T: Float, B: Continues<T>> Continuation<'s, T, B> {
    /// Continues texts by at most `steps` tokens each. A text is its sequence, the token that it reads first,
    /// and the counter with which the next token is drawn, as for [`Decoder::sample_paged`].
    ///
    /// # Errors
    /// [`Error::Tokens`] if `steps` is 0 or more than the model was loaded for, or there are no texts; those of
    /// [`Decoder::paged_step`]. All texts then have the tokens that they had.
    pub fn new(
        backend: &B,
        model: &'s Decoder<T, B>,
        pages: &'s mut Pages<B::Space, T>,
        texts: Vec<(&'s mut Sequence, u32, i64)>,
        sample: Sample<f32>,
        steps: usize,
    ) -> Result<Self> {
        if texts.is_empty() {
            return Err(Error::Tokens { got: 0, before: 0, room: model.context() });
        }
        let begin: Vec<(u32, i64)> = texts.iter().map(|&(_, id, counter)| (id, counter)).collect();
        let all = texts.into_iter().map(|(text, ..)| (text.len(), text)).map(|(len, text)| (text, len));
        let mut texts = Texts { all: all.collect(), taken: 0, failed: false };
        let (step, plan) = inputs(backend, model, pages, &mut texts, &begin, steps)?;
        let draws = Draws::new(backend, begin.len())?;
        let mut new = Continuation {
            backend: backend.clone(),
            model,
            pages,
            texts,
            sample,
            left: steps,
            step,
            draws,
            plan,
            recorded: Recorded::NotYet,
        };
        new.recorded = model.share.clone().step(|| new.record())?;
        Ok(new)
    }

    /// Why steps are not replayed; `None` if they are.
    pub fn refusal(&self) -> Option<&ops_core::Error> {
        match &self.recorded {
            Recorded::Refused(why) => Some(why),
            _ => None,
        }
    }
    /// The recorded step, if there is one.
    pub fn graph(&self) -> Option<&B::Graph> {
        match &self.recorded {
            Recorded::Graph(graph, ..) => Some(graph),
            _ => None,
        }
    }
    /// Number of steps that are left.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Makes a step. Returns the token drawn for each text, which the next step reads. If a text has NaN among its logits, this is its
    /// [`NanLogit`](crate::NanLogit), at every temperature, and further tokens of this text are of no use.
    ///
    /// # Errors
    /// [`Error::Tokens`] if no step is left; those of the backend, after which the value is of no further use.
    pub fn next_tokens(&mut self) -> Result<Vec<Drawn>> {
        if self.left == 0 {
            let before = self.texts.all.first().map_or(0, |(text, _)| text.len());
            return Err(Error::Tokens { got: 1, before, room: 0 });
        }
        self.texts.failed = true;
        let share = self.model.share.clone();
        let tokens = share.step(|| {
            match &self.recorded {
                Recorded::Graph(graph, _) => share.replay(&self.backend, graph)?,
                _ => self.make_step()?,
            }
            let Texts { all, taken, .. } = &self.texts;
            self.draws.read(&self.backend, all.iter().map(|(_, before)| before + taken))
        })?;
        self.texts.failed = false;
        (self.left, self.texts.taken) = (self.left - 1, self.texts.taken + 1);
        Ok(tokens)
    }

    fn record(&mut self) -> Result<Recorded<T, B>> {
        let (b, share) = (self.backend.clone(), self.model.share.clone());
        Ok(match share.record(&b, || self.make_step())? {
            Ok((graph, ())) => Recorded::Graph(graph, core::marker::PhantomData),
            Err(why) => Recorded::Refused(why),
        })
    }

    /// The calls of a step: computes the logits, draws tokens from them, and sets everything else for the
    /// next step.
    fn make_step(&mut self) -> Result<()> {
        let (b, texts) = (&self.backend, self.texts.all.len());
        let (step, plan) = (&mut self.step, &mut self.plan);
        let places = [
            (&plan.positions, &mut step.positions),
            (&plan.lengths, &mut step.lengths),
            (&plan.slots, &mut step.slots),
        ];
        let row = IndexSelect::axis(0);
        for (all, now) in places {
            let now = now.as_mut().reshape(&[1, texts])?;
            b.index_select_into(all, &plan.row, now, row)?;
        }
        b.index_select_into(&plan.counters, &plan.row, &mut plan.counter, row)?;
        let hidden = self.model.paged_hidden(b, self.pages, step)?;
        let candidates = self.model.candidates(b, hidden.as_ref(), most([self.sample]))?;
        let counter = plan.counter.as_ref().reshape(&[texts])?;
        self.draws.draw(b, (&candidates, 0), counter, self.sample)?;
        self.draws.agree(b, &self.model.share)?;
        b.copy_into(self.draws.ids()?, &mut step.ids)?;
        let next = b.add(&plan.row, &plan.one)?;
        Ok(b.copy_into(&next, &mut plan.row)?)
    }
}

/// The inputs of a step, and the tables from which all steps take them.
type Inputs<S> = (PagedStep<S>, Plan<S>);

/// Appends `steps` tokens to each text, and uploads the inputs of the steps. A text begins with a token and a
/// counter.
fn inputs<T: Float, B: Continues<T>>(
    b: &B,
    model: &Decoder<T, B>,
    pages: &mut Pages<B::Space, T>,
    texts: &mut Texts<'_>,
    begin: &[(u32, i64)],
    steps: usize,
) -> Result<Inputs<B::Space>> {
    // The tokens of later steps are not known yet. `paged_step` finds their slots.
    let unknown = vec![0; steps];
    let n = texts.all.len();
    let mut rows: Vec<_> = texts.all.iter_mut().map(|(text, _)| (&mut **text, &unknown[..])).collect();
    let all = model.paged_step(b, pages, &mut rows)?;
    let by_text = all.slots.to_vec(b)?;
    // One row per step.
    let cells = || (0..steps * n).map(|at| (at / n, at % n));
    let slots: Vec<u32> = cells().map(|(step, text)| by_text[text * steps + step]).collect();
    let positions: Vec<u32> = cells().map(|(step, text)| (texts.all[text].1 + step) as u32).collect();
    let lengths: Vec<u32> = positions.iter().map(|at| at + 1).collect();
    let counters: Vec<i64> = cells().map(|(step, text)| begin[text].1.wrapping_add(step as i64)).collect();
    let (ids, cu_q): (Vec<u32>, Vec<u32>) =
        (begin.iter().map(|(id, _)| *id).collect(), (0..=n as u32).collect());
    let step = PagedStep {
        ids: b.tensor(&[n], &ids)?,
        positions: b.zeros(&[n])?,
        slots: b.zeros(&[n])?,
        block_table: all.block_table,
        lengths: b.zeros(&[n])?,
        cu_q: b.tensor(&[n + 1], &cu_q)?,
        last: b.tensor(&[n], &cu_q[..n])?,
        memories: all.memories.map(|memories| memories.with_tokens(1)),
    };
    let plan = Plan {
        positions: b.tensor(&[steps, n], &positions)?,
        lengths: b.tensor(&[steps, n], &lengths)?,
        slots: b.tensor(&[steps, n], &slots)?,
        counters: b.tensor(&[steps, n], &counters)?,
        counter: b.zeros(&[1, n])?,
        row: b.zeros(&[1])?,
        one: b.tensor(&[1], &[1])?,
    };
    Ok((step, plan))
}
