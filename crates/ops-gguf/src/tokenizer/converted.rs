//! Models "bert" (WordPiece) and "t5" (Unigram) of GGUF files, written as the `tokenizer.json` that such models have.

use serde_json::{Value, json};

use super::SpecialIds;
use super::vocab::{TokenKind, Vocab, byte_of};
use crate::error::{Error, Result};
use crate::metadata::Metadata;

const SCORES: &str = "tokenizer.ggml.scores";
const CHARSMAP: &str = "tokenizer.ggml.precompiled_charsmap";

/// The text of the `tokenizer.json`.
pub(super) fn json(meta: &Metadata, model: &str) -> Result<String> {
    let vocab = Vocab::from_metadata(meta)?;
    let special = SpecialIds::from_metadata(meta, &vocab)?;
    let is_words = model == "bert";
    let parts = if is_words { words(meta, &vocab, &special)? } else { pieces(meta, &vocab, &special)? };
    let id = |key: &str| vocab.id_of_key(meta, &format!("tokenizer.ggml.{key}_token_id"));
    let adds = |name: &str, default: bool| -> Result<bool> {
        Ok(meta.find(&format!("tokenizer.ggml.add_{name}_token"))?.unwrap_or(default))
    };
    // The keys of encoders are spelled this way.
    let (begin, end) = match is_words {
        true => (special.bos.or(id("cls")?), special.eos.or(id("seperator")?)),
        false => (special.bos, special.eos),
    };
    let (adds_begin, adds_end) = (adds("bos", is_words)?, adds("eos", true)?);
    let (begin, end) = (begin.filter(|_| adds_begin), end.filter(|_| adds_end));
    let piece =
        |id: Option<u32>| id.map(|id| json!({ "SpecialToken": { "id": id.to_string(), "type_id": 0 } }));
    let text = json!({ "Sequence": { "id": "A", "type_id": 0 } });
    let single: Vec<Value> = piece(begin).into_iter().chain([text]).chain(piece(end)).collect();
    let tokens = |id: u32| json!({ "id": id.to_string(), "ids": [id], "tokens": [vocab.text(id)] });
    let tokens: serde_json::Map<String, Value> =
        begin.into_iter().chain(end).map(|id| (id.to_string(), tokens(id))).collect();
    let added: Vec<Value> = vocab
        .iter()
        .filter(|(_, text, kind)| !text.is_empty() && (kind.is_control() || *kind == TokenKind::UserDefined))
        .map(|(id, text, kind)| {
            json!({ "id": id, "content": text, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
                "special": kind.is_control() })
        })
        .collect();
    let mut file = json!({
        "version": "1.0",
        "added_tokens": added,
        "post_processor": { "type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": tokens },
    });
    if let (Value::Object(file), Value::Object(parts)) = (&mut file, parts) {
        file.extend(parts);
    }
    Ok(file.to_string())
}

/// WordPiece. The file marks the pieces that begin a word; here those that continue one are marked.
fn words(meta: &Metadata, vocab: &Vocab, special: &SpecialIds) -> Result<Value> {
    let unknown = special.unknown.and_then(|id| vocab.text(id));
    let unknown = unknown.or(vocab.id("[UNK]").map(|_| "[UNK]")).ok_or_else(|| {
        Error::tokenizer("`tokenizer.ggml.unknown_token_id`", "no such key", "the token of unknown words")
    })?;
    let piece = |text: &str, kind: TokenKind| match text.strip_prefix('\u{2581}') {
        _ if kind.is_control() || (text.starts_with('[') && text.ends_with(']') && text.len() > 2) => {
            text.to_owned()
        }
        Some(word) => word.to_owned(),
        None => format!("##{text}"),
    };
    let tokens: serde_json::Map<String, Value> = vocab
        .iter()
        .filter(|(_, text, _)| !text.is_empty())
        .map(|(id, text, kind)| (piece(text, kind), id.into()))
        .collect();
    let lowercase = meta.find("tokenizer.ggml.normalizer.lowercase")?.unwrap_or(true);
    let accents = meta.find("tokenizer.ggml.normalizer.strip_accents")?.unwrap_or(lowercase);
    Ok(json!({
        "normalizer": { "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": accents,
            "lowercase": lowercase },
        "pre_tokenizer": { "type": "BertPreTokenizer" },
        "decoder": { "type": "WordPiece", "prefix": "##", "cleanup": true },
        "model": { "type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": tokens },
    }))
}

/// Unigram, with the table of replacements that SentencePiece applies first.
fn pieces(meta: &Metadata, vocab: &Vocab, special: &SpecialIds) -> Result<Value> {
    let scores = meta.find::<&[f32]>(SCORES)?.unwrap_or_default();
    if scores.len() != vocab.len() {
        let wanted = format!("one for each of the {} tokens", vocab.len());
        return Err(Error::tokenizer(
            format_args!("`{SCORES}`"),
            format_args!("{} scores", scores.len()),
            wanted,
        ));
    }
    let pieces: Vec<Value> =
        vocab.iter().zip(scores).map(|((_, text, _), score)| json!([text, score])).collect();
    let mut steps = Vec::new();
    // Some files have signed bytes.
    let table: Vec<u8> = match meta.find::<Vec<u8>>(CHARSMAP) {
        Ok(table) => table.unwrap_or_default(),
        Err(_) => {
            meta.find::<Vec<i8>>(CHARSMAP)?.unwrap_or_default().into_iter().map(i8::cast_unsigned).collect()
        }
    };
    if !table.is_empty() {
        steps.push(json!({ "type": "Precompiled", "precompiled_charsmap": base64::encode(table) }));
    }
    let prefix =
        if meta.find("tokenizer.ggml.add_space_prefix")?.unwrap_or(true) { "always" } else { "never" };
    let marks =
        json!({ "type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": prefix, "split": true });
    let extra = meta.find("tokenizer.ggml.remove_extra_whitespaces")?.unwrap_or(false);
    let mut splits = vec![marks.clone()];
    match (extra, steps.is_empty()) {
        (false, _) => {}
        // The table makes spaces of line breaks.
        (true, false) => splits.insert(0, json!({ "type": "WhitespaceSplit" })),
        // Without one, only spaces are white. The `tokenizer.json` of such models keeps one at the end of a text.
        (true, true) => {
            steps.push(json!({ "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " " }));
        }
    }
    Ok(json!({
        "normalizer": { "type": "Sequence", "normalizers": steps },
        "pre_tokenizer": { "type": "Sequence", "pretokenizers": splits },
        "decoder": marks,
        "model": { "type": "Unigram", "unk_id": special.unknown, "vocab": pieces,
            "byte_fallback": vocab.iter().any(|(_, text, _)| byte_of(text).is_some()) },
    }))
}
