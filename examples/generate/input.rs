//! The model's files and the prompts.
use crate::args::Args;
use examples_shared::Result;
use examples_shared::chat;
use rocm_ops::gguf::{self, Bytes, EncodeOptions, Gguf, Tokenizer};
use rocm_ops::models::{self, Config};
use std::path::Path;
use std::time::Instant;

/// The inputs of a run.
pub(crate) struct Input<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: Gguf,
    pub(crate) tokenizer: Tokenizer,
    /// Maximum number of tokens in a text.
    pub(crate) context: usize,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) begin: Instant,
}

/// A text to continue.
pub(crate) struct Prompt {
    /// The text printed before the generated text.
    pub(crate) shown: String,
    pub(crate) ids: Vec<u32>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(args: &'a Args) -> Result<Self> {
        let begin = Instant::now();
        if args.model.is_dir() && !args.model.join("tokenizer.json").is_file() {
            return Err(format!("{} has no tokenizer.json", args.model.display()).into());
        }
        let model = models::open_with(&args.model, &mut |file| read(file, args.mmap))?;
        let tokenizer = model.tokenizer()?;
        let trained = Config::new(model.metadata())?.context;
        let context = args.context.map_or(trained, |n| trained.min(n as usize));
        let mut prompts = Vec::new();
        match (&args.prompts, &args.prompt_ids) {
            (Some(file), _) => {
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
                for line in text.lines().filter(|line| !line.trim().is_empty()) {
                    prompts.push(prompt(args, &tokenizer, line)?);
                }
                if prompts.is_empty() {
                    return Err(format!("{} has no line with a prompt", file.display()).into());
                }
            }
            (None, Some(ids)) => prompts.push(Prompt { shown: tokenizer.decode(ids)?, ids: ids.clone() }),
            (None, None) => prompts.push(prompt(args, &tokenizer, &args.prompt)?),
        }
        let fits = |prompt: &&Prompt| prompt.ids.is_empty() || prompt.ids.len() > context;
        if let Some(Prompt { shown, ids }) = prompts.iter().find(fits) {
            let which = if args.prompts.is_some() { format!(" {shown:?}") } else { String::new() };
            let n = ids.len();
            return Err(format!("the prompt{which} has {n} tokens; this model accepts 1 to {context}").into());
        }
        Ok(Input { args, model, tokenizer, context, prompts, begin })
    }
}

fn prompt(args: &Args, tokenizer: &Tokenizer, text: &str) -> Result<Prompt> {
    if !args.chat {
        return Ok(Prompt { shown: text.to_owned(), ids: tokenizer.encode(text)? });
    }
    // The template writes all special tokens, including the first one.
    let rendered = chat::render(tokenizer, args.system.as_deref(), text)?;
    let options = EncodeOptions { bos: Some(false), eos: Some(false), special: true };
    Ok(Prompt { shown: String::new(), ids: tokenizer.encode_with(&rendered, options)? })
}

fn read(file: &Path, map: bool) -> gguf::Result<Bytes> {
    if map {
        // SAFETY: the user requested it with `--mmap`, whose help says that the files must not change.
        return unsafe { Bytes::map(file) };
    }
    let gigabytes = std::fs::metadata(file).map_or(0, |about| about.len() >> 30);
    if gigabytes > 0 {
        eprintln!("reading {gigabytes} GiB of {}", file.display());
    }
    Bytes::read(file)
}
