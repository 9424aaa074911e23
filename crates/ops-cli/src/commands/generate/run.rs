//! Prefills prompts and decodes token by token.
use super::Terminal;
use super::input::{Input, Prompt};
use super::output::Output;
use crate::args::Overflow;
use crate::output::Progress;
use crate::text::{self, Prepare, Result};
use ops_command::stderr;
use ops_core::Float;
use ops_core::model::Transformer;
use ops_gguf::AtomicFile;
use ops_models::{Decoder, Error, Finish, GenerateOptions, Generation, Rank, TextModel, most_likely};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub(super) fn generate<T: Float, B: Transformer<T>>(
    mut input: Input<'_>,
    name: &str,
    rank: &Rank<'_, B>,
    prepare: &Prepare<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<()> {
    let (tokenizer, backend) = (input.tokenizer.take(), rank.backend());
    let Input { common, args, context, prompts, .. } = &input;
    let logits = args.logits.as_ref().filter(|_| rank.leads()).map(AtomicFile::create).transpose()?;
    let reads_only = args.top1 || args.logits.is_some();
    // The last generated token is never fed back, so the cache needs no room for it.
    let more = if reads_only { 0 } else { args.max_tokens };
    let room = |prompt: &Prompt| prompt.ids.len().saturating_add(more).min(*context);
    let capacity = prompts.iter().map(room).max().unwrap_or(1);
    let mut progress = Progress::new(common.progress);
    let mut step = |done, all| {
        if rank.leads() {
            progress.step(done, all, "layers loaded")
        }
    };
    let (has_text, begin, config) = (tokenizer.is_some(), Instant::now(), input.config.clone());
    let decoder = Decoder::load_share(backend, &input.model, config, capacity, rank.share(), &mut step)?;
    progress.clear();
    text::report_load::<T, B>(rank, &decoder, begin)?;
    let records = args.sampling.records(&args.running);
    let model = TextModel::<T, B>::new(decoder, tokenizer).record_steps(records);
    for prompt in prompts {
        model.tokens(&prompt.ids)?;
    }
    let overflow = match args.overflow {
        Overflow::Stop => ops_models::Overflow::Stop,
        Overflow::Shift => ops_models::Overflow::Shift,
    };
    // Without any, the prompts are read all the same.
    let options = args.sampling.options(args.max_tokens.max(1), overflow);
    let mut first_steps = || {
        let (ignore_eos, stop) = (true, Vec::new());
        let options = GenerateOptions { ignore_eos, stop, ..options.clone() };
        for token in model.generate(backend, &prompts[0].ids, options)?.take(3) {
            if let Err(error) = token
                && !matches!(error, Error::Nan(_))
            {
                return Err(error.into());
            }
        }
        Ok(())
    };
    prepare(&mut first_steps)?;
    let loaded = input.begin.elapsed();
    if reads_only {
        return read_prompt((args.top1, logits), backend, model.decoder(), &prompts[0].ids, terminal);
    }
    if args.warm_up {
        first_steps()?;
    }
    let text = |prompt: &Prompt| Ok(model.generate(backend, &prompt.ids, options.clone())?);
    let mut texts = prompts.iter().map(text).collect::<Result<Vec<_>>>()?;
    let outputs = prompts.iter().map(|prompt| Output::new((*common, args), has_text, prompt, terminal.out));
    let mut outputs = outputs.collect::<Result<Vec<_>>>()?;
    let run = Run { input: &input, name, dtype: T::DTYPE.name(), loaded };
    let times = run.decode(rank, &mut texts, &mut outputs, terminal)?;
    if !rank.leads() {
        return Ok(());
    }
    text::report_refusal(texts.iter().find_map(Generation::refusal));
    let full: Vec<bool> = texts.iter().map(|text| text.finish() == Some(Finish::Context)).collect();
    run.finish(&outputs, &full, times, terminal)
}

/// What a summary says in addition to numbers.
struct Run<'a> {
    input: &'a Input<'a>,
    name: &'a str,
    dtype: &'static str,
    loaded: Duration,
}

impl Run<'_> {
    /// Continues all texts to their ends, and returns the times of prefill and decode.
    fn decode<T: Float, B: Transformer<T>>(
        &self,
        rank: &Rank<'_, B>,
        texts: &mut [Generation<'_, T, B>],
        outputs: &mut [Output<'_>],
        terminal: &mut Terminal<'_>,
    ) -> Result<[Duration; 2]> {
        let (begin, context) = (Instant::now(), self.input.context);
        let mut prefill = None;
        while texts.iter().any(|text| !text.has_ended())
            && !(rank.agree(|| prefill.is_some() && terminal.stop.load(Ordering::Relaxed))?)
        {
            let tokens = Generation::step(texts)?;
            prefill.get_or_insert_with(|| begin.elapsed());
            if self.input.args.max_tokens == 0 {
                break;
            }
            for ((text, output), token) in texts.iter().zip(outputs.iter_mut()).zip(tokens) {
                match token {
                    None => {}
                    Some(Ok(token)) => output.push(&token, terminal.out)?,
                    Some(Err(Error::Nan(why))) => output.failed = Some(why),
                    Some(Err(error)) => return Err(error.into()),
                }
                let dropped = text.dropped() - std::mem::replace(&mut output.dropped, text.dropped());
                if dropped > 0 && rank.leads() {
                    writeln!(
                        stderr(),
                        "\nthe context of {context} tokens is full: dropped the oldest {dropped}"
                    );
                }
            }
        }
        let prefill = prefill.unwrap_or_default();
        Ok([prefill, begin.elapsed() - prefill])
    }

    /// `full` is which texts have ended because the context is full.
    fn finish(
        &self,
        outputs: &[Output<'_>],
        full: &[bool],
        [prefill, decode]: [Duration; 2],
        terminal: &mut Terminal<'_>,
    ) -> Result<()> {
        let Input { args, prompts, context, .. } = self.input;
        let rate = |n: usize, time: Duration| n as f64 / time.as_secs_f64().max(1e-9);
        let given: usize = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let made: usize = outputs.iter().map(|output| output.ids.len()).sum();
        // The first token of each text comes from the prefill.
        let (read, wrote) = (rate(given, prefill), rate(made.saturating_sub(outputs.len()), decode));
        for ((output, prompt), full) in outputs.iter().zip(prompts).zip(full) {
            let mut summary = serde_json::json!({
                "prompt_tokens": prompt.ids.len(), "prefill_per_second": read, "decode_per_second": wrote,
                "backend": self.name, "dtype": self.dtype, "end_of_context": full,
            });
            if let Some(why) = output.failed {
                summary["error"] = why.to_string().into();
            }
            output.finish(summary, terminal.out)?;
        }
        let stopped = match full.iter().filter(|full| **full).count() {
            _ if terminal.stop.load(Ordering::Relaxed) => "; stopped by Ctrl-C".to_owned(),
            0 => String::new(),
            1 if full.len() == 1 => format!("; stopped because the context of {context} tokens is full"),
            n => format!("; {n} stopped because the context of {context} tokens is full"),
        };
        let of = if outputs.len() > 1 { format!(" of {} prompts", outputs.len()) } else { String::new() };
        writeln!(
            stderr(),
            "{given} prompt tokens{of} at {read:.0}/s, {made} tokens at {wrote:.0}/s, on {} in {}{stopped}",
            self.name,
            self.dtype
        );
        if args.running.stats {
            writeln!(
                stderr(),
                "loading {:.2} s, prefill {:.3} s, decode {:.3} s",
                self.loaded.as_secs_f64(),
                prefill.as_secs_f64(),
                decode.as_secs_f64()
            );
        }
        let failed = outputs.iter().zip(1..).filter_map(|(output, number)| Some((output.failed?, number)));
        let failed: Vec<String> = failed.map(|(why, number)| format!("prompt {number}: {why}")).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) }
    }
}

/// Prints the most likely tokens after each token of the prompt, or writes the logits after the last.
fn read_prompt<T: Float, B: Transformer<T>>(
    (top1, file): (bool, Option<AtomicFile>),
    backend: &B,
    model: &Decoder<T, B>,
    prompt: &[u32],
    terminal: &mut Terminal<'_>,
) -> Result<()> {
    let mut state = model.state(backend, prompt.len())?;
    let logits = model.forward_all(backend, &mut state, prompt)?;
    let rows = logits.chunks(model.vocabulary());
    if let Some(mut file) = file {
        let last = rows.clone().next_back().unwrap_or_default();
        write_logits(last, prompt.len() - 1, &mut file)?;
        file.commit()?;
    }
    if top1 {
        let ids = rows.enumerate().map(|(position, row)| Ok(most_likely(row, position)?.to_string()));
        writeln!(terminal.out, "{}", ids.collect::<Result<Vec<_>>>()?.join(" "))?;
    }
    Ok(())
}

/// A JSON array of the logits after the token at `position`. JSON has neither NaN nor infinity.
fn write_logits(logits: &[f32], position: usize, out: &mut dyn Write) -> Result<()> {
    most_likely(logits, position)?;
    if let Some((id, logit)) = logits.iter().enumerate().find(|(_, logit)| !logit.is_finite()) {
        let got = format!("after the token at position {position}, the logit of id {id} is {logit}");
        return Err(format!("{got}, wanted a finite number, since JSON has no other").into());
    }
    Ok(serde_json::to_writer(out, logits)?)
}

#[cfg(test)]
mod tests {
    use super::write_logits;

    #[test]
    fn logits_that_json_cannot_represent_are_an_error() {
        let mut out = Vec::new();
        write_logits(&[1.0, -2.5], 3, &mut out).unwrap();
        assert_eq!(out, b"[1.0,-2.5]");
        for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let error = write_logits(&[1.0, wrong], 3, &mut Vec::new()).unwrap_err().to_string();
            assert!(
                error.contains("position 3, the logit of id 1 is ") && error.contains(&wrong.to_string())
            );
        }
    }
}
