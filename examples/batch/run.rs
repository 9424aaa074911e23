//! The loop: lines become sequences, and every step adds a token to each that is ready.
use crate::Terminal;
use crate::input::{Input, Line, Lines};
use crate::output::{Done, Printer, Text};
use crate::schedule::{Event, Job, Limits, Schedule};
use crate::stats::Stats;
use examples_shared::backend::Prepare;
use examples_shared::command::stderr;
use examples_shared::{Progress, Result};
use rocm_ops::Float;
use rocm_ops::model::{Sequence, Transformer};
use rocm_ops::models::{Decoder, Drawn, PagedRow, Pages};
use rocm_ops::ops::Sample;
use std::sync::atomic::Ordering;
use std::time::Instant;

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

/// A model, its backend, and the memory for all sequences.
struct Engine<'m, T: Float, B: Transformer<T>> {
    input: &'m Input<'m>,
    backend: &'m B,
    model: &'m Decoder<T, B>,
    pages: Pages<B::Space, T>,
    stats: Stats,
}

pub(crate) fn serve<T: Float, B: Transformer<T>>(
    input: &Input<'_>,
    name: &str,
    (backend, prepare): (&B, &Prepare<'_>),
    lines: &mut Lines,
    terminal: &mut Terminal<'_>,
) -> Result<Stats> {
    let (args, mut progress) = (input.args, Progress::new());
    let mut step = |done, all| progress.step(done, all);
    let config = input.config.clone();
    let model = Decoder::<T, B>::load_with(backend, &input.model, config, input.context, &mut step)?;
    let engine = |count: usize| -> Result<Engine<'_, T, B>> {
        let texts = count.min(args.max_batch as usize);
        let pages = model.pages_for(backend, count, args.block_size as usize, texts)?;
        Ok(Engine { input, backend, model: &model, pages, stats: Stats::default() })
    };
    prepare(&mut || engine(16)?.rehearse())?;
    let mut engine = engine(args.blocks as usize)?;
    let loaded = input.begin.elapsed();
    engine.run(lines, terminal)?;
    let stopped = if terminal.stop.load(Ordering::Relaxed) { "; stopped by Ctrl-C" } else { "" };
    writeln!(stderr(), "{}, on {name} in {}{stopped}", engine.stats.summary(), T::DTYPE.name());
    if args.stats {
        engine.stats.print(engine.pages.blocks(), loaded);
    }
    Ok(engine.stats)
}

impl<'m, T: Float, B: Transformer<T>> Engine<'m, T, B> {
    fn run(&mut self, lines: &mut Lines, terminal: &mut Terminal<'_>) -> Result<()> {
        let args = self.input.args;
        let limits = Limits {
            batch: args.max_batch as usize,
            prefill: args.prefill as usize,
            sharing: !args.no_sharing && !self.is_recurrent(),
        };
        let mut schedule = Schedule::new(self.pages.blocks().clone(), limits);
        let mut printer = Printer { out: terminal.out, json: args.json };
        while !terminal.stop.load(Ordering::Relaxed) {
            // No more lines than sequences, so that lines without an end do not keep the sequences waiting.
            for _ in 0..=args.max_batch {
                lines.allow(schedule.room());
                let Some(line) = lines.next(schedule.is_idle()) else { break };
                self.take(line, &mut schedule, &mut printer)?;
            }
            if schedule.is_idle() {
                if lines.is_open() {
                    continue;
                }
                return Ok(());
            }
            self.step(&mut schedule, &mut printer)?;
        }
        schedule.remove_all().into_iter().try_for_each(|job| printer.done(job, Done::Interrupted))
    }

    /// Executes a line of input.
    fn take(
        &mut self,
        line: Line,
        schedule: &mut Schedule<Text<'m>>,
        printer: &mut Printer<'_>,
    ) -> Result<()> {
        match line {
            Line::Wrong(why) => {
                self.stats.fault();
                writeln!(stderr(), "{why}");
            }
            Line::Cancel(number) => match schedule.remove(number) {
                Some(job) => printer.done(job, Done::Cancelled)?,
                None => writeln!(stderr(), "[{number}] there is no such sequence to cancel"),
            },
            Line::Prompt(text) => {
                let number = self.number();
                match self.job(number, &text) {
                    Ok(job) => schedule.submit(job),
                    Err(why) => self.refuse(number, &why.to_string(), printer)?,
                }
            }
            Line::Unreadable(why) => {
                let number = self.number();
                self.refuse(number, &why, printer)?;
            }
        }
        Ok(())
    }

    /// The number of the next sequence.
    fn number(&mut self) -> usize {
        self.stats.sequences += 1;
        self.stats.sequences
    }

    fn job(&self, number: usize, text: &str) -> Result<Job<Text<'m>>> {
        let (shown, tokens) = self.input.prompt(text, self.model.vocabulary())?;
        let output = Text::new(&self.input.tokenizer, shown, &tokens)?;
        Ok(Job { number, prompt: tokens.len(), tokens, preemptions: 0, output })
    }

    fn refuse(&mut self, number: usize, why: &str, printer: &mut Printer<'_>) -> Result<()> {
        self.stats.fault();
        printer.refused(number, why)
    }

    /// A step of all sequences for which there is room.
    fn step(&mut self, schedule: &mut Schedule<Text<'m>>, printer: &mut Printer<'_>) -> Result<()> {
        for event in schedule.plan() {
            match event {
                Event::Joined { number, shared } => {
                    self.stats.shared += shared;
                    let joined = schedule.running.iter().find(|running| running.job.number == number);
                    if let Some(running) = joined.filter(|running| running.job.preemptions == 0) {
                        printer.start(&running.job, shared)?;
                    }
                }
                Event::Preempted { lost, .. } => {
                    self.stats.preemptions += 1;
                    self.stats.recomputed += lost;
                }
            }
        }
        let begin = Instant::now();
        let mut ready: Vec<_> = schedule.running.iter_mut().filter(|running| running.fresh > 0).collect();
        // Neighbours in memory are computed where they are.
        ready.sort_by_key(|running| running.text.memory().unwrap_or(u32::MAX));
        let (mut rows, mut counters, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for running in ready {
            let (job, len) = (&running.job, running.text.len());
            rows.push(Row { text: &mut running.text, tokens: &job.tokens[..len + running.fresh] });
            counters.push((job.tokens.len() - job.prompt) as i64);
            numbers.push(job.number);
        }
        let counts: Vec<usize> = rows.iter().map(|row| row.tokens.len() - row.text.len()).collect();
        let next = self.next_of_each(&mut rows, &counters);
        self.stats.step(&counts, self.pages.blocks(), begin.elapsed());
        for (number, token) in numbers.into_iter().zip(next) {
            let at = schedule.running.iter().position(|running| running.job.number == number);
            let Some(running) = at.and_then(|at| schedule.running.get_mut(at)) else { continue };
            let len = running.text.len();
            let why = match token {
                // If a prompt is only partly read, its next token is already known.
                Ok(_) if len < running.job.tokens.len() => continue,
                Ok(Err(why)) => Some(Done::Failed(why.to_string())),
                Ok(Ok(token)) => match running.job.output.piece(token) {
                    Ok(piece) => {
                        running.job.tokens.push(token);
                        self.stats.generated += 1;
                        printer.token(&mut running.job, token, &piece)?;
                        self.done(&running.job, len)
                    }
                    Err(error) => Some(Done::Failed(error.to_string())),
                },
                Err(error) => Some(Done::Failed(error.to_string())),
            };
            let Some(why) = why else { continue };
            if matches!(why, Done::Failed(_)) {
                self.stats.fault();
            }
            if let Some(job) = schedule.remove(number) {
                printer.done(job, why)?;
            }
        }
        Ok(())
    }

    /// The token after each text, or an error. If a step fails, it is repeated with each text alone, so that a fault of one does not end
    /// the others. Recurrent layers then read the texts from the beginning.
    fn next_of_each(&mut self, rows: &mut [Row<'_>], counters: &[i64]) -> Vec<Result<Drawn>> {
        match self.next(rows, counters) {
            Ok(tokens) => tokens.into_iter().map(Ok).collect(),
            Err(error) if rows.len() == 1 => vec![Err(error)],
            Err(_) => {
                if self.is_recurrent() {
                    rows.iter_mut().for_each(|row| row.text.truncate(0));
                }
                let each = rows.chunks_mut(1).zip(counters.chunks(1));
                each.flat_map(|(row, counter)| self.next_of_each(row, counter)).collect()
            }
        }
    }

    /// Whether texts have a memory that they cannot share.
    fn is_recurrent(&self) -> bool {
        self.model.config().recurrent.is_some()
    }

    /// Whether a sequence of `len` tokens in the cache ends with its newest token.
    fn done(&self, job: &Job<Text<'_>>, len: usize) -> Option<Done> {
        let Input { args, tokenizer, context, .. } = self.input;
        let made = job.tokens.len() - job.prompt;
        match job.tokens.last() {
            Some(token) if tokenizer.is_end(*token) && !args.ignore_eos => Some(Done::End),
            _ if made >= args.max_tokens as usize => Some(Done::Length),
            _ => (len == *context).then_some(Done::Context),
        }
    }

    /// The token after each text. Tokens are drawn on the backend, so that only they leave its memory.
    fn next(&mut self, rows: &mut [Row<'_>], counters: &[i64]) -> Result<Vec<Drawn>> {
        let args = self.input.args;
        let mut op = Sample::temperature(args.temperature).seed(args.seed);
        (op.top_k, op.top_p) = (args.top_k.filter(|k| *k > 0), args.top_p);
        let mut rows: Vec<PagedRow<'_>> = rows.iter_mut().map(Row::fresh).collect();
        Ok(self.model.sample_paged(self.backend, &mut self.pages, &mut rows, counters, op)?)
    }

    /// Runs typical steps so that the backend can prepare: a prompt, and several texts, not in the order of their memory.
    fn rehearse(&mut self) -> Result<()> {
        let mut texts = [self.pages.blocks().sequence(), self.pages.blocks().sequence()];
        let [one, two] = &mut texts;
        let prompt = [0; 9];
        let n = prompt.len().min(self.input.context) - 1;
        self.next(&mut [Row { text: one, tokens: &prompt[..n] }], &[0])?;
        if self.input.args.max_batch > 1 {
            let rows = [Row { text: two, tokens: &prompt[..1] }, Row { text: one, tokens: &prompt[..=n] }];
            self.next(&mut { rows }, &[0, 0])?;
        }
        Ok(())
    }
}
