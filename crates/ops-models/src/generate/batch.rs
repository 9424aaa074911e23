//! Many texts over a shared cache, which join and leave at every step.
use super::schedule::{Event, Job, Limits, Running, Schedule};
use super::text::Text;
use super::{BatchStats, Finish, GenerateOptions, Overflow, Prompt, TextModel, Token};
use crate::decoder::{Draw, Repeated};
use crate::{Decoder, Drawn, Error, PagedRow, Pages, Result};
use ops_core::model::{Blocks, Sequence, Transformer};
use ops_core::{Float, Replay};
use std::time::Instant;

/// The size of a [`Batch`].
///
/// ```
/// let small = rocm_ops::models::BatchOptions { blocks: 64, ..Default::default() };
/// assert_eq!(small.blocks * small.block_size, 1024); // tokens of all texts together
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchOptions {
    /// Blocks of keys and values, for all texts together. Default: 512.
    pub blocks: usize,
    /// Tokens per block. Default: 16.
    pub block_size: usize,
    /// Maximum number of texts in a step; the rest wait. Default: 64.
    pub max_batch: usize,
    /// Maximum number of prompt tokens in a step. Longer prompts are read in several steps, so that they do not delay other texts.
    /// Default: 512.
    pub prefill: usize,
    /// Whether prompts that begin alike share blocks instead of computing them again. Models with recurrent layers never share.
    /// Default: yes.
    pub sharing: bool,
}

impl Default for BatchOptions {
    fn default() -> Self {
        BatchOptions { blocks: 512, block_size: 16, max_batch: 64, prefill: 512, sharing: true }
    }
}

/// What a step of a [`Batch`] has done. `text` is the number that [`Batch::add`] returned.
#[derive(Debug)]
pub enum BatchEvent {
    /// A text has joined for the first time.
    Joined {
        /// The text.
        text: usize,
        /// Tokens of its prompt.
        prompt: usize,
        /// How many of these other texts had already computed.
        shared: usize,
    },
    /// The blocks have run out, and the text that joined last has given up its own. Later, its tokens are computed again.
    Preempted {
        /// The text.
        text: usize,
    },
    /// A text has a new token.
    Token {
        /// The text.
        text: usize,
        /// The token.
        token: Token,
    },
    /// A text has ended and left the batch.
    Finished {
        /// The text.
        text: usize,
        /// Why, or why its next token cannot be computed. Other texts go on.
        reason: Result<Finish>,
    },
}

/// Texts that are continued together, each with options of its own, from [`TextModel::batch`].
///
/// Every [`step`](Self::step) adds a token to each text that is being continued, and reads prompts of those that have just joined, all in
/// one pass through the weights. Keys and values are in blocks of a shared cache, which texts take as they grow. A text joins when
/// there are enough blocks for its prompt, those that are still being read, and one more for each other text. When blocks run out, the
/// text that joined last waits, and is computed again later.
///
/// ```no_run
/// use rocm_ops::models::{BatchEvent, BatchOptions, GenerateOptions, TextModel};
///
/// let (cpu, file) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
/// let model = TextModel::<f32, _>::load(&cpu, &file, 4096)?;
/// let mut batch = model.batch(&cpu, BatchOptions::default())?;
/// for prompt in ["Once upon a time", "In the end", "Meanwhile"] {
///     batch.add(prompt, GenerateOptions { max_tokens: 32, ..Default::default() })?;
/// }
/// while !batch.is_idle() {
///     for event in batch.step() {
///         match event {
///             BatchEvent::Token { text, token } => println!("{text}: {:?}", token.text),
///             BatchEvent::Finished { text, reason } => println!("{text} has ended: {reason:?}"),
///             _ => {}
///         }
///     }
/// }
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
pub struct Batch<'m, T: Float, B: Replay> {
    model: &'m TextModel<T, B>,
    backend: &'m B,
    pages: Pages<B::Space, T>,
    repeated: Repeated<B>,
    schedule: Schedule<Text<'m>>,
    /// Maximum number of tokens in a text.
    context: usize,
    added: usize,
    stats: BatchStats,
}

/// A text of a step, and its tokens up to the end of the step.
struct Row<'r> {
    text: &'r mut Sequence,
    tokens: &'r [u32],
}

impl Row<'_> {
    fn fresh(&mut self) -> PagedRow<'_> {
        let len = self.text.len();
        (self.text, &self.tokens[len..])
    }
}

impl<'m, T: Float, B: Transformer<T>> Batch<'m, T, B> {
    pub(super) fn new(model: &'m TextModel<T, B>, backend: &'m B, options: BatchOptions) -> Result<Self> {
        let BatchOptions { blocks, block_size, max_batch, prefill, sharing } = options;
        for (name, size) in
            [("blocks", blocks), ("block_size", block_size), ("max_batch", max_batch), ("prefill", prefill)]
        {
            if size == 0 {
                return Err(Error::Option { name, got: "0".to_owned(), wanted: "at least 1".to_owned() });
            }
        }
        let pages = model.decoder.pages_for(backend, blocks, block_size, blocks.min(max_batch))?;
        let sharing = sharing && model.decoder.config().recurrent.is_none();
        let schedule = Schedule::new(pages.blocks().clone(), Limits { batch: max_batch, prefill, sharing });
        let context = model.decoder.context().min(blocks.saturating_mul(block_size));
        let (repeated, stats) = (Repeated::new(model.records), BatchStats::default());
        Ok(Batch { model, backend, pages, repeated, schedule, context, added: 0, stats })
    }

    /// Adds a prompt to continue, and returns the number of its text, counted from 1.
    ///
    /// # Errors
    /// As [`TextModel::generate`]; [`Error::Option`] for `max_tokens` of 0 and for [`Overflow::Shift`].
    pub fn add<'p>(&mut self, prompt: impl Into<Prompt<'p>>, options: GenerateOptions) -> Result<usize> {
        options.check(self.model.decoder.vocabulary())?;
        let wrong = |name, got: &str, wanted: &str| {
            Err(Error::Option { name, got: got.to_owned(), wanted: wanted.to_owned() })
        };
        if options.max_tokens == 0 {
            return wrong("max_tokens", "0", "at least 1 in a batch");
        }
        if options.overflow != Overflow::Stop {
            return wrong("overflow", "Shift", "Stop in a batch");
        }
        let tokens = self.model.prompt_ids(prompt.into(), self.context)?;
        let output = Text::new(self.model.tokenizer(), &tokens, options)?;
        self.added += 1;
        let (number, prompt) = (self.added, tokens.len());
        self.schedule.submit(Job { number, tokens, prompt, preemptions: 0, output });
        Ok(number)
    }

    /// Ends a text, wherever it is, and frees its blocks. Whether it was there.
    pub fn cancel(&mut self, text: usize) -> bool {
        self.schedule.remove(text).is_some()
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.schedule.is_idle()
    }

    /// How many more texts it takes before others wait for more than the next place: as many as can run, and one more.
    pub fn room(&self) -> usize {
        self.schedule.room()
    }

    /// The blocks, of which some are in use.
    pub fn blocks(&self) -> &Blocks {
        self.pages.blocks()
    }

    /// Why the first step that could not be recorded was refused ([`TextModel::record_steps`]); `None` if none was.
    pub fn refusal(&self) -> Option<&ops_core::Error> {
        self.repeated.refusal()
    }

    /// What all steps have done.
    pub fn stats(&self) -> &BatchStats {
        &self.stats
    }

    /// Does a step of all texts for which there is room, and returns what has happened, in order.
    ///
    /// If the step fails, it is repeated with each text alone, so that a fault of one does not end the others.
    pub fn step(&mut self) -> Vec<BatchEvent> {
        let mut events = self.plan();
        let begin = Instant::now();
        let mut ready: Vec<_> =
            self.schedule.running.iter_mut().filter(|running| running.fresh > 0).collect();
        // Neighbours in memory are computed where they are.
        ready.sort_by_key(|running| running.text.memory().unwrap_or(u32::MAX));
        let (mut rows, mut draws, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for Running { job, text, fresh } in ready {
            let end = text.len() + *fresh;
            rows.push(Row { text, tokens: &job.tokens[..end] });
            draws.push(job.output.draw(&job.tokens));
            numbers.push(job.number);
        }
        let counts: Vec<usize> = rows.iter().map(|row| row.tokens.len() - row.text.len()).collect();
        let step = (&self.model.decoder, self.backend);
        let next = next_of_each(step, (&mut self.pages, &mut self.repeated), &mut rows, &draws);
        drop(draws);
        self.stats.step(&counts, self.pages.blocks(), begin.elapsed());
        for (number, drawn) in numbers.into_iter().zip(next) {
            self.accept(number, drawn, &mut events);
        }
        events
    }

    /// Chooses the texts of the next step.
    fn plan(&mut self) -> Vec<BatchEvent> {
        let mut events = Vec::new();
        for event in self.schedule.plan() {
            match event {
                Event::Joined { number, shared } => {
                    self.stats.shared += shared;
                    let joined = self.schedule.running.iter().find(|running| running.job.number == number);
                    if let Some(Running { job, .. }) = joined.filter(|running| running.job.preemptions == 0) {
                        events.push(BatchEvent::Joined { text: number, prompt: job.prompt, shared });
                    }
                }
                Event::Preempted { number, lost } => {
                    self.stats.preemptions += 1;
                    self.stats.recomputed += lost;
                    events.push(BatchEvent::Preempted { text: number });
                }
            }
        }
        events
    }

    /// Adds the token that was drawn for a text, if its prompt has been read.
    fn accept(&mut self, number: usize, drawn: Result<Drawn>, events: &mut Vec<BatchEvent>) {
        let running = self.schedule.running.iter_mut().find(|running| running.job.number == number);
        let Some(Running { job, text, .. }) = running else { return };
        let reason = match drawn {
            // If a prompt is only partly read, its next token is already known.
            Ok(_) if text.len() < job.tokens.len() => return,
            Ok(Ok(id)) => match job.output.accept(id, text.len() == self.context) {
                Ok((token, finish)) => {
                    job.tokens.push(id);
                    self.stats.generated += 1;
                    events.push(BatchEvent::Token { text: number, token });
                    match finish {
                        Some(finish) => Ok(finish),
                        None => return,
                    }
                }
                Err(error) => Err(error),
            },
            Ok(Err(nan)) => Err(nan.into()),
            Err(error) => Err(error),
        };
        self.schedule.remove(number);
        events.push(BatchEvent::Finished { text: number, reason });
    }
}

/// The token after each text, or an error. If a step fails, it is repeated with each text alone. Recurrent layers then read the texts
/// from the beginning.
fn next_of_each<T: Float, B: Transformer<T>>(
    (decoder, backend): (&Decoder<T, B>, &B),
    (pages, repeated): (&mut Pages<B::Space, T>, &mut Repeated<B>),
    rows: &mut [Row<'_>],
    draws: &[Draw<'_>],
) -> Vec<Result<Drawn>> {
    let mut paged: Vec<PagedRow<'_>> = rows.iter_mut().map(Row::fresh).collect();
    match decoder.next_repeated(backend, pages, &mut paged, draws, repeated) {
        Ok(tokens) => tokens.into_iter().map(Ok).collect(),
        Err(error) if rows.len() == 1 => vec![Err(error)],
        Err(_) => {
            if decoder.config().recurrent.is_some() {
                rows.iter_mut().for_each(|row| row.text.truncate(0));
            }
            let each = rows.iter_mut().zip(draws.chunks(1));
            let next = each.map(|(row, draw)| decoder.next_paged(backend, pages, &mut [row.fresh()], draw));
            next.map(|drawn| Ok(drawn?[0])).collect()
        }
    }
}
