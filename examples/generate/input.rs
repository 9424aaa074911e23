//! The model's files and the prompts.
use crate::args::{Args, PROMPT};
use examples_shared::chat::Chat;
use examples_shared::command::stderr;
use examples_shared::{Result, open, tokenizer};
use rocm_ops::gguf::{Gguf, Tokenizer};
use rocm_ops::models::Config;
use std::time::Instant;

/// The inputs of a run.
pub(crate) struct Input<'a> {
    pub(crate) args: &'a Args,
    pub(crate) model: Gguf,
    pub(crate) config: Config,
    /// None if ids were given and the model has no usable tokenizer; then there is no text.
    pub(crate) tokenizer: Option<Tokenizer>,
    /// Maximum number of tokens in a text.
    pub(crate) context: usize,
    pub(crate) prompts: Vec<Prompt>,
    pub(crate) begin: Instant,
}

/// A text to continue.
pub(crate) struct Prompt {
    /// Its line in a file.
    pub(crate) line: Option<usize>,
    /// The text printed before the generated text.
    pub(crate) shown: String,
    pub(crate) ids: Vec<u32>,
}

impl<'a> Input<'a> {
    pub(crate) fn new(args: &'a Args) -> Result<Self> {
        let begin = Instant::now();
        let model = open(&args.model, args.opening())?;
        // Judge the architecture before the tokenizer: the latter's faults do not matter if the model cannot run.
        let config = Config::new(model.metadata())?;
        let trained = config.context;
        let context = args.context.map_or(trained, |n| trained.min(n as usize));
        let chat = Chat::new(&args.chat)?;
        let tokenizer = tokenizer(&args.model, &model);
        let mut prompts = Vec::new();
        let tokenizer = match (&args.prompts, &args.prompt_ids) {
            (_, Some(ids)) => {
                // Ids need no tokenizer. Without one, only ids are printed.
                let usable =
                    tokenizer.inspect_err(|error| writeln!(stderr(), "only ids will be printed: {error}"));
                let tokenizer = usable.ok();
                let shown = tokenizer.as_ref().map(|tokenizer| tokenizer.decode(ids)).transpose()?;
                prompts.push(Prompt { line: None, shown: shown.unwrap_or_default(), ids: ids.clone() });
                tokenizer
            }
            (Some(file), None) => {
                let tokenizer = tokenizer?;
                for (number, line) in examples_shared::prompts(Some(file), &mut std::io::empty())? {
                    prompts.push(Prompt {
                        line: Some(number),
                        ..prompt(chat.as_ref(), &tokenizer, Some(&line))?
                    });
                }
                Some(tokenizer)
            }
            (None, None) => {
                let tokenizer = tokenizer?;
                prompts.push(prompt(chat.as_ref(), &tokenizer, args.prompt.as_deref())?);
                Some(tokenizer)
            }
        };
        let fits = |prompt: &&Prompt| prompt.ids.is_empty() || prompt.ids.len() > context;
        if let Some(Prompt { line, ids, .. }) = prompts.iter().find(fits) {
            let which = line.map_or(String::new(), |number| format!(" on line {number}"));
            let n = ids.len();
            return Err(format!("the prompt{which} has {n} tokens; this model accepts 1 to {context}").into());
        }
        Ok(Input { args, model, config, tokenizer, context, prompts, begin })
    }
}

fn prompt(chat: Option<&Chat>, tokenizer: &Tokenizer, text: Option<&str>) -> Result<Prompt> {
    if let Some(chat) = chat {
        let text = if chat.has_messages() { text } else { text.or(Some(PROMPT)) };
        return Ok(Prompt { line: None, shown: String::new(), ids: chat.tokens(tokenizer, text)? });
    }
    let text = text.unwrap_or(PROMPT);
    Ok(Prompt { line: None, shown: text.to_owned(), ids: tokenizer.encode(text)? })
}
