//! Tokenizers in the format of `tokenizer.json`, run by the crate `tokenizers`.

use std::sync::{Mutex, PoisonError};

use tokenizers::Decoder as _;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::wordpiece::{WordPiece, cleanup};
use tokenizers::normalizers::Replace;
use tokenizers::pre_tokenizers::metaspace::PrependScheme;

use super::matcher::Matcher;
use super::vocab::{TokenKind, Vocab};
use super::{Around, Engine, Files, SpecialIds, Tokenizer, special};
use crate::error::{Error, Result};
use crate::metadata::{Array, Metadata, Value};

mod bounds;
mod model;

/// The key that holds the text of a `tokenizer.json`.
pub(super) const JSON: &str = "tokenizer.huggingface.json";

pub(super) struct HuggingFace {
    /// Whether special tokens in a text count as text is a setting of the tokenizer itself.
    inner: Mutex<tokenizers::Tokenizer>,
    pub(super) pieces: Pieces,
    /// Whether the first space of a text was added by the encoder.
    pub(super) strips_space: bool,
}

/// How the tokens of a vocabulary represent text.
pub(super) enum Pieces {
    /// Bytes as printable characters.
    Bytes,
    /// Text with `▁` for spaces.
    Spaces,
    /// Text in which other patterns are replaced.
    Replaced(Vec<Replace>),
    /// Words, and parts of words after a prefix. Spaces are not in the vocabulary.
    Words(WordPiece),
}

impl Pieces {
    /// Appends a token after all replacements.
    pub(super) fn append_replaced(all: &[Replace], token: &str, bytes: &mut Vec<u8>) {
        let mut tokens = vec![token.to_owned()];
        for one in all {
            // Only patterns that failed when the tokenizer was built could fail here.
            tokens = one.decode_chain(tokens.clone()).unwrap_or(tokens);
        }
        tokens.iter().for_each(|text| bytes.extend_from_slice(text.as_bytes()));
    }
    /// Appends a token of a vocabulary of words, with the space before it.
    pub(super) fn append_word(form: &WordPiece, token: &str, bytes: &mut Vec<u8>) {
        let text = match token.strip_prefix(&form.prefix) {
            Some(rest) => rest.to_owned(),
            None => format!(" {token}"),
        };
        let text = if form.cleanup { cleanup(&text) } else { text };
        bytes.extend_from_slice(text.as_bytes());
    }
}

impl HuggingFace {
    /// Appends the tokens of a text, without those added before and after a text.
    pub(super) fn encode(&self, text: &str, special: bool, ids: &mut Vec<u32>) -> Result<()> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.set_encode_special_tokens(!special);
        let encoding = inner.encode_fast(text, false);
        let encoding = encoding.map_err(|e| Error::Encode { at: 0, reason: e.to_string() })?;
        ids.extend(encoding.get_ids());
        Ok(())
    }
}

fn wrong(what: &str, got: impl std::fmt::Display, wanted: impl std::fmt::Display) -> Error {
    Error::tokenizer(format_args!("{what} of `{JSON}`"), got, wanted)
}

/// The tokenizer that a `tokenizer.json` describes.
pub(super) fn tokenizer(meta: &Metadata, text: &str) -> Result<Tokenizer> {
    bounds::check(text)?;
    let inner = text.parse::<tokenizers::Tokenizer>();
    let mut inner = inner.map_err(|e| wrong("text", e, "a tokenizer"))?;
    inner.with_truncation(None).map_err(|e| wrong("truncation", e, "none"))?.with_padding(None);
    let (pieces, strips_space) = decoder(inner.get_decoder())?;
    let vocab = vocab(&inner)?;
    let mut special = special_ids(meta, &vocab)?;
    // As in `transformers`, the post-processor decides: `add_bos_token` and `add_eos_token` have no effect beside a `tokenizer.json`.
    let around = around(&inner)?;
    special.bos = special.bos.or(around.begin);
    special.eos = special.eos.or(around.end);
    special.ends.extend(special.eos);
    let control = vocab.iter().filter(|(_, _, kind)| kind.is_control());
    Ok(Tokenizer {
        control: Matcher::new(control.map(|(id, text, _)| (id, text.to_owned()))),
        around,
        rows: special::rows(meta, &vocab)?,
        strip_after: Box::default(),
        chat_template: meta.find::<&str>("tokenizer.chat_template")?.map(Into::into),
        files: Files::default(),
        vocab,
        engine: Engine::HuggingFace(Box::new(HuggingFace { inner: Mutex::new(inner), pieces, strips_space })),
        special,
    })
}

/// How tokens represent text, and whether the first space of a text is removed.
fn decoder(decoder: Option<&DecoderWrapper>) -> Result<(Pieces, bool)> {
    let one = std::slice::from_ref;
    let steps: &[DecoderWrapper] = match decoder {
        Some(DecoderWrapper::Sequence(steps)) => steps.get_decoders(),
        Some(step) => one(step),
        None => &[],
    };
    let refused = |step: &DecoderWrapper, wanted: &str| wrong("decoder", format_args!("{step:?}"), wanted);
    let (mut byte_level, mut replaced, mut words, mut strips) = (false, Vec::new(), None, false);
    for step in steps {
        match step {
            DecoderWrapper::ByteLevel(_) => byte_level = true,
            DecoderWrapper::Replace(replace) => replaced.push(replace.clone()),
            DecoderWrapper::Metaspace(spaces) => {
                replaced.push(replace(&spaces.get_replacement().to_string())?);
                // Nothing was put before the text with `never`, so nothing is removed.
                strips |= spaces.prepend_scheme != PrependScheme::Never;
            }
            DecoderWrapper::WordPiece(form) => (words, strips) = (Some(form.clone()), true),
            DecoderWrapper::Strip(strip) => match (strip.content, strip.start, strip.stop) {
                (_, 0, 0) => {}
                (' ', 1, 0) => strips = true,
                _ => return Err(refused(step, "at most a space removed from the start")),
            },
            DecoderWrapper::ByteFallback(_) | DecoderWrapper::Fuse(_) => {}
            _ => return Err(refused(step, "bytes, pieces with byte fallback, or words")),
        }
    }
    match (byte_level, replaced.as_slice(), words) {
        (true, [], None) => Ok((Pieces::Bytes, strips)),
        (false, [one], None) if *one == replace("▁")? => Ok((Pieces::Spaces, strips)),
        (false, [_, ..], None) => Ok((Pieces::Replaced(replaced), strips)),
        (false, [], Some(form)) => Ok((Pieces::Words(form), strips)),
        _ => {
            let wanted = "one of ByteLevel, Replace, Metaspace and WordPiece";
            Err(wrong("decoder", format_args!("{decoder:?}"), wanted))
        }
    }
}

/// Replaces a pattern by a space.
fn replace(pattern: &str) -> Result<Replace> {
    Replace::new(pattern, " ").map_err(|e| wrong("decoder", e, "a pattern to replace"))
}

fn vocab(inner: &tokenizers::Tokenizer) -> Result<Vocab> {
    let tokens = inner.get_vocab(true);
    let count = tokens.values().max().map_or(0, |id| *id as usize + 1);
    // Ids are nearly dense; if a file's ids are not, do not allocate without limit.
    if count == 0 || count > 2 * tokens.len() + 4096 {
        return Err(wrong(
            "vocabulary",
            format_args!("{} tokens, ids up to {count}", tokens.len()),
            "ids without large gaps",
        ));
    }
    let mut texts = vec![String::new(); count];
    let mut kinds = vec![TokenKind::Unused; count];
    for (text, id) in tokens {
        let byte = super::vocab::byte_of(&text).is_some();
        kinds[id as usize] = if byte { TokenKind::Byte } else { TokenKind::Normal };
        texts[id as usize] = text;
    }
    for (id, token) in inner.get_added_tokens_decoder() {
        kinds[id as usize] = if token.special { TokenKind::Control } else { TokenKind::UserDefined };
    }
    let Value::Array(Array::String(texts)) = Value::from(texts.as_slice()) else {
        return Err(wrong("vocabulary", "no strings", "strings"));
    };
    Vocab::new(*texts, kinds.into())
}

/// Ids given by the keys, or else those of the texts in `tokenizer_config.json`.
fn special_ids(meta: &Metadata, vocab: &Vocab) -> Result<SpecialIds> {
    let ids = SpecialIds::from_metadata(meta, vocab)?;
    let text = |name: &str| meta.find::<&str>(&format!("tokenizer.huggingface.{name}_token"));
    let named = |name: &str| -> Result<Option<u32>> {
        let Some(text) = text(name)? else { return Ok(None) };
        vocab
            .id(text)
            .map(Some)
            .ok_or_else(|| wrong("vocabulary", format_args!("no {text:?}"), format_args!("the {name}_token")))
    };
    // Often missing from the vocabulary, and rarely used.
    let optional = |name: &str| -> Result<Option<u32>> { Ok(text(name)?.and_then(|text| vocab.id(text))) };
    let first = special::listed(meta)?.first().copied();
    Ok(SpecialIds {
        bos: named("bos")?.or(ids.bos),
        eos: named("eos")?.or(ids.eos).or(first),
        unknown: optional("unk")?.or(ids.unknown),
        padding: optional("pad")?.or(ids.padding),
        ..ids
    })
}

/// The tokens before and after a text.
fn around(inner: &tokenizers::Tokenizer) -> Result<Around> {
    let failed = |e| wrong("post-processor", e, "one that accepts an empty text");
    // A text of one token shows what is added before and what after.
    let bare = inner.encode_fast("a", false).map_err(failed)?;
    let whole = inner.encode_fast("a", true).map_err(failed)?;
    let (bare, whole) = (bare.get_ids(), whole.get_ids());
    let at = whole.windows(bare.len().max(1)).position(|ids| ids == bare);
    match at.map(|at| (&whole[..at], &whole[at + bare.len()..])) {
        Some((begin @ ([] | [_]), end @ ([] | [_]))) => {
            Ok(Around { begin: begin.first().copied(), end: end.first().copied() })
        }
        _ => Err(wrong(
            "post-processor",
            format_args!("{whole:?} for {bare:?}"),
            "at most a token before and one after",
        )),
    }
}
