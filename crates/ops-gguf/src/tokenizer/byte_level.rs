//! Byte-level byte pair encoding, model "gpt2". Text is split into words, each byte of a word becomes a printable character,
//! and pairs are merged by rank.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use tokenizers::models::bpe::{BPE, Vocab as BpeVocab};
use tokenizers::{Model as _, NormalizedString};

use super::pretokenizer::{Rules, Splitter};
use super::vocab::{TokenKind, Vocab};
use crate::error::{Error, Result};
use crate::metadata::{Metadata, Strings};

pub(super) const MERGES: &str = "tokenizer.ggml.merges";

pub(super) struct ByteLevel {
    bpe: BPE,
    splitter: Splitter,
    rules: &'static Rules,
    /// Bytes without a token; empty in most vocabularies.
    missing: HashSet<u8>,
}

impl ByteLevel {
    pub(super) fn new(meta: &Metadata, vocab: &Vocab, rules: &'static Rules) -> Result<Self> {
        let merges = merges(meta.strings(MERGES)?, vocab)?;
        let bpe = BPE::builder()
            .vocab_and_merges(text_tokens(vocab), merges)
            .ignore_merges(rules.ignore_merges)
            .cache_capacity(0)
            .build()
            .map_err(|e| Error::tokenizer(format_args!("`{MERGES}`"), e, "merges of the vocabulary"))?;
        let missing = (0..=255)
            .filter(|&b| bpe.token_to_id(byte_to_char(b).encode_utf8(&mut [0; 4])).is_none())
            .collect();
        Ok(Self { bpe, splitter: rules.splitter()?, rules, missing })
    }

    /// Appends the tokens of a text that contains no special tokens.
    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let normal;
        let text = if self.rules.nfc && !text.is_ascii() {
            let mut form = NormalizedString::from(text);
            form.nfc();
            normal = form;
            normal.get()
        } else {
            text
        };
        let mut mapped = String::new();
        self.splitter.split(text, &mut |at, word| {
            mapped.clear();
            mapped.extend(word.bytes().map(byte_to_char));
            if !self.missing.is_empty() {
                self.check_bytes(at, word, &mapped)?;
            }
            let tokens =
                self.bpe.tokenize(&mapped).map_err(|e| Error::Encode { at, reason: e.to_string() })?;
            ids.extend(tokens.iter().map(|token| token.id));
            Ok(())
        })
    }

    /// Fails on a byte without a token, which the encoder would drop silently.
    fn check_bytes(&self, at: usize, word: &str, mapped: &str) -> Result<()> {
        if self.rules.ignore_merges && self.bpe.token_to_id(mapped).is_some() {
            return Ok(());
        }
        match word.bytes().enumerate().find(|(_, b)| self.missing.contains(b)) {
            None => Ok(()),
            Some((i, b)) => {
                let mut reason = String::new();
                let _ = write!(reason, "the vocabulary has no token for the byte 0x{b:02x}");
                Err(Error::Encode { at: at + i, reason })
            }
        }
    }
}

/// The tokens that text may become: all except control tokens, which merging must never create.
pub(super) fn text_tokens(vocab: &Vocab) -> BpeVocab {
    let text = vocab.iter().filter(|(_, text, kind)| !kind.is_control() && !text.is_empty());
    text.map(|(id, text, _)| (text.to_owned(), id)).collect()
}

/// Added tokens whose spaces a converter has restored, in the form in which merges have them.
pub(super) fn spaced(vocab: &Vocab) -> Vec<(String, u32)> {
    let added = vocab.iter().filter(|(_, text, kind)| *kind == TokenKind::UserDefined && text.contains(' '));
    added.map(|(id, text, _)| (text.replace(' ', "▁"), id)).collect()
}

/// The merges in rank order; each merges two tokens into a third.
pub(super) fn merges(lines: &Strings, vocab: &Vocab) -> Result<Vec<(String, String)>> {
    let mut kinds: HashMap<&str, TokenKind> = vocab.iter().map(|(_, text, kind)| (text, kind)).collect();
    let spaced = spaced(vocab);
    for (text, _) in &spaced {
        kinds.entry(text).or_insert(TokenKind::UserDefined);
    }
    let mut seen = HashSet::new();
    let mut merges = Vec::with_capacity(lines.len());
    let mut whole = String::new();
    for (rank, line) in lines.iter().enumerate() {
        let wrong = |wanted: &str| {
            Err(Error::tokenizer(
                format_args!("merge {rank} of `{MERGES}`"),
                format_args!("{line:?}"),
                wanted,
            ))
        };
        // A token may start with a space, but contains none after that.
        let first = line.chars().next().map_or(0, char::len_utf8);
        let Some((left, right)) =
            line[first..].find(' ').map(|i| (&line[..first + i], &line[first + i + 1..]))
        else {
            return wrong("two tokens with a space between");
        };
        whole.clear();
        whole.push_str(left);
        whole.push_str(right);
        let mut structure = false;
        for token in [left, right, &whole] {
            match kinds.get(token) {
                Some(kind) if !token.is_empty() => structure |= kind.is_control(),
                _ => return wrong(&format!("a token {token:?} in the vocabulary")),
            }
        }
        // A repeated pair keeps its first rank. Pairs that form control tokens are never merged.
        if !structure && seen.insert((left, right)) {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    Ok(merges)
}

/// The printable character for a byte: itself if it is printable in Latin-1, otherwise one from U+0100 on.
pub(super) fn byte_to_char(byte: u8) -> char {
    let nth = match byte {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => return char::from(byte),
        0x00..=0x20 => byte,
        0x7f..=0xa0 => byte - 0x7f + 0x21,
        0xad => 0x43,
    };
    // U+0100 to U+0143 are letters.
    char::from_u32(0x100 + u32::from(nth)).unwrap_or_default()
}

/// The byte that a character represents.
fn char_to_byte(c: char) -> Option<u8> {
    match u32::from(c) {
        n @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => u8::try_from(n).ok(),
        n @ 0x100..=0x120 => u8::try_from(n - 0x100).ok(),
        n @ 0x121..=0x142 => u8::try_from(n - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// Appends the bytes that a token's text represents. Text with other characters represents itself.
pub(super) fn decode(text: &str, bytes: &mut Vec<u8>) {
    let start = bytes.len();
    for c in text.chars() {
        match char_to_byte(c) {
            Some(byte) => bytes.push(byte),
            None => {
                bytes.truncate(start);
                bytes.extend_from_slice(text.as_bytes());
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_its_own_character_and_back() {
        let chars: HashSet<char> = (0..=255).map(byte_to_char).collect();
        assert_eq!(chars.len(), 256);
        for byte in 0..=255 {
            let c = byte_to_char(byte);
            assert_eq!(char_to_byte(c), Some(byte), "{c}");
            assert!(!c.is_control() && !c.is_whitespace(), "{byte}");
        }
        assert_eq!((byte_to_char(b' '), byte_to_char(b'\n'), byte_to_char(b'a')), ('Ġ', 'Ċ', 'a'));
        assert_eq!(char_to_byte('ń'), None);
        assert_eq!(char_to_byte('\u{ad}'), None);
    }
}
