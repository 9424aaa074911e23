//! The model's files and the texts.
use crate::args::{Common, EmbedArgs};
use crate::text::{self, Result};
use ops_command::stderr;
use ops_gguf::{EncodeOptions, Gguf, Tokenizer};
use ops_models::EncoderConfig;
use std::io::Read;
use std::path::Path;

/// The inputs of a run.
pub(super) struct Input<'a> {
    pub(super) common: Common,
    pub(super) args: &'a EmbedArgs,
    pub(super) model: Gguf,
    pub(super) texts: Vec<Text>,
}

/// A text to embed.
pub(super) struct Text {
    pub(super) text: String,
    pub(super) ids: Vec<u32>,
    /// Whether it was longer than the model allows.
    pub(super) truncated: bool,
}

impl<'a> Input<'a> {
    /// Opens the model, and reads texts from where the arguments say; `standard` is standard input.
    pub(super) fn new(common: Common, args: &'a EmbedArgs, standard: &mut dyn Read) -> Result<Self> {
        let (path, model) = text::open(Some(&args.model), (common.backend, 1), &args.running)?;
        let config = EncoderConfig::new(model.metadata())?;
        let texts: Vec<Text> = if args.prompt_ids.is_empty() {
            let before = prompt(args, &config)?;
            let tokenizer = text::tokenizer(&path, &model)?;
            let options = EncodeOptions { special: args.parse_special, ..EncodeOptions::default() };
            let texts = texts(args, standard)?.into_iter();
            texts.map(|text| tokenize((before, text), &tokenizer, options, &config)).collect::<Result<_>>()?
        } else {
            args.prompt_ids.iter().map(|text| given(text, &config)).collect::<Result<_>>()?
        };
        let cut = texts.iter().filter(|text| text.truncated).count();
        if cut > 0 {
            let (all, max) = (texts.len(), config.max_tokens);
            writeln!(
                stderr(),
                "{cut} of {all} texts are longer than this model's maximum of {max} tokens and were truncated"
            );
        }
        Ok(Input { common, args, model, texts })
    }
}

fn texts(args: &EmbedArgs, standard: &mut dyn Read) -> Result<Vec<String>> {
    if !args.prompt.is_empty() {
        return Ok(args.prompt.clone());
    }
    let file = args.prompts.as_deref().filter(|file| *file != Path::new("-"));
    Ok(text::prompts(file, standard)?.into_iter().map(|(_, text)| text).collect())
}

/// The text to put before all others.
fn prompt<'c>(args: &EmbedArgs, config: &'c EncoderConfig) -> Result<&'c str> {
    let Some(name) = args.prompt_name.as_ref().or(config.default_prompt.as_ref()) else { return Ok("") };
    let found = config.prompts.iter().find(|(known, _)| known == name);
    found.map(|(_, text)| text.as_str()).ok_or_else(|| {
        let known: Vec<&str> = config.prompts.iter().map(|(name, _)| name.as_str()).collect();
        let known = if known.is_empty() { "no prompts".to_owned() } else { known.join(", ") };
        format!("--prompt-name {name}: the model has {known} (config_sentence_transformers.json of its folder); put the text before yours instead")
            .into()
    })
}

fn tokenize(
    (before, text): (&str, String),
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    config: &EncoderConfig,
) -> Result<Text> {
    let mut whole = format!("{before}{text}");
    if config.lower_case {
        whole = whole.to_lowercase();
    }
    let mut ids = tokenizer.encode_with(&whole, options)?;
    let truncated = ops_models::truncate(&mut ids, config.max_tokens);
    Ok(Text { text, ids, truncated })
}

/// A text of these ids.
fn given(text: &str, config: &EncoderConfig) -> Result<Text> {
    let wrong =
        |part: &str| format!("--prompt-ids {text}: got {part:?}, wanted ids of tokens, such as 2,17,3");
    let id = |part: &str| part.trim().parse().map_err(|_| wrong(part));
    let mut ids: Vec<u32> = text.split(',').map(id).collect::<std::result::Result<_, _>>()?;
    let truncated = ops_models::truncate(&mut ids, config.max_tokens);
    Ok(Text { text: text.to_owned(), ids, truncated })
}
