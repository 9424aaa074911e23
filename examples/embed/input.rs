//! The model's files and the texts.
use crate::args::Args;
use examples_shared::command::stderr;
use examples_shared::{Result, open, prompts, tokenizer};
use rocm_ops::gguf::{Gguf, Tokenizer};
use rocm_ops::models::{self, EncoderConfig};
use std::io::Read;
use std::path::Path;

/// The inputs of a run.
pub(crate) struct Input<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: Gguf,
    pub(crate) texts: Vec<Text>,
}

/// A text to embed.
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) ids: Vec<u32>,
    /// Whether it was longer than the model allows.
    pub(crate) truncated: bool,
}

impl<'a> Input<'a> {
    /// Opens the model, and reads texts from where the arguments say; `standard` is standard input.
    pub(crate) fn new(args: &'a Args, standard: &mut dyn Read) -> Result<Self> {
        let model = open(&args.model, args.opening())?;
        let config = EncoderConfig::new(model.metadata())?;
        let tokenizer = tokenizer(&args.model, &model)?;
        let texts = texts(args, standard)?.into_iter().map(|text| tokenize(text, &tokenizer, &config));
        let texts: Vec<Text> = texts.collect::<Result<_>>()?;
        let cut = texts.iter().filter(|text| text.truncated).count();
        if cut > 0 {
            let (all, max) = (texts.len(), config.max_tokens);
            writeln!(
                stderr(),
                "{cut} of {all} texts are longer than this model's maximum of {max} tokens and were truncated"
            );
        }
        Ok(Input { args, model, texts })
    }
}

fn texts(args: &Args, standard: &mut dyn Read) -> Result<Vec<String>> {
    if !args.prompt.is_empty() {
        return Ok(args.prompt.clone());
    }
    let file = args.prompts.as_deref().filter(|file| *file != Path::new("-"));
    Ok(prompts(file, standard)?.into_iter().map(|(_, text)| text).collect())
}

fn tokenize(text: String, tokenizer: &Tokenizer, config: &EncoderConfig) -> Result<Text> {
    let mut ids = match config.lower_case {
        true => tokenizer.encode(&text.to_lowercase())?,
        false => tokenizer.encode(&text)?,
    };
    let truncated = models::truncate(&mut ids, config.max_tokens);
    Ok(Text { text, ids, truncated })
}
