//! Ids of special tokens, and which of them end a text.

use super::SpecialIds;
use super::vocab::{END_OF_TURN, TokenKind, Vocab};
use crate::error::{Error, Result};
use crate::metadata::Metadata;

/// Ids of further tokens that end a text. Only folders give this.
const ENDS: &str = "tokenizer.ggml.eos_token_ids";

/// The tokens that end an answer in vocabularies in which `<|end|>` only ends a part of it, as in GPT-OSS.
const END_OF_ANSWER: [&str; 2] = ["<|return|>", "<|call|>"];

/// The tokens that a folder's files say end a text.
pub(super) fn listed(meta: &Metadata) -> Result<Vec<u32>> {
    Ok(meta.find(ENDS)?.unwrap_or_default())
}

impl SpecialIds {
    pub(super) fn from_metadata(meta: &Metadata, vocab: &Vocab) -> Result<Self> {
        let id = |name| vocab.id_of_key(meta, &format!("tokenizer.ggml.{name}_token_id"));
        // Often missing from the vocabulary, and rarely used.
        let optional = |name| -> Result<Option<u32>> {
            let id = meta.find::<u64>(&format!("tokenizer.ggml.{name}_token_id"))?;
            Ok(id.filter(|id| *id < vocab.len() as u64).and_then(|id| u32::try_from(id).ok()))
        };
        let (eos, eot, eom) = (id("eos")?, id("eot")?, id("eom")?);
        let mut ends = listed(meta)?;
        let named = |text: &&str| vocab.id(text);
        let parts = END_OF_ANSWER.iter().filter_map(named).collect::<Vec<u32>>();
        let part_end = named(&"<|end|>").filter(|_| parts.len() == END_OF_ANSWER.len());
        let of_turn = END_OF_TURN.iter().filter_map(named).filter(|id| Some(*id) != part_end);
        let eot = eot.or_else(|| of_turn.clone().next());
        ends.extend([eos, eot, eom].into_iter().flatten().chain(of_turn));
        if part_end.is_some() {
            ends.extend(parts);
        }
        // Ids of padded rows end nothing.
        ends.retain(|id| Some(*id) != part_end && (*id as usize) < vocab.len());
        Ok(Self {
            bos: id("bos")?,
            eos,
            eot,
            unknown: optional("unknown")?,
            padding: optional("padding")?,
            ends,
        })
    }
}

/// The tokens after which white space is removed. The vocabularies of Phi 3 say so for most special tokens, but GGUF has no key
/// for it.
pub(super) fn strip_after(meta: &Metadata, vocab: &Vocab) -> Result<Box<[u32]>> {
    const KEEP: [&str; 3] = ["<unk>", "<s>", "<|endoftext|>"];
    if !is_phi3(meta)? {
        return Ok(Box::default());
    }
    let special = |kind| matches!(kind, TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined);
    let strips = vocab.iter().filter(|(_, text, kind)| special(*kind) && !KEEP.contains(text));
    Ok(strips.map(|(id, ..)| id).collect())
}

/// Whether this is the SentencePiece vocabulary of Phi 3. Files of other architectures tell it by the model's name.
fn is_phi3(meta: &Metadata) -> Result<bool> {
    let name = meta.find::<&str>("general.name").ok().flatten().unwrap_or_default();
    let name: String = name.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    let named = meta.architecture().is_ok_and(|name| name == "phi3") || name.contains("phi3");
    Ok(named && meta.find::<&str>("tokenizer.ggml.model")? == Some("llama"))
}

/// The token to add: what the caller chose, or else the default.
pub(super) fn chosen(
    asked: Option<bool>,
    default: Option<u32>,
    known: Option<u32>,
    name: &'static str,
) -> Result<Option<u32>> {
    match asked {
        None => Ok(default),
        Some(false) => Ok(None),
        Some(true) => default.or(known).map(Some).ok_or_else(|| absent(name)),
    }
}

/// The token added to every text: as the metadata says, or else the default, provided the token exists.
pub(super) fn added(
    meta: &Metadata,
    name: &'static str,
    id: Option<u32>,
    default: bool,
) -> Result<Option<u32>> {
    match meta.find::<bool>(&format!("tokenizer.ggml.add_{name}_token"))? {
        Some(true) => id.map(Some).ok_or_else(|| absent(name)),
        Some(false) => Ok(None),
        None => Ok(id.filter(|_| default)),
    }
}

/// The rows that the metadata says the model has, at least one per token.
pub(super) fn rows(meta: &Metadata, vocab: &Vocab) -> Result<usize> {
    let said = match meta.architecture() {
        Ok(architecture) => meta.find::<u64>(&format!("{architecture}.vocab_size"))?,
        Err(_) => None,
    };
    Ok(said.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(0).max(vocab.len()))
}

fn absent(name: &'static str) -> Error {
    Error::tokenizer(
        format_args!("`tokenizer.ggml.{name}_token_id`"),
        "no such key",
        "the id of the token to add",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EncodeOptions, Tokenizer};

    /// A vocabulary of bytes with these tokens after it.
    fn tokenizer(tokens: &[(&str, i32)], set: impl Fn(&mut Metadata)) -> Tokenizer {
        let bytes = (0..=255_u8).map(|byte| format!("<0x{byte:02X}>"));
        let all: Vec<String> = bytes.chain(tokens.iter().map(|(text, _)| (*text).to_owned())).collect();
        let kinds: Vec<i32> = (0..256).map(|_| 6).chain(tokens.iter().map(|(_, kind)| *kind)).collect();
        let mut meta = Metadata::new();
        meta.set("general.architecture", "llama").unwrap();
        meta.set("tokenizer.ggml.model", "llama").unwrap();
        meta.set("tokenizer.ggml.scores", vec![0.0_f32; all.len()]).unwrap();
        meta.set("tokenizer.ggml.tokens", all.as_slice()).unwrap();
        meta.set("tokenizer.ggml.token_type", kinds).unwrap();
        meta.set("tokenizer.ggml.add_bos_token", false).unwrap();
        set(&mut meta);
        Tokenizer::from_metadata(&meta).unwrap()
    }

    fn ends(tokenizer: &Tokenizer) -> Vec<u32> {
        (0..300).filter(|id| tokenizer.is_end(*id)).collect()
    }

    #[test]
    fn all_that_end_a_text_do() {
        let tokens =
            [("a", 1), ("<|im_end|>", 1), ("<end_of_turn>", 4), ("b", 3), ("c", 3), ("<|eom_id|>", 3)];
        let plain = tokenizer(&tokens, |_| ());
        assert_eq!((ends(&plain), plain.eot()), (vec![257, 258, 261], Some(257)));
        assert_eq!(plain.decode(&[256, 257, 258]).unwrap(), "a", "structure has no text");
        let named = tokenizer(&tokens, |meta| {
            for (key, id) in [("eos", 259_u32), ("eot", 260), ("eom", 256)] {
                meta.set(format!("tokenizer.ggml.{key}_token_id"), id).unwrap();
            }
            meta.set(ENDS, vec![0_u32, 400]).unwrap();
        });
        assert_eq!((ends(&named), named.eot()), (vec![0, 256, 257, 258, 259, 260, 261], Some(260)));
    }

    #[test]
    fn the_end_of_a_part_is_no_end_of_an_answer() {
        let tokens = [("<|end|>", 3), ("<|return|>", 3), ("<|call|>", 1)];
        let set = |meta: &mut Metadata| drop(meta.set("tokenizer.ggml.eot_token_id", 256_u32).map(|_| ()));
        assert_eq!(ends(&tokenizer(&tokens, set)), [257, 258]);
        assert_eq!(ends(&tokenizer(&tokens[..2], set)), [256]);
    }

    #[test]
    fn tokens_that_nothing_uses_may_be_missing() {
        let odd = tokenizer(&[("a", 1)], |meta| {
            meta.set("tokenizer.ggml.padding_token_id", 400_u32).unwrap();
            meta.set("tokenizer.ggml.unknown_token_id", 400_u32).unwrap();
        });
        assert_eq!((odd.padding(), odd.unknown()), (None, None));
    }

    #[test]
    fn padded_rows_have_no_text() {
        let padded = tokenizer(&[("a", 1), ("[PAD1]", 5)], |meta| {
            drop(meta.set("llama.vocab_size", 270_u32).map(|_| ()))
        });
        assert_eq!(padded.decode(&[256, 257, 269, 256]).unwrap(), "aa");
        assert!(padded.decode(&[270]).is_err() && padded.with_rows(300).decode(&[270]).is_ok());
    }

    #[test]
    fn white_space_after_the_tokens_of_phi_3_is_removed() {
        let tokens = [("<s>", 3), ("<|end|>", 3), ("<|user|>", 4), ("a", 1)];
        let ids = |name: &str, text: &str| {
            let tokenizer = tokenizer(&tokens, |meta| {
                meta.set("general.name", name).unwrap();
                meta.set("tokenizer.ggml.add_space_prefix", false).unwrap();
            });
            tokenizer.encode_with(text, EncodeOptions { special: true, ..Default::default() }).unwrap()
        };
        assert_eq!(
            ids("Phi 3 Mini", "<|user|> \na<|end|>\n<|end|>  a\na"),
            [258, 259, 257, 257, 259, 10, 259]
        );
        assert_eq!(ids("Phi-3", "<s>\na"), [256, 10, 259]);
        assert_eq!(ids("Llama", "<|end|>\na"), [257, 10, 259]);
    }
}
