//! Output of generated tokens: streamed text, ids, or JSON at the end.
use crate::args::Args;
use crate::input::Prompt;
use examples_shared::Result;
use rocm_ops::gguf::{DecodeStream, Tokenizer};
use std::io::Write;

/// The output of one text.
pub(crate) struct Output<'a> {
    args: &'a Args,
    /// None if the model has no tokenizer; then ids are printed.
    stream: Option<DecodeStream<'a>>,
    text: String,
    pub(crate) ids: Vec<u32>,
}

impl<'a> Output<'a> {
    pub(crate) fn new(
        args: &'a Args,
        tokenizer: Option<&'a Tokenizer>,
        prompt: &Prompt,
        out: &mut dyn Write,
    ) -> Result<Self> {
        let stream = tokenizer.map(|tokenizer| tokenizer.decode_stream_after(&prompt.ids)).transpose()?;
        let mut output = Output { args, stream, text: String::new(), ids: Vec::new() };
        output.write(&prompt.shown, out)?;
        Ok(output)
    }
    pub(crate) fn push(&mut self, token: u32, out: &mut dyn Write) -> Result<()> {
        self.ids.push(token);
        let piece = self.stream.as_mut().map(|stream| stream.push(token)).transpose()?.flatten();
        self.write(&piece.unwrap_or_default(), out)
    }
    /// Streams the text if it is the only one.
    fn write(&mut self, piece: &str, out: &mut dyn Write) -> Result<()> {
        self.text.push_str(piece);
        if !self.args.ids && !self.args.json && self.args.prompts.is_none() {
            out.write_all(piece.as_bytes())?;
            out.flush()?;
        }
        Ok(())
    }
    pub(crate) fn finish(&self, mut summary: serde_json::Value, out: &mut dyn Write) -> Result<()> {
        if self.args.json {
            summary["text"] = self.text.clone().into();
            summary["ids"] = self.ids.clone().into();
            writeln!(out, "{summary}")?;
        } else if self.args.ids || self.stream.is_none() {
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
