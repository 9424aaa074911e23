//! The model of a `tokenizer.json` before the library reads it: counts and lengths of its tokens.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::wrong;
use crate::error::Result;

/// Refuses more than a limit.
pub(super) fn at_most(what: &str, got: impl Into<u128>, max: impl Into<u128>, unit: &str) -> Result<()> {
    let (got, max) = (got.into(), max.into());
    if got <= max {
        return Ok(());
    }
    Err(wrong(what, format_args!("{got} {unit}"), format_args!("at most {max}")))
}

/// Bytes of a token. In a Unigram model each byte is a level of a trie, which is dropped recursively.
const MAX_TOKEN: u64 = 64 << 10;
const MAX_UNIGRAM_TOKEN: u64 = 1024;
/// Letters of a word that WordPiece splits, in time cubic in it. BERT has 100.
const MAX_WORD: u64 = 1000;

#[derive(Deserialize)]
pub(super) struct Model {
    vocab: Option<Vocab>,
    unk_id: Option<u64>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    max_input_chars_per_word: Option<u64>,
}

impl Model {
    pub(super) fn check(&self, text: &str) -> Result<()> {
        let vocab = self.vocab.as_ref().ok_or_else(|| wrong("model", "no vocab", "a vocabulary"))?;
        let max = if vocab.has_scores { MAX_UNIGRAM_TOKEN } else { MAX_TOKEN };
        at_most("a token", vocab.longest as u64, max, "bytes")?;
        at_most("max_input_chars_per_word", self.max_input_chars_per_word.unwrap_or(0), MAX_WORD, "letters")?;
        if let Some(id) = self.unk_id.filter(|id| *id >= vocab.count as u64) {
            return Err(wrong("unk_id", id, format_args!("an id below {}", vocab.count)));
        }
        let affixes = [&self.continuing_subword_prefix, &self.end_of_word_suffix];
        let longest = affixes.into_iter().flatten().map(String::len).max().unwrap_or(0);
        at_most("an affix of subwords", longest as u64, 256_u64, "bytes")?;
        match &self.continuing_subword_prefix {
            Some(prefix) if !prefix.is_empty() => merges_with_prefix(text, prefix),
            _ => Ok(()),
        }
    }
}

/// The library cuts the prefix off the second part of every merge, whether it is there or not, without looking at characters.
fn merges_with_prefix(text: &str, prefix: &str) -> Result<()> {
    #[derive(Deserialize)]
    struct File {
        model: Merges,
    }
    #[derive(Deserialize)]
    struct Merges {
        #[serde(default)]
        merges: Vec<Merge>,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Merge {
        Pair(IgnoredAny, String),
        Line(String),
    }
    let file: File = serde_json::from_str(text).map_err(|e| wrong("merges", e, "pairs of tokens"))?;
    for (rank, merge) in file.model.merges.iter().enumerate() {
        let second = match merge {
            Merge::Pair(_, second) => second,
            Merge::Line(line) => line.rsplit(' ').next().unwrap_or_default(),
        };
        if !second.starts_with(prefix) {
            let wanted = format!("a token that begins with {prefix:?}, the continuing_subword_prefix");
            return Err(wrong(&format!("merge {rank}"), format_args!("{second:?}"), wanted));
        }
    }
    Ok(())
}

/// A vocabulary: tokens with ids, or tokens with scores in order.
#[derive(Default)]
struct Vocab {
    count: usize,
    longest: usize,
    has_scores: bool,
}

impl Vocab {
    fn count(&mut self, token: Length) {
        self.count += 1;
        self.longest = self.longest.max(token.0);
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tokens;
        impl<'de> Visitor<'de> for Tokens {
            type Value = Vocab;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tokens with ids or scores")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vocab::default();
                while let Some((token, _)) = map.next_entry::<Length, IgnoredAny>()? {
                    vocab.count(token);
                }
                Ok(vocab)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
                let mut vocab = Vocab { has_scores: true, ..Vocab::default() };
                while let Some((token, _)) = seq.next_element::<(Length, IgnoredAny)>()? {
                    vocab.count(token);
                }
                Ok(vocab)
            }
        }
        deserializer.deserialize_any(Tokens)
    }
}

/// The length of a string in bytes.
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a token")
            }
            fn visit_str<E>(self, text: &str) -> Result<Length, E> {
                Ok(Length(text.len()))
            }
        }
        deserializer.deserialize_str(Text)
    }
}
