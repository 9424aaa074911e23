//! Prefills prompts and decodes token by token.
use crate::Terminal;
use crate::args::Overflow;
use crate::input::{Input, Prompt};
use crate::output::Output;
use crate::sampler;
use examples_shared::backend::Prepare;
use examples_shared::command::stderr;
use examples_shared::{Progress, Result};
use rocm_ops::Float;
use rocm_ops::backend::Space;
use rocm_ops::gguf::AtomicFile;
use rocm_ops::model::Transformer;
use rocm_ops::models::{Decoder, NanLogit, Row, State, most_likely};
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A text that grows.
struct Text<'a, S: Space, T: Float> {
    state: State<S, T>,
    /// Tokens that are in the state, or will be after the next step.
    tokens: Vec<u32>,
    /// Tokens of the next step.
    fresh: Vec<u32>,
    output: Output<'a>,
    done: bool,
    /// Whether the context was full.
    full: bool,
    /// Why its next token cannot be drawn.
    failed: Option<NanLogit>,
}

pub(crate) fn generate<T: Float, B: Transformer<T>>(
    input: &Input<'_>,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<()> {
    let Input { args, context, prompts, .. } = input;
    let logits = args.logits.as_ref().map(AtomicFile::create).transpose()?;
    let reads_only = args.top1 || logits.is_some();
    let room = |prompt: &Prompt| {
        // The last generated token is never fed back, so the cache needs no room for it.
        let more = if reads_only { 0 } else { args.max_tokens };
        prompt.ids.len().saturating_add(more).min(*context)
    };
    let capacity = prompts.iter().map(room).max().unwrap_or(1);
    let mut progress = Progress::new();
    let mut step = |done, all| progress.step(done, all);
    let model = Decoder::<T, B>::load_with(backend, &input.model, input.config.clone(), capacity, &mut step)?;
    let known = model.vocabulary();
    if let Some(id) = prompts.iter().flat_map(|prompt| &prompt.ids).find(|id| **id as usize >= known) {
        return Err(format!("token {id} of the prompt: this model has {known} tokens").into());
    }
    let mut first_steps = || {
        let mut state = model.state(backend, capacity)?;
        let mut step = |tokens: &[u32]| {
            sampler::next(args, backend, &model, &mut [(&mut state, tokens)], &[0])?;
            Ok::<usize, Box<dyn std::error::Error>>(state.len())
        };
        if step(&prompts[0].ids)? < capacity {
            step(&prompts[0].ids[..1])?;
        }
        Ok(())
    };
    prepare(&mut first_steps)?;
    let loaded = input.begin.elapsed();
    if reads_only {
        return read_prompt((args.top1, logits), backend, &model, &prompts[0].ids, terminal);
    }
    if args.warm_up {
        first_steps()?;
    }
    let texts = prompts.iter().map(|prompt| {
        Ok(Text {
            state: model.state(backend, room(prompt))?,
            tokens: prompt.ids.clone(),
            fresh: prompt.ids.clone(),
            output: Output::new(args, input.tokenizer.as_ref(), prompt, terminal.out)?,
            done: false,
            full: false,
            failed: None,
        })
    });
    let mut texts: Vec<Text<'_, B::Space, T>> = texts.collect::<Result<_>>()?;
    let about = Run { input, name, dtype: T::DTYPE.name(), loaded };
    about.decode(backend, &model, &mut texts, terminal)
}

/// What a summary says in addition to numbers.
struct Run<'a> {
    input: &'a Input<'a>,
    name: &'a str,
    dtype: &'static str,
    loaded: Duration,
}

impl Run<'_> {
    fn decode<T: Float, B: Transformer<T>>(
        &self,
        backend: &B,
        model: &Decoder<T, B>,
        texts: &mut [Text<'_, B::Space, T>],
        terminal: &mut Terminal<'_>,
    ) -> Result<()> {
        let begin = Instant::now();
        let mut prefill = None;
        let stopped = |terminal: &Terminal<'_>| terminal.stop.load(Ordering::Relaxed);
        while texts.iter().any(|text| !text.done) && !(prefill.is_some() && stopped(terminal)) {
            let growing = texts.iter_mut().filter(|text| !text.done);
            let rows = growing.map(|Text { state, fresh, output, .. }| {
                ((state, fresh.as_slice()), output.ids.len() as i64)
            });
            let (mut rows, counters): (Vec<Row<'_, _, _>>, Vec<i64>) = rows.unzip();
            let tokens = sampler::next(self.input.args, backend, model, &mut rows, &counters)?;
            prefill.get_or_insert_with(|| begin.elapsed());
            for (text, token) in texts.iter_mut().filter(|text| !text.done).zip(tokens) {
                match token {
                    Ok(token) => self.accept(text, token, terminal)?,
                    Err(why) => (text.done, text.failed) = (true, Some(why)),
                }
            }
        }
        let prefill = prefill.unwrap_or_default();
        self.finish(texts, prefill, begin.elapsed() - prefill, terminal)
    }

    /// Adds the next token, and decides whether the text goes on.
    fn accept<S: Space, T: Float>(
        &self,
        text: &mut Text<'_, S, T>,
        token: u32,
        terminal: &mut Terminal<'_>,
    ) -> Result<()> {
        let Input { args, tokenizer, context, .. } = self.input;
        if args.max_tokens == 0 {
            text.done = true;
            return Ok(());
        }
        text.output.push(token, terminal.out)?;
        text.tokens.push(token);
        text.fresh = vec![token];
        let full = text.state.len() == *context;
        let is_end = tokenizer.as_ref().is_some_and(|tokenizer| tokenizer.is_end(token));
        text.done = (is_end && !args.ignore_eos) || text.output.ids.len() == args.max_tokens;
        if full && args.overflow == Overflow::Stop {
            (text.done, text.full) = (true, true);
        } else if full && !text.done {
            self.shift(text)?;
        }
        Ok(())
    }

    /// Drops the older half of a text. The rest is read again, because its positions change.
    fn shift<S: Space, T: Float>(&self, text: &mut Text<'_, S, T>) -> Result<()> {
        let Input { tokenizer, context, .. } = self.input;
        let kept = (context / 2).max(1);
        let mut fresh = text.tokens.split_off(text.tokens.len() - kept);
        let dropped = text.tokens.len();
        // The token that begins a text stays, since models need it.
        let bos = tokenizer.as_ref().and_then(|tokenizer| tokenizer.bos());
        if kept > 1 && bos.is_some() && text.tokens.first().copied() == bos {
            fresh[0] = text.tokens[0];
        }
        writeln!(stderr(), "\nthe context of {context} tokens is full: dropped the oldest {dropped}");
        text.state.truncate(0)?;
        text.tokens.clone_from(&fresh);
        text.fresh = fresh;
        Ok(())
    }

    fn finish<S: Space, T: Float>(
        &self,
        texts: &[Text<'_, S, T>],
        prefill: Duration,
        decode: Duration,
        terminal: &mut Terminal<'_>,
    ) -> Result<()> {
        let Input { args, prompts, context, .. } = self.input;
        let rate = |n: usize, time: Duration| n as f64 / time.as_secs_f64().max(1e-9);
        let given: usize = prompts.iter().map(|prompt| prompt.ids.len()).sum();
        let made: usize = texts.iter().map(|text| text.output.ids.len()).sum();
        // The first token of each text comes from the prefill.
        let (read, wrote) = (rate(given, prefill), rate(made.saturating_sub(texts.len()), decode));
        for (text, prompt) in texts.iter().zip(prompts) {
            let mut summary = serde_json::json!({
                "prompt_tokens": prompt.ids.len(), "prefill_per_second": read, "decode_per_second": wrote,
                "backend": self.name, "dtype": self.dtype, "end_of_context": text.full,
            });
            if let Some(why) = text.failed {
                summary["error"] = why.to_string().into();
            }
            text.output.finish(summary, terminal.out)?;
        }
        let stopped = match texts {
            _ if terminal.stop.load(Ordering::Relaxed) => "; stopped by Ctrl-C".to_owned(),
            [text] if text.full => format!("; stopped because the context of {context} tokens is full"),
            texts => match texts.iter().filter(|text| text.full).count() {
                0 => String::new(),
                n => format!("; {n} stopped because the context of {context} tokens is full"),
            },
        };
        let of = if texts.len() > 1 { format!(" of {} prompts", texts.len()) } else { String::new() };
        writeln!(
            stderr(),
            "{given} prompt tokens{of} at {read:.0}/s, {made} tokens at {wrote:.0}/s, on {} in {}{stopped}",
            self.name,
            self.dtype
        );
        if args.stats {
            writeln!(
                stderr(),
                "loading {:.2} s, prefill {:.3} s, decode {:.3} s",
                self.loaded.as_secs_f64(),
                prefill.as_secs_f64(),
                decode.as_secs_f64()
            );
        }
        let failed = texts.iter().zip(1..).filter_map(|(text, number)| Some((text.failed?, number)));
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
