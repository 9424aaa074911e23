//! The model's files and the prompts.
use crate::args::{Common, GenerateArgs, PROMPT};
use crate::text::{self, Result};
use ops_command::stderr;
use ops_core::Backend;
use ops_gguf::{Gguf, Tokenizer};
use ops_models::{Chat, Config, Rank};
use std::sync::Arc;
use std::time::Instant;

/// The inputs of a run.
pub(super) struct Input<'a> {
    pub(super) common: Common,
    pub(super) args: &'a GenerateArgs,
    pub(super) model: Arc<Gguf>,
    pub(super) config: Config,
    /// None if ids were given and the model has no usable tokenizer; then there is no text.
    pub(super) tokenizer: Option<Tokenizer>,
    /// Maximum number of tokens in a text.
    pub(super) context: usize,
    pub(super) prompts: Vec<Prompt>,
    pub(super) begin: Instant,
}

/// A text to continue.
pub(super) struct Prompt {
    /// Its line in a file.
    pub(super) line: Option<usize>,
    /// The text printed before the generated text.
    pub(super) shown: String,
    pub(super) ids: Vec<u32>,
}

impl<'a> Input<'a> {
    pub(super) fn new<B: Backend>(
        rank: &Rank<'_, B>,
        common: Common,
        args: &'a GenerateArgs,
    ) -> Result<Self> {
        let begin = Instant::now();
        let (path, model) = text::open_once(rank, args.model.as_deref(), common.backend, &args.running)?;
        // Judge the architecture before the tokenizer: the latter's faults do not matter if the model cannot run.
        let config = Config::new(model.metadata())?;
        let context = args.sampling.context(config.context);
        let chat = text::chat(&args.chat)?;
        let prompt = |tokenizer: &Tokenizer, text: Option<&str>| prompt(args, chat.as_ref(), tokenizer, text);
        let tokenizer = text::tokenizer(&path, &model);
        let mut prompts = Vec::new();
        let tokenizer = match (&args.prompts, &args.prompt_ids) {
            (_, Some(ids)) => {
                // Ids need no tokenizer. Without one, only ids are printed.
                let usable = tokenizer.inspect_err(|error| {
                    if rank.leads() {
                        writeln!(stderr(), "only ids will be printed: {error}");
                    }
                });
                let tokenizer = usable.ok();
                let shown = tokenizer.as_ref().map(|tokenizer| tokenizer.decode(ids)).transpose()?;
                prompts.push(Prompt { line: None, shown: shown.unwrap_or_default(), ids: ids.clone() });
                tokenizer
            }
            (Some(file), None) => {
                let tokenizer = tokenizer?;
                for (number, line) in text::prompts(Some(file), &mut std::io::empty())? {
                    prompts.push(Prompt { line: Some(number), ..prompt(&tokenizer, Some(&line))? });
                }
                Some(tokenizer)
            }
            (None, None) => {
                let tokenizer = tokenizer?;
                prompts.push(prompt(&tokenizer, args.prompt.as_deref())?);
                Some(tokenizer)
            }
        };
        let misfit = |prompt: &&Prompt| prompt.ids.is_empty() || prompt.ids.len() > context;
        if let Some(Prompt { line, ids, .. }) = prompts.iter().find(misfit) {
            let which = line.map_or(String::new(), |number| format!(" on line {number}"));
            let n = ids.len();
            return Err(format!("the prompt{which} has {n} tokens; this model accepts 1 to {context}").into());
        }
        Ok(Input { common, args, model, config, tokenizer, context, prompts, begin })
    }
}

fn prompt(
    args: &GenerateArgs,
    chat: Option<&Chat>,
    tokenizer: &Tokenizer,
    text: Option<&str>,
) -> Result<Prompt> {
    if let Some(chat) = chat {
        // A conversation needs no further message.
        let text = if args.chat.messages.is_some() { text } else { text.or(Some(PROMPT)) };
        let chat = text.into_iter().fold(chat.clone(), |chat, text| chat.message("user", text));
        return Ok(Prompt { line: None, shown: String::new(), ids: chat.tokens(tokenizer)? });
    }
    let text = text.unwrap_or(PROMPT);
    Ok(Prompt { line: None, shown: text.to_owned(), ids: tokenizer.encode(text)? })
}
