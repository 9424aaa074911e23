//! Output of generated tokens: lines with the number of their sequence, or JSON.
use crate::output::json_line;
use crate::text::Result;
use ops_command::stderr;
use ops_models::{Finish, Token};
use serde_json::{Value, json};
use std::io::Write;

/// Why a sequence is finished.
pub(super) enum Done {
    Ended(Finish),
    Cancelled,
    Interrupted,
    /// Its next token cannot be computed, for this reason.
    Failed(String),
}

impl Done {
    fn name(&self) -> &'static str {
        match self {
            Done::Ended(Finish::End) => "end",
            Done::Ended(Finish::Stop) => "stop",
            Done::Ended(Finish::Context) => "context",
            Done::Ended(_) => "length",
            Done::Cancelled => "cancelled",
            Done::Interrupted => "interrupted",
            Done::Failed(_) => "failed",
        }
    }
}

/// The output of one sequence.
#[derive(Default)]
pub(super) struct Text {
    pub(super) number: usize,
    /// How often it was preempted.
    pub(super) preemptions: usize,
    ids: Vec<u32>,
    /// The generated text.
    text: String,
    /// The current incomplete line.
    line: String,
}

impl Text {
    /// A sequence with this number. Its first line begins with `shown`.
    pub(super) fn new(number: usize, shown: String) -> Self {
        Text { number, line: shown, ..Text::default() }
    }
}

/// Prints what happens to sequences.
pub(super) struct Printer<'o> {
    pub(super) out: &'o mut dyn Write,
    pub(super) json: bool,
    /// Whether messages go to standard error: not on other ranks than the first.
    pub(super) reports: bool,
}

impl Printer<'_> {
    /// Writes a message to standard error.
    pub(super) fn report(&self, message: &str) {
        if self.reports {
            writeln!(stderr(), "{message}");
        }
    }

    fn object(&mut self, object: &Value) -> Result<()> {
        json_line(object, self.out)?;
        Ok(self.out.flush()?)
    }

    /// Reports that a sequence has joined for the first time.
    pub(super) fn start(&mut self, number: usize, prompt: usize, shared: usize) -> Result<()> {
        if !self.json {
            return Ok(());
        }
        self.object(
            &json!({"sequence": number, "event": "start", "prompt_tokens": prompt, "shared_tokens": shared}),
        )
    }
    /// Prints what a new token adds to the text.
    pub(super) fn token(&mut self, text: &mut Text, Token { id, text: piece }: &Token) -> Result<()> {
        text.ids.push(*id);
        text.text.push_str(piece);
        if self.json {
            return self.object(&json!({"sequence": text.number, "event": "token", "id": id, "text": piece}));
        }
        text.line.push_str(piece);
        while let Some(end) = text.line.find('\n') {
            let rest = text.line.split_off(end + 1);
            let line = std::mem::replace(&mut text.line, rest);
            self.line(text.number, &line)?;
        }
        Ok(())
    }
    fn line(&mut self, number: usize, line: &str) -> Result<()> {
        writeln!(self.out, "[{number}] {}", line.trim_end_matches(['\r', '\n']).replace('\r', "\\r"))?;
        Ok(self.out.flush()?)
    }
    pub(super) fn done(&mut self, text: Text, why: Done) -> Result<()> {
        let number = text.number;
        if let Done::Failed(message) = &why {
            self.report(&format!("[{number}] failed: {message}"));
        }
        if self.json {
            let mut object = json!({
                "sequence": number, "event": "done", "reason": why.name(), "text": text.text,
                "ids": text.ids, "preemptions": text.preemptions,
            });
            if let Done::Failed(message) = why {
                object["message"] = message.into();
            }
            return self.object(&object);
        }
        if !text.line.is_empty() {
            self.line(number, &text.line)?;
        }
        if matches!(why, Done::Cancelled | Done::Ended(Finish::Context)) {
            self.report(&format!("[{number}] {}", why.name()));
        }
        Ok(())
    }
    pub(super) fn refused(&mut self, number: usize, why: &str) -> Result<()> {
        self.report(&format!("[{number}] refused: {why}"));
        if self.json {
            let reason = "refused";
            self.object(&json!({"sequence": number, "event": "done", "reason": reason, "message": why}))?;
        }
        Ok(())
    }
}
