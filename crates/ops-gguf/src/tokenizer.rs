//! Converts text to token ids and back, with the vocabulary of a file.

use std::fmt;
use std::path::Path;

use byte_level::ByteLevel;
pub use decode::{DecodeOptions, DecodeStream};
use huggingface::HuggingFace;
use matcher::Matcher;
use pretokenizer::Rules;
use sentencepiece::SentencePiece;
pub use vocab::TokenKind;
use vocab::Vocab;

use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::panics;

mod byte_level;
mod converted;
mod decode;
mod huggingface;
mod matcher;
mod pretokenizer;
mod sentencepiece;
mod special;
mod vocab;

/// The tokenizer of a model.
///
/// `tokenizer.ggml.model` selects a kind: "gpt2" is byte-level byte pair encoding with the word rules that
/// `tokenizer.ggml.pre` names, "llama" is SentencePiece-style encoding with scores (or merges) and byte fallback, "bert" is
/// WordPiece, and "t5" is Unigram. "gemma4", and some of the rules of "gpt2", are SentencePiece-style encoding with merges. Without that key, `tokenizer.huggingface.json` holds the text of a `tokenizer.json`, which is followed exactly.
///
/// Text that looks like a control token (`</s>` in a prompt) is encoded as plain text, unless [`EncodeOptions::special`]
/// is set. Tokens added to a vocabulary as whole strings ([`TokenKind::UserDefined`]) are always recognised.
///
/// ```
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");
/// let gguf = rocm_ops::gguf::Gguf::open(path)?;
/// let tokenizer = gguf.tokenizer()?;
///
/// let ids = tokenizer.encode("In the beginning")?;
/// assert_eq!(ids[0], tokenizer.bos().unwrap()); // the metadata asks for it
/// assert_eq!(tokenizer.decode(&ids)?, "In the beginning");
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
pub struct Tokenizer {
    vocab: Vocab,
    engine: Engine,
    /// Control and unknown tokens by their text, for prompts that may contain them.
    control: Matcher,
    special: SpecialIds,
    /// What is put before and after a text by default.
    around: Around,
    /// Rows of the model's embeddings: one per token, and often some more as padding.
    rows: usize,
    /// Tokens after which white space is removed from a text with special tokens, sorted.
    strip_after: Box<[u32]>,
    chat_template: Option<Box<str>>,
    files: Files,
}

/// Where a tokenizer comes from, for messages.
#[derive(Clone, Default)]
struct Files {
    tokenizer: Option<Box<str>>,
    chat_template: Option<Box<str>>,
}

/// The tokens that begin and end every text.
#[derive(Clone, Copy, Default)]
struct Around {
    begin: Option<u32>,
    end: Option<u32>,
}

enum Engine {
    ByteLevel { bpe: Box<ByteLevel>, added: Matcher },
    SentencePiece(Box<SentencePiece>),
    HuggingFace(Box<HuggingFace>),
}

#[derive(Clone, Default)]
struct SpecialIds {
    bos: Option<u32>,
    eos: Option<u32>,
    eot: Option<u32>,
    unknown: Option<u32>,
    padding: Option<u32>,
    /// All tokens that end generation.
    ends: Vec<u32>,
}

/// Options for encoding. By default, BOS and EOS follow the metadata, and control tokens are encoded as plain text.
///
/// ```
/// use rocm_ops::gguf::EncodeOptions;
///
/// let middle_of_a_text = EncodeOptions { bos: Some(false), eos: Some(false), ..Default::default() };
/// let rendered_chat = EncodeOptions { special: true, ..Default::default() };
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions {
    /// Whether to add BOS; `None` follows `tokenizer.ggml.add_bos_token`.
    pub bos: Option<bool>,
    /// Whether to add EOS; `None` follows `tokenizer.ggml.add_eos_token`.
    pub eos: Option<bool>,
    /// Convert the text of control tokens into these tokens. Use it only for trusted text, such as a rendered chat template:
    /// otherwise, the author of the text can insert control tokens.
    pub special: bool,
}

/// Paths of the files of a folder, set by its loader.
const FILE: &str = "tokenizer.huggingface.file";
const TEMPLATE_FILE: &str = "tokenizer.chat_template.file";

impl Tokenizer {
    /// Builds the tokenizer that the metadata describes.
    ///
    /// # Errors
    /// [`Error::MissingKey`] and [`Error::KeyType`] for the keys under `tokenizer.ggml`. [`Error::Tokenizer`] for an unknown
    /// model or pre-tokenizer (it lists the known ones), and for an inconsistent vocabulary: duplicate tokens, merges of
    /// missing tokens, ids out of range, scores that are NaN, or lists of different lengths.
    pub fn from_metadata(meta: &Metadata) -> Result<Self> {
        Self::of_file(meta, None)
    }

    /// [`Tokenizer::from_metadata`], with the path of the file for messages. The loader of folders sets keys with those of its files.
    pub(crate) fn of_file(meta: &Metadata, file: Option<&Path>) -> Result<Self> {
        let path = |key| match meta.find::<&str>(key) {
            Ok(Some(path)) => Some(path.into()),
            _ => file.map(|file| file.display().to_string().into()),
        };
        let files = Files { tokenizer: path(FILE), chat_template: path(TEMPLATE_FILE) };
        let built = panics::catch(|| Self::build(meta)).unwrap_or_else(|message| Err(panicked(&message)));
        match built {
            Ok(tokenizer) => Ok(Self { files, ..tokenizer }),
            Err(error) => Err(files.name(error)),
        }
    }

    fn build(meta: &Metadata) -> Result<Self> {
        if meta.value("tokenizer.ggml.model").is_none() && meta.value(huggingface::JSON).is_some() {
            return huggingface::tokenizer(meta, meta.str(huggingface::JSON)?);
        }
        let model = meta.str("tokenizer.ggml.model")?;
        if ["bert", "t5"].contains(&model) {
            return huggingface::tokenizer(meta, &converted::json(meta, model)?);
        }
        if !["gpt2", "llama", "gemma4"].contains(&model) {
            return Err(Error::tokenizer(
                "`tokenizer.ggml.model`",
                format_args!("{model:?}"),
                "one of gpt2, llama, gemma4, bert, t5",
            ));
        }
        let vocab = Vocab::from_metadata(meta)?;
        let special = SpecialIds::from_metadata(meta, &vocab)?;
        let pre = meta.find("tokenizer.ggml.pre")?.unwrap_or("default");
        let (engine, bos_default) = if sentencepiece::is_listed(model, pre) {
            (Engine::SentencePiece(Box::new(SentencePiece::listed(meta, &vocab, special.unknown)?)), false)
        } else if model == "gpt2" {
            let rules = Rules::named(pre)?;
            let added = vocab.iter().filter(|(_, _, kind)| *kind == TokenKind::UserDefined);
            let added = Matcher::new(added.map(|(id, text, _)| (id, text.to_owned())));
            let bpe = Box::new(ByteLevel::new(meta, &vocab, rules)?);
            (Engine::ByteLevel { bpe, added }, rules.add_bos)
        } else {
            (Engine::SentencePiece(Box::new(SentencePiece::new(meta, &vocab, special.unknown)?)), true)
        };
        let control = vocab.iter().filter(|(_, _, kind)| kind.is_control());
        Ok(Self {
            control: Matcher::new(control.map(|(id, text, _)| (id, text.to_owned()))),
            around: Around {
                begin: special::added(meta, "bos", special.bos, bos_default)?,
                end: special::added(meta, "eos", special.eos, false)?,
            },
            rows: special::rows(meta, &vocab)?,
            strip_after: special::strip_after(meta, &vocab)?,
            chat_template: meta.find::<&str>("tokenizer.chat_template")?.map(Into::into),
            files: Files::default(),
            vocab,
            engine,
            special,
        })
    }

    /// The ids of a text, with BOS and EOS as the metadata specifies.
    ///
    /// # Errors
    /// [`Error::Encode`] if the vocabulary has no token for a part of the text; [`Error::Tokenizer`] if the tokenizer cannot be used
    /// on this text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        self.encode_with(text, EncodeOptions::default())
    }

    /// [`Tokenizer::encode`] with options.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`], and [`Error::Tokenizer`] if BOS or EOS is requested and the vocabulary has none.
    pub fn encode_with(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>> {
        panics::catch(|| self.ids(text, options))
            .unwrap_or_else(|message| Err(self.files.name(panicked(&message))))
    }

    fn ids(&self, text: &str, options: EncodeOptions) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        ids.extend(special::chosen(options.bos, self.around.begin, self.special.bos, "bos")?);
        if let Engine::HuggingFace(engine) = &self.engine {
            engine.encode(text, options.special, &mut ids)?;
        } else if options.special {
            let mut strips = false;
            for (range, id) in self.control.split(text) {
                let strips_before =
                    std::mem::replace(&mut strips, id.is_some_and(|id| self.strips_after(id)));
                match id {
                    Some(id) => ids.push(id),
                    None => {
                        let part = &text[range.clone()];
                        let part = if strips_before { part.trim_start() } else { part };
                        let at = range.end - part.len();
                        self.encode_text(part, &mut ids).map_err(|e| shifted(e, at))?;
                    }
                }
            }
        } else {
            self.encode_text(text, &mut ids)?;
        }
        ids.extend(special::chosen(options.eos, self.around.end, self.special.eos, "eos")?);
        Ok(ids)
    }

    fn encode_text(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        match &self.engine {
            Engine::HuggingFace(engine) => engine.encode(text, false, ids),
            Engine::SentencePiece(sp) => sp.encode(text, ids),
            Engine::ByteLevel { bpe, added } => added.split(text).try_for_each(|(range, id)| match id {
                Some(id) => {
                    ids.push(id);
                    Ok(())
                }
                None => {
                    let at = range.start;
                    bpe.encode(&text[range], ids).map_err(|e| shifted(e, at))
                }
            }),
        }
    }

    /// The same tokenizer for a model with this many rows. Ids from [`Tokenizer::vocab_size`] on are padding: they have no text and
    /// end nothing.
    #[must_use]
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.rows = self.rows.max(rows);
        self
    }

    fn strips_after(&self, id: u32) -> bool {
        self.strip_after.binary_search(&id).is_ok()
    }

    /// Number of tokens. The model may have more rows, as padding.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    /// A token as it appears in the vocabulary (not the text it decodes to) and its kind.
    pub fn token(&self, id: u32) -> Option<(&str, TokenKind)> {
        Some((self.vocab.text(id)?, self.vocab.kind(id)?))
    }

    /// The id of a token as it appears in the vocabulary.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.vocab.id(token)
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.special.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.special.eos
    }

    /// The token that ends a turn of a conversation: from the metadata, or else one with a well-known text.
    pub fn eot(&self) -> Option<u32> {
        self.special.eot
    }

    /// The token for text that the vocabulary cannot express.
    pub fn unknown(&self) -> Option<u32> {
        self.special.unknown
    }

    /// The padding token.
    pub fn padding(&self) -> Option<u32> {
        self.special.padding
    }

    /// Whether this token ends generation. The metadata may name several such tokens, and tokens with well-known texts, such as
    /// `<|im_end|>`, are always among them. In vocabularies with `<|return|>` and `<|call|>`, `<|end|>` ends only a part of an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.special.ends.contains(&id)
    }

    /// Whether [`Tokenizer::encode`] adds BOS by default.
    pub fn adds_bos(&self) -> bool {
        self.around.begin.is_some()
    }

    /// Whether [`Tokenizer::encode`] adds EOS by default.
    pub fn adds_eos(&self) -> bool {
        self.around.end.is_some()
    }

    /// The Jinja template that renders a conversation as a prompt. Encode the result with [`EncodeOptions::special`], and
    /// without BOS if the template writes it.
    pub fn chat_template(&self) -> Option<&str> {
        self.chat_template.as_deref()
    }

    /// The path of the file with the template, if the tokenizer comes from a file or a folder.
    pub fn chat_template_file(&self) -> Option<&str> {
        self.files.chat_template.as_deref()
    }
}

impl Files {
    /// Adds the file to the message of an error in a tokenizer.
    fn name(&self, error: Error) -> Error {
        match (error, &self.tokenizer) {
            (Error::Tokenizer { what, got, wanted }, Some(file)) => {
                // The file itself, or the only key of a GGUF file that the message can mean.
                let what = what.replace(&format!(" of `{}`", huggingface::JSON), "");
                Error::Tokenizer { what: format!("{what} of {file}"), got, wanted }
            }
            (error, _) => error,
        }
    }
}

/// A panic of the library that was caught.
fn panicked(message: &str) -> Error {
    Error::tokenizer(
        "the library `tokenizers`",
        format_args!("the panic {message:?}"),
        "a consistent tokenizer",
    )
}

/// Shifts the position in the error by `by` bytes.
fn shifted(error: Error, by: usize) -> Error {
    match error {
        Error::Encode { at, reason } => Error::Encode { at: at + by, reason },
        other => other,
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.engine {
            Engine::ByteLevel { .. } => "byte-level",
            Engine::SentencePiece(_) => "SentencePiece",
            Engine::HuggingFace(_) => "tokenizer.json",
        };
        write!(f, "Tokenizer({kind}, {} tokens)", self.vocab_size())
    }
}
