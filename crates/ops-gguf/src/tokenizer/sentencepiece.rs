//! SentencePiece-style byte pair encoding, models "llama" and "gemma4". Spaces become `▁`, pairs of characters are merged by the score of
//! the result, and characters without a token fall back to their bytes.

use std::collections::HashMap;

use tokenizers::Model as _;
use tokenizers::models::bpe::BPE;

use super::byte_level::{self, MERGES, text_tokens};
use super::matcher::Matcher;
use super::pretokenizer::LISTED;
use super::vocab::{TokenKind, Vocab};
use crate::error::{Error, Result};
use crate::metadata::Metadata;

const SCORES: &str = "tokenizer.ggml.scores";

/// Maximum length in bytes of a token that merging can create. Finding the pairs for a token takes time quadratic in its
/// length; trained vocabularies stay below a tenth of this.
const MAX_MERGED: usize = 512;

pub(super) struct SentencePiece {
    bpe: BPE,
    /// Tokens added to the vocabulary as whole strings, which merges must not split.
    added: Matcher,
    /// Whether a space is put in front of a text, so that its first word is treated like any other.
    pub(super) space_prefix: bool,
    /// Whether white space after an added token is removed.
    strips: bool,
    /// Whether every character has a token, by byte fallback or as the unknown token.
    total: bool,
}

/// Whether a vocabulary is of this kind, although its model is not "llama".
pub(super) fn is_listed(model: &str, pre: &str) -> bool {
    model == "gemma4" || (model == "gpt2" && LISTED.contains(&pre))
}

impl SentencePiece {
    /// A vocabulary of model "llama".
    pub(super) fn new(meta: &Metadata, vocab: &Vocab, unknown: Option<u32>) -> Result<Self> {
        Self::with_merges(merges(meta, vocab)?, (meta, vocab), unknown, true)
    }

    /// One for which [`is_listed`] is true.
    pub(super) fn listed(meta: &Metadata, vocab: &Vocab, unknown: Option<u32>) -> Result<Self> {
        let merges = byte_level::merges(meta.strings(MERGES)?, vocab)?;
        Self::with_merges(merges, (meta, vocab), unknown, false)
    }

    fn with_merges(
        merges: Vec<(String, String)>,
        (meta, vocab): (&Metadata, &Vocab),
        unknown: Option<u32>,
        space_prefix: bool,
    ) -> Result<Self> {
        let mut tokens = text_tokens(vocab);
        let unk_text = unknown.and_then(|id| Some((vocab.text(id)?.to_owned(), id)));
        tokens.extend(unk_text.clone());
        for (text, id) in byte_level::spaced(vocab) {
            tokens.entry(text).or_insert(id);
        }
        let builder = BPE::builder()
            .vocab_and_merges(tokens, merges)
            .byte_fallback(true)
            .fuse_unk(true)
            .cache_capacity(0);
        let has_unknown = unk_text.is_some();
        let builder = match unk_text {
            Some((text, _)) => builder.unk_token(text),
            None => builder,
        };
        let bpe = builder
            .build()
            .map_err(|e| Error::tokenizer("vocabulary", e, "tokens and merges that fit together"))?;
        let all_bytes = (0..=255_u8).all(|b| bpe.token_to_id(&format!("<0x{b:02X}>")).is_some());
        let added = vocab.iter().filter(|(_, _, kind)| *kind == TokenKind::UserDefined);
        Ok(Self {
            added: Matcher::new(added.map(|(id, text, _)| (id, text.replace(' ', "▁")))),
            bpe,
            space_prefix: meta.find("tokenizer.ggml.add_space_prefix")?.unwrap_or(space_prefix),
            strips: !super::special::strip_after(meta, vocab)?.is_empty(),
            total: all_bytes || has_unknown,
        })
    }

    /// Appends the tokens of a text that contains no control tokens.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        let mut escaped = text.replace(' ', "▁");
        if self.space_prefix {
            escaped.insert(0, '▁');
        }
        let mut after_added = false;
        for (range, id) in self.added.split(&escaped) {
            let strips = std::mem::replace(&mut after_added, id.is_some()) && self.strips;
            match id {
                Some(id) => ids.push(id),
                None => {
                    let part = &escaped[range];
                    let space = |c: char| c == '▁' || c.is_whitespace();
                    let part = if strips { part.trim_start_matches(space) } else { part };
                    self.encode_between(part, ids).map_err(|lost| self.no_token(lost, text))?;
                }
            }
        }
        Ok(())
    }

    /// Appends the tokens of a text without added tokens, or returns the character that has none.
    fn encode_between(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), char> {
        if !self.total
            && let Some(lost) = text.chars().find(|&c| !self.has_token(c))
        {
            return Err(lost);
        }
        // Every character has a token at this point, so an error here would mean an unknown token outside the vocabulary.
        let tokens = self.bpe.tokenize(text).map_err(|_| char::REPLACEMENT_CHARACTER)?;
        ids.extend(tokens.iter().map(|token| token.id));
        Ok(())
    }

    /// Whether a character has a token, or all of its bytes do.
    fn has_token(&self, c: char) -> bool {
        let mut buffer = [0; 4];
        let c = c.encode_utf8(&mut buffer);
        self.bpe.token_to_id(c).is_some()
            || c.bytes().all(|b| self.bpe.token_to_id(&format!("<0x{b:02X}>")).is_some())
    }

    fn no_token(&self, lost: char, text: &str) -> Error {
        let written = if lost == '▁' { ' ' } else { lost };
        let at = text.find([written, lost]).unwrap_or(0);
        let reason =
            format!("the vocabulary has no token for {written:?}, nor for its bytes, and no unknown token");
        Error::Encode { at, reason }
    }
}

/// Merges by score if the scores define an order, otherwise the merges of the file.
fn merges(meta: &Metadata, vocab: &Vocab) -> Result<Vec<(String, String)>> {
    let listed = meta.find(MERGES)?;
    let Some(scores) = meta.find::<&[f32]>(SCORES)? else {
        let listed = listed.ok_or_else(|| {
            Error::tokenizer(
                format_args!("`{SCORES}`"),
                "no scores and no merges",
                "one of them, to order the merges",
            )
        })?;
        return byte_level::merges(listed, vocab);
    };
    if scores.len() != vocab.len() {
        let wanted = format!("one for each of the {} tokens", vocab.len());
        return Err(Error::tokenizer(
            format_args!("`{SCORES}`"),
            format_args!("{} scores", scores.len()),
            wanted,
        ));
    }
    if let Some((id, score)) = scores.iter().enumerate().find(|(_, score)| !score.is_finite()) {
        return Err(Error::tokenizer(
            format_args!("`{SCORES}`"),
            format_args!("{score} for token {id}"),
            "numbers",
        ));
    }
    match listed {
        Some(listed) if scores.iter().all(|score| *score == scores[0]) => byte_level::merges(listed, vocab),
        _ => merges_by_score(vocab, scores),
    }
}

/// All ways of forming a token from two others, best score first. Tokens with equal scores are ordered by id.
fn merges_by_score(vocab: &Vocab, scores: &[f32]) -> Result<Vec<(String, String)>> {
    let mergeable = |kind| matches!(kind, TokenKind::Normal | TokenKind::UserDefined | TokenKind::Unused);
    let texts: HashMap<&str, u32> =
        vocab.iter().filter(|t| mergeable(t.2)).map(|(id, text, _)| (text, id)).collect();
    let mut pairs = Vec::new();
    for (id, text, kind) in vocab.iter() {
        if !mergeable(kind) {
            continue;
        }
        if text.len() > MAX_MERGED {
            let got = format!("{} bytes for token {id}", text.len());
            return Err(Error::tokenizer(
                "`tokenizer.ggml.tokens`",
                got,
                format_args!("at most {MAX_MERGED}"),
            ));
        }
        for (at, _) in text.char_indices().skip(1) {
            let (left, right) = text.split_at(at);
            if texts.contains_key(left) && texts.contains_key(right) {
                pairs.push((id, left, right));
            }
        }
    }
    // The sort is stable, so ties stay ordered by id and split position.
    let score = |id: u32| scores[id as usize];
    pairs.sort_by(|a, b| score(b.0).total_cmp(&score(a.0)));
    Ok(pairs.into_iter().map(|(_, left, right)| (left.to_owned(), right.to_owned())).collect())
}

/// Appends the text of a token.
pub(super) fn decode(text: &str, bytes: &mut Vec<u8>) {
    for (i, part) in text.split('▁').enumerate() {
        if i > 0 {
            bytes.push(b' ');
        }
        bytes.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests;
