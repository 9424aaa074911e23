//! Output of generated tokens: lines with the number of their sequence, or JSON.
use crate::schedule::Job;
use examples_shared::Result;
use examples_shared::command::stderr;
use rocm_ops::gguf::{DecodeStream, Tokenizer};
use serde_json::{Value, json};
use std::io::Write;

/// Why a sequence is finished.
pub(crate) enum Done {
    End,
    Length,
    Context,
    Cancelled,
    Interrupted,
    /// Its next token cannot be computed, for this reason.
    Failed(String),
}

impl Done {
    fn name(&self) -> &'static str {
        match self {
            Done::End => "end",
            Done::Length => "length",
            Done::Context => "context",
            Done::Cancelled => "cancelled",
            Done::Interrupted => "interrupted",
            Done::Failed(_) => "failed",
        }
    }
}

/// The output of one sequence.
pub(crate) struct Text<'a> {
    stream: DecodeStream<'a>,
    /// The generated text.
    text: String,
    /// The current incomplete line.
    line: String,
}

impl<'a> Text<'a> {
    /// What a new token adds to the text.
    pub(crate) fn piece(&mut self, id: u32) -> Result<String> {
        Ok(self.stream.push(id)?.unwrap_or_default())
    }
    pub(crate) fn new(tokenizer: &'a Tokenizer, shown: String, prompt: &[u32]) -> Result<Self> {
        Ok(Text { stream: tokenizer.decode_stream_after(prompt)?, text: String::new(), line: shown })
    }
}

/// Prints what happens to sequences.
pub(crate) struct Printer<'o> {
    pub(crate) out: &'o mut dyn Write,
    pub(crate) json: bool,
}

impl Printer<'_> {
    fn object(&mut self, object: &Value) -> Result<()> {
        writeln!(self.out, "{object}")?;
        Ok(self.out.flush()?)
    }

    /// Reports that a sequence has joined for the first time.
    pub(crate) fn start(&mut self, job: &Job<Text<'_>>, shared: usize) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        let (number, prompt) = (job.number, job.prompt);
        self.object(
            &json!({"sequence": number, "event": "start", "prompt_tokens": prompt, "shared_tokens": shared}),
        )
    }
    /// Prints what a new token adds to the text.
    pub(crate) fn token(&mut self, job: &mut Job<Text<'_>>, id: u32, piece: &str) -> Result<()> {
        job.output.text.push_str(piece);
        if self.json {
            return self.object(&json!({"sequence": job.number, "event": "token", "id": id, "text": piece}));
        }
        job.output.line.push_str(piece);
        while let Some(end) = job.output.line.find('\n') {
            let rest = job.output.line.split_off(end + 1);
            let line = std::mem::replace(&mut job.output.line, rest);
            self.line(job.number, &line)?;
        }
        Ok(())
    }
    fn line(&mut self, number: usize, line: &str) -> Result<()> {
        writeln!(self.out, "[{number}] {}", line.trim_end_matches(['\r', '\n']).replace('\r', "\\r"))?;
        Ok(self.out.flush()?)
    }
    pub(crate) fn done(&mut self, job: Job<Text<'_>>, why: Done) -> Result<()> {
        if let Done::Failed(message) = &why {
            writeln!(stderr(), "[{}] failed: {message}", job.number);
        }
        if self.json {
            let mut object = json!({
                "sequence": job.number, "event": "done", "reason": why.name(), "text": job.output.text,
                "ids": job.tokens[job.prompt..], "preemptions": job.preemptions,
            });
            if let Done::Failed(message) = why {
                object["message"] = message.into();
            }
            return self.object(&object);
        }
        if !job.output.line.is_empty() {
            self.line(job.number, &job.output.line)?;
        }
        if matches!(why, Done::Cancelled | Done::Context) {
            writeln!(stderr(), "[{}] {}", job.number, why.name());
        }
        Ok(())
    }
    pub(crate) fn refused(&mut self, number: usize, why: &str) -> Result<()> {
        writeln!(stderr(), "[{number}] refused: {why}");
        if self.json {
            let reason = "refused";
            self.object(&json!({"sequence": number, "event": "done", "reason": reason, "message": why}))?;
        }
        Ok(())
    }
}
