//! Output of generated tokens: streamed text, ids, or JSON at the end.
use super::input::Prompt;
use crate::args::{Common, GenerateArgs};
use crate::output::json_line;
use crate::text::Result;
use ops_models::{NanLogit, Token};
use std::io::Write;

/// The output of one text.
pub(super) struct Output<'a> {
    common: Common,
    args: &'a GenerateArgs,
    /// Whether the model has a tokenizer; otherwise ids are printed.
    has_text: bool,
    text: String,
    pub(super) ids: Vec<u32>,
    /// Tokens that the context has lost, as far as reported.
    pub(super) dropped: usize,
    /// Why the next token cannot be drawn.
    pub(super) failed: Option<NanLogit>,
}

impl<'a> Output<'a> {
    pub(super) fn new(
        (common, args): (Common, &'a GenerateArgs),
        has_text: bool,
        prompt: &Prompt,
        out: &mut dyn Write,
    ) -> Result<Self> {
        let (text, ids) = (String::new(), Vec::new());
        let mut output = Output { common, args, has_text, text, ids, dropped: 0, failed: None };
        output.write(&prompt.shown, out)?;
        Ok(output)
    }
    pub(super) fn push(&mut self, token: &Token, out: &mut dyn Write) -> Result<()> {
        self.ids.push(token.id);
        self.write(&token.text, out)
    }
    /// Streams the text if it is the only one.
    fn write(&mut self, piece: &str, out: &mut dyn Write) -> Result<()> {
        self.text.push_str(piece);
        if !self.args.ids && !self.common.json && self.args.prompts.is_none() {
            out.write_all(piece.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
    pub(super) fn finish(&self, mut summary: serde_json::Value, out: &mut dyn Write) -> Result<()> {
        if self.common.json {
            summary["text"] = self.text.clone().into();
            summary["ids"] = self.ids.clone().into();
            json_line(&summary, out)?;
        } else if self.args.ids || !self.has_text {
            let ids: Vec<String> = self.ids.iter().map(u32::to_string).collect();
            writeln!(out, "{}", ids.join(" "))?;
        } else if self.args.prompts.is_some() {
            writeln!(out, "{}", self.text.replace('\r', "\\r").replace('\n', "\\n"))?;
        } else {
            writeln!(out)?;
        }
        Ok(out.flush()?)
    }
}
