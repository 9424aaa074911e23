//! The loop: lines become sequences, and every step adds a token to each that is ready.
use super::Terminal;
use super::input::{Input, Line, Lines};
use super::output::{Done, Printer, Text};
use super::stats::Stats;
use crate::output::Progress;
use crate::text::{self, Prepare, Result};
use ops_command::stderr;
use ops_core::Float;
use ops_core::model::Transformer;
use ops_models::{
    Batch, BatchEvent, BatchOptions, Chat, Decoder, Error, GenerateOptions, Overflow, Prompt, Rank, TextModel,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

pub(super) fn serve<T: Float, B: Transformer<T>>(
    input: Input<'_>,
    name: &str,
    (rank, prepare): (&Rank<'_, B>, &Prepare<'_>),
    lines: Option<&mut Lines>,
    terminal: &mut Terminal<'_>,
) -> Result<Stats> {
    let backend = rank.backend();
    let Input { common, args, model, config, tokenizer, chat, context, begin } = input;
    let mut progress = Progress::new(common.progress);
    let mut step = |done, all| {
        if rank.leads() {
            progress.step(done, all, "layers loaded")
        }
    };
    let load = Instant::now();
    let decoder = Decoder::<T, B>::load_share(backend, &model, config, context, rank.share(), &mut step)?;
    progress.clear();
    text::report_load::<T, B>(rank, &decoder, load)?;
    let records = args.sampling.records(&args.running);
    let model = TextModel::new(decoder, Some(tokenizer)).record_steps(records);
    let size = BatchOptions {
        blocks: args.blocks as usize,
        block_size: args.block_size as usize,
        max_batch: args.max_batch as usize,
        prefill: args.prefill as usize,
        sharing: !args.no_sharing,
    };
    let options = args.sampling.options(args.max_tokens as usize, Overflow::Stop);
    let batch = |blocks| -> Result<_> { Ok(model.batch(backend, BatchOptions { blocks, ..size })?) };
    prepare(&mut || rehearse(batch(16)?, size.max_batch, &options))?;
    let (texts, stats) = (BTreeMap::new(), Stats::default());
    let batch = batch(size.blocks)?;
    let chat = chat.as_ref();
    let printer = Printer { out: &mut *terminal.out, json: common.json, reports: rank.leads() };
    let loaded = begin.elapsed();
    let mut service =
        Service { rank, model: &model, chat, options, batch, texts, printer, stats, lost: None };
    service.run(args.max_batch, lines, terminal.stop)?;
    let Service { batch, mut stats, .. } = service;
    stats.batch = batch.stats().clone();
    if !rank.leads() {
        return Ok(stats);
    }
    let stopped = if terminal.stop.load(Ordering::Relaxed) { "; stopped by Ctrl-C" } else { "" };
    writeln!(stderr(), "{}, on {name} in {}{stopped}", stats.summary(), T::DTYPE.name());
    text::report_refusal(batch.refusal());
    if args.running.stats {
        stats.print(batch.blocks(), loaded);
    }
    Ok(stats)
}

/// A batch, and the output of its texts.
struct Service<'m, 'o, T: Float, B: Transformer<T>> {
    rank: &'m Rank<'m, B>,
    model: &'m TextModel<T, B>,
    chat: Option<&'m Chat>,
    options: GenerateOptions,
    batch: Batch<'m, T, B>,
    /// By the number that the batch gave each text.
    texts: BTreeMap<usize, Text>,
    printer: Printer<'o>,
    stats: Stats,
    /// That a rank was lost.
    lost: Option<Error>,
}

impl<T: Float, B: Transformer<T>> Service<'_, '_, T, B> {
    /// `lines` are those of rank 0.
    fn run(&mut self, most: u32, mut lines: Option<&mut Lines>, stop: &AtomicBool) -> Result<()> {
        let rank = self.rank;
        while !rank.agree(|| stop.load(Ordering::Relaxed))? {
            // No more lines than sequences, so that lines without an end do not keep the sequences waiting.
            for _ in 0..=most {
                let (room, idle) = (self.batch.room(), self.batch.is_idle());
                let next = |lines: &mut Lines| {
                    lines.allow(room);
                    lines.next(idle)
                };
                let Some(line) = rank.agree(|| lines.as_deref_mut().and_then(next))? else { break };
                self.take(line)?;
            }
            if self.batch.is_idle() {
                if rank.agree(|| lines.as_ref().is_some_and(|lines| lines.is_open()))? {
                    continue;
                }
                return Ok(());
            }
            for event in self.batch.step() {
                self.report(event)?;
            }
            if let Some(error) = self.lost.take() {
                return self.give_up(error);
            }
        }
        let mut texts = std::mem::take(&mut self.texts).into_values();
        texts.try_for_each(|text| self.printer.done(text, Done::Interrupted))
    }

    /// Ends all texts because a rank was lost. They keep what they have.
    fn give_up(&mut self, error: Error) -> Result<()> {
        for text in std::mem::take(&mut self.texts).into_values() {
            self.stats.fault();
            self.printer.done(text, Done::Failed(error.to_string()))?;
        }
        Err(error.into())
    }

    /// Executes a line of input.
    fn take(&mut self, line: Line) -> Result<()> {
        match line {
            Line::Wrong(why) => {
                self.stats.fault();
                self.printer.report(&why);
            }
            Line::Cancel(number) => {
                let found = self.texts.iter().find(|(_, text)| text.number == number);
                match found.map(|(id, _)| *id).and_then(|id| Some((id, self.texts.remove(&id)?))) {
                    Some((id, text)) => {
                        self.batch.cancel(id);
                        self.printer.done(text, Done::Cancelled)?;
                    }
                    None => self.printer.report(&format!("[{number}] there is no such sequence to cancel")),
                }
            }
            Line::Prompt(text) => {
                self.stats.sequences += 1;
                let number = self.stats.sequences;
                match self.add(&text) {
                    Ok(id) => {
                        let shown = if self.chat.is_some() { String::new() } else { text };
                        self.texts.insert(id, Text::new(number, shown));
                    }
                    Err(why) => self.refuse(number, &why.to_string())?,
                }
            }
            Line::Unreadable(why) => {
                self.stats.sequences += 1;
                self.refuse(self.stats.sequences, &why)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, text: &str) -> Result<usize> {
        let message;
        let prompt = match (self.chat, self.model.tokenizer()) {
            (Some(chat), Some(tokenizer)) => {
                message = chat.clone().message("user", text).tokens(tokenizer)?;
                Prompt::Ids(&message)
            }
            _ => Prompt::Text(text),
        };
        Ok(self.batch.add(prompt, self.options.clone())?)
    }

    fn refuse(&mut self, number: usize, why: &str) -> Result<()> {
        self.stats.fault();
        self.printer.refused(number, why)
    }

    fn report(&mut self, event: BatchEvent) -> Result<()> {
        match event {
            BatchEvent::Joined { text, prompt, shared } => {
                let number = self.texts.get(&text).map_or(0, |text| text.number);
                self.printer.start(number, prompt, shared)
            }
            BatchEvent::Preempted { text } => {
                self.texts.entry(text).and_modify(|text| text.preemptions += 1);
                Ok(())
            }
            BatchEvent::Token { text, token } => match self.texts.get_mut(&text) {
                Some(text) => self.printer.token(text, &token),
                None => Ok(()),
            },
            BatchEvent::Finished { text, reason } => {
                let Some(text) = self.texts.remove(&text) else { return Ok(()) };
                if reason.is_err() {
                    self.stats.fault();
                }
                let failed = |error: Error| {
                    let done = Done::Failed(error.to_string());
                    if let Error::Op(ops_core::Error::Group { .. }) = error {
                        self.lost.get_or_insert(error);
                    }
                    done
                };
                let done = reason.map_or_else(failed, Done::Ended);
                self.printer.done(text, done)
            }
        }
    }
}

/// Runs typical steps so that the backend can prepare: a prompt, and several texts, which are not neighbours in memory.
fn rehearse<T: Float, B: Transformer<T>>(
    mut batch: Batch<'_, T, B>,
    most: usize,
    options: &GenerateOptions,
) -> Result<()> {
    let blocks = batch.blocks();
    let tokens = (blocks.count() * blocks.size()).saturating_sub(1).clamp(1, 8);
    let options = GenerateOptions { ignore_eos: true, stop: Vec::new(), max_tokens: 8, ..options.clone() };
    let step = |batch: &mut Batch<'_, T, B>| -> Result<()> {
        for event in batch.step() {
            if let BatchEvent::Finished { reason: Err(error), .. } = event
                && !matches!(error, Error::Nan(_))
            {
                return Err(error.into());
            }
        }
        Ok(())
    };
    batch.add(&vec![0; tokens], options.clone())?;
    step(&mut batch)?;
    for _ in 1..most.min(3) {
        batch.add(&vec![0], options.clone())?;
    }
    step(&mut batch)?;
    if most > 2 {
        batch.cancel(2);
        step(&mut batch)?;
    }
    Ok(())
}
