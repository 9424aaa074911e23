//! The tokens, their kinds, and the ids of special tokens.

use crate::error::{Error, Result};
use crate::metadata::{Metadata, Strings};

pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPES: &str = "tokenizer.ggml.token_type";

/// Texts of tokens that end a turn or a text, whatever type a file gives them: converters often mark them as plain text.
pub(super) const END_OF_TURN: [&str; 12] = [
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
    "<|eom_id|>",
];

/// What a token is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A piece of text.
    Normal,
    /// Represents text that the vocabulary cannot express.
    Unknown,
    /// Structure, such as the start of a text or the end of a turn; has no text.
    Control,
    /// A string added to the vocabulary, which is always recognised as a whole.
    UserDefined,
    /// An unused id.
    Unused,
    /// One byte, for text without any other token.
    Byte,
}

impl TokenKind {
    fn from_number(n: i32) -> Option<Self> {
        Some(match n {
            // Some writers leave the type of plain tokens undefined.
            0 | 1 => Self::Normal,
            2 => Self::Unknown,
            3 => Self::Control,
            4 => Self::UserDefined,
            5 => Self::Unused,
            6 => Self::Byte,
            _ => return None,
        })
    }

    /// Whether the token is structure rather than text.
    pub(super) fn is_control(self) -> bool {
        matches!(self, Self::Control | Self::Unknown)
    }
}

/// All tokens by id.
pub(super) struct Vocab {
    texts: Strings,
    kinds: Box<[TokenKind]>,
    /// Ids of all tokens that have text, sorted by text.
    by_text: Box<[u32]>,
}

impl Vocab {
    pub(super) fn from_metadata(meta: &Metadata) -> Result<Self> {
        let texts = meta.strings(TOKENS)?.clone();
        let count = u32::try_from(texts.len()).ok().filter(|&n| n > 0);
        let count =
            count.ok_or_else(|| wrong(TOKENS, format_args!("{} tokens", texts.len()), "1 to 2^32"))?;
        // The model has at least one row per token, and may have more: some are padded to a round number.
        let rows = meta.architecture().ok().map(|arch| format!("{arch}.vocab_size"));
        if let Some(key) = rows
            && let Some(rows) = meta.find::<u64>(&key)?
            && rows < u64::from(count)
        {
            return Err(wrong(
                TOKENS,
                format_args!("{count} tokens"),
                format_args!("at most the {rows} of `{key}`"),
            ));
        }
        let mut kinds = kinds(meta, &texts)?;
        // Structure, although converters often mark these tokens as text.
        for (text, kind) in texts.iter().zip(&mut kinds) {
            if END_OF_TURN.contains(&text) {
                *kind = TokenKind::Control;
            }
        }
        Self::new(texts, kinds)
    }

    /// Tokens and their kinds by id.
    pub(super) fn new(texts: Strings, kinds: Box<[TokenKind]>) -> Result<Self> {
        let by_text = sorted_by_text(&texts)?;
        Ok(Self { texts, kinds, by_text })
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    pub(super) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    pub(super) fn kind(&self, id: u32) -> Option<TokenKind> {
        self.kinds.get(id as usize).copied()
    }

    pub(super) fn id(&self, text: &str) -> Option<u32> {
        let i = self.by_text.binary_search_by(|&id| self.text(id).cmp(&Some(text))).ok()?;
        Some(self.by_text[i])
    }

    /// Every token: id, text, kind.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &str, TokenKind)> {
        self.texts.iter().zip(&self.kinds).zip(0..).map(|((text, &kind), id)| (id, text, kind))
    }

    /// An id from the metadata, if the key exists.
    pub(super) fn id_of_key(&self, meta: &Metadata, key: &str) -> Result<Option<u32>> {
        match meta.find::<u64>(key)? {
            None => Ok(None),
            Some(id) if id < self.len() as u64 => Ok(u32::try_from(id).ok()),
            Some(id) => Err(wrong(key, id, format_args!("an id below {}, the number of tokens", self.len()))),
        }
    }
}

fn wrong(key: &str, got: impl std::fmt::Display, wanted: impl std::fmt::Display) -> Error {
    Error::tokenizer(format_args!("`{key}`"), got, wanted)
}

fn kinds(meta: &Metadata, texts: &Strings) -> Result<Box<[TokenKind]>> {
    let Some(numbers) = meta.find::<Vec<i32>>(TOKEN_TYPES)? else { return guessed_kinds(meta, texts) };
    if numbers.len() != texts.len() {
        let wanted = format!("one for each of the {} tokens", texts.len());
        return Err(wrong(TOKEN_TYPES, format_args!("{} types", numbers.len()), wanted));
    }
    let kind = |(id, &n): (usize, &i32)| {
        TokenKind::from_number(n)
            .ok_or_else(|| wrong(TOKEN_TYPES, format_args!("{n} for token {id}"), "a type from 1 to 6"))
    };
    numbers.iter().enumerate().map(kind).collect()
}

/// Guesses kinds if the file has no types: single bytes by their form, control tokens by the keys that name them.
fn guessed_kinds(meta: &Metadata, texts: &Strings) -> Result<Box<[TokenKind]>> {
    let guess = |text| if byte_of(text).is_some() { TokenKind::Byte } else { TokenKind::Normal };
    let mut kinds: Box<[TokenKind]> = texts.iter().map(guess).collect();
    for (key, kind) in
        [("bos", TokenKind::Control), ("eos", TokenKind::Control), ("unknown", TokenKind::Unknown)]
    {
        let id = meta.find::<u64>(&format!("tokenizer.ggml.{key}_token_id"))?;
        if let Some(place) = id.and_then(|id| kinds.get_mut(usize::try_from(id).ok()?)) {
            *place = kind;
        }
    }
    Ok(kinds)
}

/// Empty texts, which mark unused ids, may repeat; any other text belongs to one id.
fn sorted_by_text(texts: &Strings) -> Result<Box<[u32]>> {
    let text = |id: u32| texts.get(id as usize).unwrap_or_default();
    let mut ids: Vec<u32> =
        (0..).zip(texts.iter()).filter(|(_, text)| !text.is_empty()).map(|(id, _)| id).collect();
    ids.sort_by(|&a, &b| text(a).cmp(text(b)));
    match ids.windows(2).find(|pair| text(pair[0]) == text(pair[1])) {
        None => Ok(ids.into()),
        Some(pair) => {
            let got = format!("{:?} as token {} and as token {}", text(pair[0]), pair[0], pair[1]);
            Err(wrong(TOKENS, got, "unique tokens"))
        }
    }
}

/// The byte that a token of the form `<0x0A>` represents.
pub(super) fn byte_of(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let plain = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}
