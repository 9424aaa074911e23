//! Damaged and hostile `tokenizer.json` files are errors that name the file, and arrive at once.
#![cfg(feature = "tokenizer")]

use ops_gguf::{Metadata, Tokenizer, panics};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/");

/// What loading and using a tokenizer says, or its ids.
fn use_all(json: &str) -> Result<Vec<u32>, String> {
    let mut meta = Metadata::new();
    meta.set("tokenizer.huggingface.json", json).unwrap();
    meta.set("tokenizer.huggingface.file", "/models/one/tokenizer.json").unwrap();
    let begin = Instant::now();
    let tokenizer = Tokenizer::from_metadata(&meta);
    let done = tokenizer.and_then(|tokenizer| {
        let ids = tokenizer.encode("Hello world, hé 123")?;
        tokenizer.decode(&ids)?;
        Ok(ids)
    });
    let time = begin.elapsed();
    assert!(time < Duration::from_secs(5), "{time:?} for {}", &json[..json.len().min(100)]);
    done.map_err(|error| error.to_string())
}

fn refused(name: &str, json: &str) -> String {
    let error = use_all(json).expect_err(name);
    assert!(error.contains("/models/one/tokenizer.json"), "{name}: {error}");
    error
}

fn llama() -> Value {
    let text = std::fs::read_to_string(format!("{DATA}folders/llama/tokenizer.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The tokenizer of a model, with another value in one place.
fn with(place: &str, value: Value) -> String {
    let mut json = llama();
    *json.pointer_mut(place).unwrap() = value;
    json.to_string()
}

#[test]
fn files_that_others_reported_are_errors() {
    panics::hide_caught();
    let mut found = 0;
    for file in std::fs::read_dir(format!("{DATA}outside")).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with("tok_") {
            refused(&name, &std::fs::read_to_string(&path).unwrap());
            found += 1;
        }
    }
    assert_eq!(found, 9);
}

#[test]
fn what_would_abort_or_hang_is_refused_with_its_limit() {
    panics::hide_caught();
    let step = |kind: &str| json!({ "type": kind });
    let sequence = |list: &str, steps: Vec<Value>| json!({ "type": "Sequence", list: steps });
    let nested = |list: &str, inner: Value| (0..40).fold(inner, |inner, _| sequence(list, vec![inner]));
    let replace =
        |pattern: Value, content: &str| json!({ "type": "Replace", "pattern": pattern, "content": content });
    let table =
        |bytes: &[u8]| json!({ "type": "Precompiled", "precompiled_charsmap": base64::encode(bytes) });
    let double = replace(json!({ "String": "l" }), "ll");
    let mut huge = 0x1000_0000_u32.to_le_bytes().to_vec();
    huge.push(0);
    let unigram = |token: String| {
        let vocab = json!([["<unk>", 0.0], [token, -1.0], ["a", -2.0]]);
        with("/model", json!({ "type": "Unigram", "unk_id": 0, "vocab": vocab }))
    };
    for (name, json, part) in [
        ("nested normalizers", with("/normalizer", nested("normalizers", step("NFC"))), "nested"),
        ("nested pre-tokenizers", with("/pre_tokenizer", nested("pretokenizers", step("Digits"))), "nested"),
        ("nested decoders", with("/decoder", nested("decoders", step("Fuse"))), "nested"),
        ("nested processors", with("/post_processor", nested("processors", step("ByteLevel"))), "nested"),
        ("brackets", format!("{{\"normalizer\":{}", "[".repeat(100_000)), "recursion"),
        ("many steps", with("/normalizer", sequence("normalizers", vec![step("NFC"); 300])), "steps"),
        ("doubling", with("/normalizer", sequence("normalizers", vec![double; 40])), "longer"),
        (
            "doubling by nothing",
            with("/normalizer", sequence("normalizers", vec![replace(json!({ "Regex": "(?=l)" }), "l"); 40])),
            "longer",
        ),
        (
            "prefixes",
            with(
                "/normalizer",
                sequence("normalizers", vec![json!({ "type": "Prepend", "prepend": "▁▁" }); 20]),
            ),
            "longer",
        ),
        (
            "compositions",
            with(
                "/normalizer",
                sequence(
                    "normalizers",
                    vec![
                        step("NFKD"),
                        replace(json!({ "String": "a" }), "ﷺ"),
                        step("NFKD"),
                        replace(json!({ "String": "a" }), "ﷺ"),
                        step("NFKD"),
                    ],
                ),
            ),
            "",
        ),
        (
            "spaces",
            with(
                "/pre_tokenizer",
                sequence(
                    "pretokenizers",
                    vec![json!({ "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always" }); 9],
                ),
            ),
            "longer",
        ),
        ("a table with a huge length", with("/normalizer", table(&huge)), "trie"),
        ("a table without a trie", with("/normalizer", table(&[0; 8])), "trie"),
        (
            "repetitions",
            with(
                "/pre_tokenizer",
                json!({ "type": "Split", "pattern": { "Regex": "(?:(?:(?:(?=a)b){500}){500}){500}" }, "behavior": "Isolated", "invert": false }),
            ),
            "repetitions",
        ),
        (
            "a long pattern",
            with("/normalizer", replace(json!({ "Regex": "ab|".repeat(30_000) }), "x")),
            "patterns",
        ),
        (
            "an empty pattern",
            with(
                "/pre_tokenizer",
                json!({ "type": "Split", "pattern": { "String": "" }, "behavior": "Removed", "invert": false }),
            ),
            "empty",
        ),
        (
            "pieces of no length",
            with(
                "/pre_tokenizer",
                sequence("pretokenizers", vec![json!({ "type": "FixedLength", "length": 0 })]),
            ),
            "length 0",
        ),
        ("a long token of a trie", unigram("a".repeat(100_000)), "bytes"),
        ("a long added token", with("/added_tokens/0/content", json!("a".repeat(20_000))), "added token"),
        (
            "a text twice",
            with(
                "/post_processor/single",
                json!([{ "Sequence": { "id": "A", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }]),
            ),
            "2 times",
        ),
        (
            "another text",
            with("/post_processor/single", json!([{ "Sequence": { "id": "B", "type_id": 0 } }])),
            "\"B\"",
        ),
        (
            "a long word",
            with(
                "/model",
                json!({ "type": "WordPiece", "unk_token": "u", "continuing_subword_prefix": "##", "max_input_chars_per_word": 1e6 as u64, "vocab": { "u": 0 } }),
            ),
            "letters",
        ),
        (
            "an unknown id",
            with("/model", json!({ "type": "Unigram", "unk_id": 7, "vocab": [["a", 0.0]] })),
            "unk_id",
        ),
        ("ids with gaps", with("/model/vocab/!", json!(4_000_000_000_u32)), "gaps"),
        ("a negative id", with("/model/vocab/!", json!(-1)), "tokenizer.json"),
        ("no object", "[]".to_owned(), "JSON"),
        ("nothing", String::new(), "JSON"),
        (
            "two models",
            with("/version", json!("1.0")).replacen('{', "{\"model\":{\"vocab\":{}},", 1),
            "duplicate",
        ),
    ] {
        let error = refused(name, &json);
        assert!(error.contains(part), "{name}: {error}");
    }
}

#[test]
fn usual_steps_are_within_the_limits() {
    let text = llama().to_string();
    let ids = use_all(&text).unwrap();
    // Steps that change nothing in this text, as many as published tokenizers have.
    let steps = json!({ "type": "Sequence", "normalizers": [
        { "type": "Replace", "pattern": { "String": "``" }, "content": "\"" },
        { "type": "NFKD" }, { "type": "NFC" },
        { "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": "▁" },
        { "type": "Strip", "strip_left": false, "strip_right": true },
    ] });
    assert_eq!(use_all(&with("/normalizer", steps)).unwrap(), ids);
    let truncation =
        json!({ "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 7 });
    let _no_abort = use_all(&with("/truncation", truncation));
    let padding = json!({ "strategy": { "Fixed": 1_u64 << 40 }, "direction": "Right", "pad_to_multiple_of": 0, "pad_id": 0,
        "pad_type_id": 0, "pad_token": "x" });
    assert_eq!(use_all(&with("/padding", padding)).unwrap(), ids);
}

/// Any part of a file may be damaged.
#[test]
fn files_that_end_early_or_lost_a_value_never_end_the_program() {
    panics::hide_caught();
    let text = llama().to_string();
    for cut in (0..text.len()).step_by(97).filter(|cut| text.is_char_boundary(*cut)) {
        refused("a part", &text[..cut]);
    }
    let mut places = Vec::new();
    pointers(&llama(), String::new(), &mut places);
    for place in places {
        for value in
            [Value::Null, json!(0), json!(u64::MAX), json!(""), json!([]), json!({}), json!("a".repeat(300))]
        {
            // Some are still tokenizers.
            let _no_panic = use_all(&with(&place, value));
        }
    }
}

/// The places of all values outside the vocabulary.
fn pointers(value: &Value, place: String, out: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !place.ends_with("vocab") => {
            fields.iter().for_each(|(name, field)| pointers(field, format!("{place}/{name}"), out));
        }
        Value::Array(items) => {
            items
                .iter()
                .take(2)
                .enumerate()
                .for_each(|(at, item)| pointers(item, format!("{place}/{at}"), out));
        }
        _ => {}
    }
    if !place.is_empty() {
        out.push(place);
    }
}

/// Texts with what tokenizers get wrong.
fn texts() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/byte_level.json");
    let cases: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
}

fn loaded(json: &Value) -> Tokenizer {
    let mut meta = Metadata::new();
    meta.set("tokenizer.huggingface.json", json.to_string()).unwrap();
    Tokenizer::from_metadata(&meta).unwrap()
}

/// A GGUF file with these tokens, types and scores.
fn gguf(model: &str, tokens: &[String], types: &[i32], scores: &[f32]) -> Metadata {
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", model).unwrap();
    meta.set("tokenizer.ggml.tokens", tokens).unwrap();
    meta.set("tokenizer.ggml.token_type", types.to_vec()).unwrap();
    meta.set("tokenizer.ggml.scores", scores.to_vec()).unwrap();
    meta
}

#[test]
fn word_pieces_of_a_gguf_file_are_those_of_its_folder() {
    let text = std::fs::read_to_string(format!("{DATA}folders/bert/tokenizer.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    let vocab = json["model"]["vocab"].as_object().unwrap();
    let (mut tokens, mut types) = (vec![String::new(); vocab.len()], vec![1; vocab.len()]);
    for (token, id) in vocab {
        let id = id.as_u64().unwrap() as usize;
        let is_special = token.starts_with('[') && token.ends_with(']') && token.len() > 2;
        types[id] = if is_special { 3 } else { 1 };
        tokens[id] = match token.strip_prefix("##") {
            _ if is_special => token.clone(),
            Some(rest) => rest.to_owned(),
            None => format!("\u{2581}{token}"),
        };
    }
    let mut meta = gguf("bert", &tokens, &types, &vec![0.0; tokens.len()]);
    for (key, token) in [("cls", "[CLS]"), ("seperator", "[SEP]"), ("unknown", "[UNK]"), ("padding", "[PAD]")]
    {
        let id = vocab[token].as_u64().unwrap() as u32;
        meta.set(format!("tokenizer.ggml.{key}_token_id"), id).unwrap();
    }
    let (folder, file) = (loaded(&json), Tokenizer::from_metadata(&meta).unwrap());
    for text in texts().iter().chain(&["Cats, DOGS! unbelievable 北京 résumé".to_owned()]) {
        let ids = folder.encode(text).unwrap();
        assert_eq!(file.encode(text).unwrap(), ids, "{text:?}");
        assert_eq!(file.decode(&ids).unwrap(), folder.decode(&ids).unwrap(), "{text:?}");
    }
    assert_eq!((file.bos(), file.eos()), (folder.bos(), folder.eos()));
}

#[test]
fn unigrams_of_a_gguf_file_are_those_of_its_folder() {
    let mut tokens: Vec<String> = ["<pad>", "</s>", "<unk>"].map(str::to_owned).to_vec();
    let mut types = vec![3, 3, 2];
    for text in texts() {
        let words = text.split_whitespace().map(|word| format!("\u{2581}{word}"));
        tokens.extend(
            words.flat_map(|word| {
                word.char_indices().map(|(at, _)| word[..at].to_owned()).collect::<Vec<_>>()
            }),
        );
        tokens.extend(text.chars().filter(|c| c.is_alphabetic()).map(String::from));
    }
    let mut seen = std::collections::HashSet::new();
    tokens.retain(|token| !token.is_empty() && seen.insert(token.clone()));
    types.resize(tokens.len(), 1);
    let scores: Vec<f32> = (0..tokens.len()).map(|id| -1.5 - (id as f32).sqrt()).collect();
    let mut meta = gguf("t5", &tokens, &types, &scores);
    for (key, id) in [("padding", 0_u32), ("eos", 1), ("unknown", 2)] {
        meta.set(format!("tokenizer.ggml.{key}_token_id"), id).unwrap();
    }
    meta.set("tokenizer.ggml.remove_extra_whitespaces", true).unwrap();
    let vocab: Vec<Value> = tokens.iter().zip(&scores).map(|(token, score)| json!([token, score])).collect();
    let special = |id: usize| {
        json!({ "id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false, "special": true })
    };
    let marks = json!({ "type": "Metaspace", "replacement": "▁", "add_prefix_space": true });
    let folder = loaded(&json!({
        "version": "1.0",
        "added_tokens": [special(0), special(1), special(2)],
        // Without a table of replacements, only spaces are white.
        "normalizer": { "type": "Sequence", "normalizers": [
            { "type": "Replace", "pattern": { "Regex": " {2,}" }, "content": " " }] },
        "pre_tokenizer": marks,
        "post_processor": { "type": "TemplateProcessing",
            "single": [{ "Sequence": { "id": "A", "type_id": 0 } }, { "SpecialToken": { "id": "</s>", "type_id": 0 } }], "pair": [],
            "special_tokens": { "</s>": { "id": "</s>", "ids": [1], "tokens": ["</s>"] } } },
        "decoder": marks,
        "model": { "type": "Unigram", "unk_id": 2, "vocab": vocab },
    }));
    let file = Tokenizer::from_metadata(&meta).unwrap();
    for text in texts() {
        let ids = folder.encode(&text).unwrap();
        assert_eq!(file.encode(&text).unwrap(), ids, "{text:?}");
        assert_eq!(file.decode(&ids).unwrap(), folder.decode(&ids).unwrap(), "{text:?}");
    }
    meta.set("tokenizer.ggml.precompiled_charsmap", vec![0_u8; 8]).unwrap();
    assert!(Tokenizer::from_metadata(&meta).unwrap_err().to_string().contains("trie"));
}
