//! Tokenizers compared with the reference implementations, and unusable vocabularies.
#![cfg(feature = "tokenizer")]

mod common;

use common::{MODEL, fixture};
use ops_gguf::{DecodeOptions, EncodeOptions, Gguf, Metadata, Strings, TokenKind, Tokenizer, Value};
use proptest::prelude::*;
use serde_json::Value as Json;

fn model() -> Gguf {
    Gguf::open(MODEL).unwrap()
}

fn sentencepiece() -> Tokenizer {
    data_tokenizer("sentencepiece.gguf")
}

fn data_tokenizer(name: &str) -> Tokenizer {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    Gguf::open(path).unwrap().tokenizer().unwrap()
}

const BARE: EncodeOptions = EncodeOptions { bos: Some(false), eos: Some(false), special: false };

/// Texts with their expected values.
fn cases<'a>(fixture: &'a Json, key: &str) -> impl Iterator<Item = (&'a str, &'a Json)> {
    let texts = fixture["texts"].as_array().unwrap().iter().map(|t| t.as_str().unwrap());
    let expected = fixture[key].as_array().unwrap();
    assert!(texts.len() > 150 && texts.len() == expected.len());
    texts.zip(expected)
}

#[test]
fn byte_level_ids_are_the_reference_ones() {
    let fixture = fixture("byte_level.json");
    let gguf = model();
    for pre in ["default", "gpt-2", "llama-bpe", "qwen2", "deepseek-llm", "starcoder"] {
        let mut meta = gguf.metadata().clone();
        meta.set("tokenizer.ggml.pre", pre).unwrap();
        let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
        for (text, expected) in cases(&fixture, &format!("ids {pre}")) {
            let ids = tokenizer.encode_with(text, BARE).unwrap();
            assert_eq!(&Json::from(ids), expected, "{pre}: {text:?}");
        }
    }
}

#[test]
fn control_tokens_in_a_text_only_when_asked_for() {
    let fixture = fixture("byte_level.json");
    let tokenizer = model().tokenizer().unwrap();
    let special = EncodeOptions { special: true, ..BARE };
    let mut differ = 0;
    for (text, expected) in cases(&fixture, "special gpt-2") {
        let ids = tokenizer.encode_with(text, special).unwrap();
        assert_eq!(&Json::from(ids.as_slice()), expected, "{text:?}");
        let plain = tokenizer.encode_with(text, BARE).unwrap();
        assert!(plain.iter().all(|&id| tokenizer.token(id).unwrap().1 != TokenKind::Control), "{text:?}");
        assert_eq!(tokenizer.decode(&plain).unwrap(), text);
        assert_eq!(tokenizer.decode_with(&ids, DecodeOptions { special: true }).unwrap(), text);
        differ += usize::from(plain != ids);
    }
    assert!(differ > 3, "{differ} texts contain control tokens");
    let ids = tokenizer.encode_with("<s>In</s>", special).unwrap();
    assert_eq!((ids[0], *ids.last().unwrap()), (0, 1));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "In");
}

#[test]
fn bos_and_eos_as_the_metadata_say() {
    let gguf = model();
    let tokenizer = gguf.tokenizer().unwrap();
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.vocab_size()), (Some(0), Some(1), 4096));
    assert!(tokenizer.adds_bos() && !tokenizer.adds_eos());
    assert!(tokenizer.is_end(1) && !tokenizer.is_end(0));
    assert_eq!((tokenizer.eot(), tokenizer.unknown(), tokenizer.chat_template()), (None, None, None));
    assert_eq!((tokenizer.token(0), tokenizer.id("</s>")), (Some(("<s>", TokenKind::Control)), Some(1)));
    assert_eq!(tokenizer.encode("").unwrap(), [0]);
    assert_eq!(tokenizer.encode_with("", EncodeOptions { eos: Some(true), ..BARE }).unwrap(), [1]);

    let mut meta = gguf.metadata().clone();
    meta.set("tokenizer.ggml.add_bos_token", false)
        .unwrap()
        .set("tokenizer.ggml.add_eos_token", true)
        .unwrap();
    meta.set("tokenizer.chat_template", "{{ messages }}").unwrap();
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert_eq!(tokenizer.encode("").unwrap(), [1]);
    assert_eq!(tokenizer.chat_template(), Some("{{ messages }}"));

    meta.remove("tokenizer.ggml.add_bos_token");
    assert!(!Tokenizer::from_metadata(&meta).unwrap().adds_bos(), "gpt-2 has none by default");
    meta.set("tokenizer.ggml.pre", "llama-bpe").unwrap();
    assert!(Tokenizer::from_metadata(&meta).unwrap().adds_bos(), "Llama 3 has one by default");
    meta.remove("tokenizer.ggml.bos_token_id");
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert!(!tokenizer.adds_bos());
    let error =
        tokenizer.encode_with("x", EncodeOptions { bos: Some(true), ..BARE }).unwrap_err().to_string();
    let expected =
        "tokenizer: `tokenizer.ggml.bos_token_id`: got no such key, wanted the id of the token to add";
    assert_eq!(error, expected);
    meta.set("tokenizer.ggml.add_bos_token", true).unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap_err().to_string(), expected);
}

#[test]
fn sentencepiece_ids_and_texts_are_the_reference_ones() {
    let fixture = fixture("sentencepiece.json");
    let tokenizer = sentencepiece();
    for (text, expected) in cases(&fixture, "ids") {
        let ids = tokenizer.encode_with(text, BARE).unwrap();
        assert_eq!(&Json::from(ids.as_slice()), expected, "{text:?}");
    }
    for ((_, ids), (text, expected)) in cases(&fixture, "ids").zip(cases(&fixture, "decoded")) {
        let ids: Vec<u32> = ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
        assert_eq!(tokenizer.decode(&ids).unwrap(), expected.as_str().unwrap(), "{text:?}");
    }
}

#[test]
fn sentencepiece_without_bytes_has_one_unknown_token_for_a_run() {
    let fixture = fixture("sentencepiece_unk.json");
    let tokenizer = data_tokenizer("sentencepiece_unk.gguf");
    let unknown = tokenizer.unknown().unwrap();
    let mut with_unknown = 0;
    for (text, expected) in cases(&fixture, "ids") {
        let ids = tokenizer.encode_with(text, BARE).unwrap();
        assert_eq!(&Json::from(ids.as_slice()), expected, "{text:?}");
        with_unknown += usize::from(ids.contains(&unknown));
    }
    assert!(with_unknown > 20, "{with_unknown}");
}

#[test]
fn text_generated_after_a_prompt_keeps_its_first_space() {
    let tokenizer = sentencepiece();
    let all = tokenizer.encode("And it came to pass").unwrap();
    let (prompt, generated) = all.split_at(all.len() / 2);
    let head = tokenizer.decode(prompt).unwrap();
    let mut stream = tokenizer.decode_stream_after(prompt).unwrap();
    let mut tail = String::new();
    for &id in generated {
        tail += &stream.push(id).unwrap().unwrap_or_default();
    }
    tail += &stream.finish();
    assert_eq!(head + &tail, "And it came to pass");
}

#[test]
fn sentencepiece_structure() {
    let tokenizer = sentencepiece();
    let (bos, turn, tool) = (1, tokenizer.id("<turn>").unwrap(), tokenizer.id("<tool>").unwrap());
    assert_eq!((tokenizer.bos(), tokenizer.unknown()), (Some(bos), Some(0)));
    assert!(tokenizer.adds_bos());
    let text = "a <turn>b<tool>c";
    let plain = tokenizer.encode(text).unwrap();
    assert!(plain[0] == bos && plain.contains(&tool) && !plain.contains(&turn));
    assert_eq!(tokenizer.decode(&plain).unwrap(), text);
    // Each part between control tokens is a separate text, with its own leading space.
    let parsed = tokenizer.encode_with(text, EncodeOptions { special: true, ..BARE }).unwrap();
    let mut expected = tokenizer.encode_with("a ", BARE).unwrap();
    expected.push(turn);
    expected.extend(tokenizer.encode_with("b<tool>c", BARE).unwrap());
    assert_eq!(parsed, expected);
}

proptest! {
    #[test]
    fn byte_level_text_comes_back(text in "\\PC{0,40}|[ \n\r\ta-z<>/s]{0,40}") {
        let tokenizer = MODEL_TOKENIZER.with(|t| t.encode_with(&text, BARE).and_then(|ids| t.decode(&ids)));
        prop_assert_eq!(tokenizer.unwrap(), text);
    }

    #[test]
    fn a_stream_gives_what_decoding_at_once_gives(ids in prop::collection::vec(0_u32..4096, 0..60)) {
        MODEL_TOKENIZER.with(|t| streamed_equals_whole(t, &ids))?;
        let ids: Vec<u32> = ids.into_iter().map(|id| id % 1200).collect();
        SENTENCEPIECE.with(|t| streamed_equals_whole(t, &ids))?;
    }
}

thread_local! {
    static MODEL_TOKENIZER: Tokenizer = model().tokenizer().unwrap();
    static SENTENCEPIECE: Tokenizer = sentencepiece();
}

fn streamed_equals_whole(tokenizer: &Tokenizer, ids: &[u32]) -> Result<(), TestCaseError> {
    let mut stream = tokenizer.decode_stream();
    let mut streamed = String::new();
    for &id in ids {
        let piece = stream.push(id).unwrap();
        prop_assert_ne!(piece.as_deref(), Some(""));
        streamed += &piece.unwrap_or_default();
    }
    streamed += &stream.finish();
    prop_assert_eq!(streamed, tokenizer.decode(ids).unwrap());
    Ok(())
}

#[test]
fn ids_that_are_none() {
    let tokenizer = model().tokenizer().unwrap();
    let expected = "cannot decode token id 4096: the vocabulary has 4096 tokens";
    assert_eq!(tokenizer.decode(&[5, 4096]).unwrap_err().to_string(), expected);
    assert_eq!(tokenizer.decode_stream().push(4096).unwrap_err().to_string(), expected);
    assert_eq!(tokenizer.token(u32::MAX), None);
}

/// A small valid vocabulary with merges.
fn gpt2() -> Metadata {
    let mut meta = Metadata::new();
    meta.set("general.architecture", "test").unwrap().set("tokenizer.ggml.model", "gpt2").unwrap();
    meta.set("tokenizer.ggml.pre", "gpt-2").unwrap();
    meta.set("tokenizer.ggml.tokens", ["a", "b", "c", "ab", "abc", "<end>", "Ġ", "é x"].as_slice()).unwrap();
    meta.set("tokenizer.ggml.token_type", vec![1, 1, 1, 1, 1, 3, 1, 4]).unwrap();
    meta.set("tokenizer.ggml.merges", ["a b", "ab c"].as_slice()).unwrap();
    meta.set("tokenizer.ggml.eos_token_id", 5_u32).unwrap();
    meta
}

/// The same vocabulary with scores.
fn llama() -> Metadata {
    let mut meta = gpt2();
    meta.set("tokenizer.ggml.model", "llama").unwrap();
    meta.set("tokenizer.ggml.scores", vec![-1.0_f32, -1.0, -1.0, -2.0, -3.0, 0.0, -4.0, 0.0]).unwrap();
    meta.remove("tokenizer.ggml.merges");
    meta.set("tokenizer.ggml.add_space_prefix", false).unwrap();
    meta
}

#[test]
fn small_vocabularies_work() {
    let tokenizer = Tokenizer::from_metadata(&gpt2()).unwrap();
    assert_eq!(tokenizer.encode("abcab ca").unwrap(), [4, 3, 6, 2, 0]);
    assert_eq!(tokenizer.encode("aé xb").unwrap(), [0, 7, 1], "added texts are matched literally");
    assert_eq!(tokenizer.decode(&[0, 7, 1, 5]).unwrap(), "aé xb");
    let error = tokenizer.encode("ab x").unwrap_err().to_string();
    assert_eq!(error, "cannot encode the text at byte 3: the vocabulary has no token for the byte 0x78");

    let mut meta = llama();
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert_eq!(tokenizer.encode("abcabca").unwrap(), [4, 4, 0]);
    assert_eq!(tokenizer.encode("aé xb").unwrap(), [0, 7, 1]);
    let error = tokenizer.encode("ab x").unwrap_err().to_string();
    let expected = "cannot encode the text at byte 2: \
        the vocabulary has no token for ' ', nor for its bytes, and no unknown token";
    assert_eq!(error, expected);
    // Merges decide the order when scores are equal.
    meta.set("tokenizer.ggml.scores", vec![0.0_f32; 8]).unwrap();
    meta.set("tokenizer.ggml.merges", ["b c", "a b"].as_slice()).unwrap();
    meta.set("tokenizer.ggml.tokens", ["a", "b", "c", "ab", "bc", "<end>", "Ġ", "é x"].as_slice()).unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().encode("abc").unwrap(), [0, 4]);
}

#[test]
fn a_word_that_is_a_token_needs_no_merges_in_llama_3() {
    let mut meta = gpt2();
    meta.set("tokenizer.ggml.merges", ["a b"].as_slice()).unwrap(); // none makes "abc"
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().encode("abc").unwrap(), [3, 2]);
    meta.set("tokenizer.ggml.pre", "llama-bpe").unwrap();
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert_eq!(tokenizer.encode("abc").unwrap(), [4]);
    assert_eq!(tokenizer.encode("abcc").unwrap(), [3, 2, 2]);
}

#[test]
fn qwen_text_is_composed_first() {
    let mut meta = gpt2();
    meta.set("tokenizer.ggml.tokens", ["e", "Ì", "ģ", "Ã", "©", "<end>", "x", "y"].as_slice()).unwrap();
    meta.set("tokenizer.ggml.merges", [""; 0].as_slice()).unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().encode("e\u{301}").unwrap(), [0, 1, 2]);
    meta.set("tokenizer.ggml.pre", "qwen2").unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().encode("e\u{301}").unwrap(), [3, 4]);
}

#[test]
fn tokenizers_and_files_are_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Tokenizer>();
    shared::<Gguf>();
    shared::<ops_gguf::TensorData<f32>>();
    shared::<ops_gguf::Error>();
}

#[test]
fn merging_never_makes_structure() {
    let mut meta = gpt2();
    meta.set("tokenizer.ggml.token_type", vec![1, 1, 1, 1, 3, 3, 1, 4]).unwrap(); // "abc" is a control token
    for (model, pre) in [("gpt2", "gpt-2"), ("gpt2", "llama-bpe"), ("llama", "default")] {
        meta.set("tokenizer.ggml.model", model).unwrap().set("tokenizer.ggml.pre", pre).unwrap();
        meta.set("tokenizer.ggml.add_space_prefix", false).unwrap();
        let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
        assert_eq!(tokenizer.encode("abc").unwrap(), [3, 2], "{model} {pre}");
        let special = EncodeOptions { special: true, ..EncodeOptions::default() };
        assert_eq!(tokenizer.encode_with("abc", special).unwrap(), [4], "{model} {pre}");
    }
}

#[test]
fn a_turn_ends_with_a_known_token() {
    let mut meta = gpt2();
    meta.set("tokenizer.ggml.tokens", ["a", "b", "c", "ab", "abc", "<end>", "Ġ", "<|im_end|>"].as_slice())
        .unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().eot(), Some(7), "whatever its type");
    meta.set("tokenizer.ggml.token_type", vec![1, 1, 1, 1, 1, 3, 1, 3]).unwrap();
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert_eq!(tokenizer.eot(), Some(7));
    assert!(tokenizer.is_end(7) && tokenizer.is_end(5));
    meta.set("tokenizer.ggml.eot_token_id", 5_u32).unwrap();
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap().eot(), Some(5));
}

#[test]
fn without_token_types_bytes_are_known_by_their_form() {
    let mut meta = llama();
    meta.remove("tokenizer.ggml.token_type");
    meta.set("tokenizer.ggml.tokens", ["a", "b", "c", "ab", "<0x78>", "<end>", "▁", "<0xZZ>"].as_slice())
        .unwrap();
    let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
    assert_eq!(tokenizer.encode("ab x").unwrap(), [3, 6, 4]);
    assert_eq!(tokenizer.decode(&[3, 6, 4, 5, 7]).unwrap(), "ab x<0xZZ>");
    assert_eq!(tokenizer.token(5).unwrap().1, TokenKind::Control);
}

/// The error message for a changed vocabulary.
#[track_caller]
fn refusal(mut meta: Metadata, key: &str, value: impl Into<Value>) -> String {
    meta.set(format!("tokenizer.ggml.{key}"), value).unwrap();
    Tokenizer::from_metadata(&meta).unwrap_err().to_string()
}

#[test]
fn unknown_models_and_rules_are_named() {
    assert_eq!(
        refusal(gpt2(), "model", "rwkv"),
        "tokenizer: `tokenizer.ggml.model`: got \"rwkv\", wanted one of gpt2, llama, gemma4, bert, t5"
    );
    let error = refusal(gpt2(), "pre", "gpt-9");
    assert!(
        error.starts_with("tokenizer: `tokenizer.ggml.pre`: got \"gpt-9\", wanted one of default, gpt-2, "),
        "{error}"
    );
    for known in ["llama-bpe", "qwen2", "deepseek-llm", "starcoder", "smollm"] {
        assert!(error.contains(known), "{known}");
    }
    assert_eq!(
        Tokenizer::from_metadata(&Metadata::new()).unwrap_err().to_string(),
        "no metadata key `tokenizer.ggml.model`, wanted string"
    );
    let mut meta = gpt2();
    meta.remove("tokenizer.ggml.merges");
    let error = Tokenizer::from_metadata(&meta).unwrap_err().to_string();
    assert_eq!(error, "no metadata key `tokenizer.ggml.merges`, wanted array of string");
}

#[test]
fn vocabularies_that_do_not_hold_together() {
    let strings = |s: &[&str]| s.iter().collect::<Strings>();
    assert_eq!(
        refusal(gpt2(), "tokens", strings(&["a", "b", "a"])),
        "tokenizer: `tokenizer.ggml.token_type`: got 8 types, wanted one for each of the 3 tokens"
    );
    assert_eq!(
        refusal(gpt2(), "tokens", strings(&[])),
        "tokenizer: `tokenizer.ggml.tokens`: got 0 tokens, wanted 1 to 2^32"
    );
    assert_eq!(
        refusal(gpt2(), "tokens", strings(&["a", "b", "c", "ab", "abc", "<end>", "", "a"])),
        "tokenizer: `tokenizer.ggml.tokens`: got \"a\" as token 0 and as token 7, wanted unique tokens"
    );
    assert_eq!(
        refusal(gpt2(), "token_type", vec![1, 1, 1, 1, 1, 3, 1, 9]),
        "tokenizer: `tokenizer.ggml.token_type`: got 9 for token 7, wanted a type from 1 to 6"
    );
    assert_eq!(
        refusal(gpt2(), "eos_token_id", 8_u32),
        "tokenizer: `tokenizer.ggml.eos_token_id`: got 8, wanted an id below 8, the number of tokens"
    );
    assert_eq!(
        refusal(gpt2(), "eos_token_id", -1_i32),
        "metadata key `tokenizer.ggml.eos_token_id`: got i32 -1, wanted u64"
    );
    let merge = |line: &str| refusal(gpt2(), "merges", strings(&["a b", line]));
    for (line, wanted) in [
        ("ab", "two tokens with a space between"),
        ("", "two tokens with a space between"),
        ("ab ", "a token \"\" in the vocabulary"),
        ("a z", "a token \"z\" in the vocabulary"),
        ("b c", "a token \"bc\" in the vocabulary"),
        ("a b c", "a token \"b c\" in the vocabulary"),
    ] {
        let expected =
            format!("tokenizer: merge 1 of `tokenizer.ggml.merges`: got {line:?}, wanted {wanted}");
        assert_eq!(merge(line), expected);
    }
    let mut meta = gpt2();
    meta.set("test.vocab_size", 7_u32).unwrap();
    assert_eq!(
        Tokenizer::from_metadata(&meta).unwrap_err().to_string(),
        "tokenizer: `tokenizer.ggml.tokens`: got 8 tokens, wanted at most the 7 of `test.vocab_size`"
    );
}

#[test]
fn scores_that_order_nothing() {
    let scores = |x| vec![x, -1.0_f32, -1.0, -2.0, -3.0, 0.0, -4.0, 0.0];
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let expected = format!("tokenizer: `tokenizer.ggml.scores`: got {x} for token 0, wanted numbers");
        assert_eq!(refusal(llama(), "scores", scores(x)), expected);
    }
    assert_eq!(
        refusal(llama(), "scores", vec![1.0_f32]),
        "tokenizer: `tokenizer.ggml.scores`: got 1 scores, wanted one for each of the 8 tokens"
    );
    let mut meta = llama();
    meta.remove("tokenizer.ggml.scores");
    let expected = "tokenizer: `tokenizer.ggml.scores`: got no scores and no merges, wanted one of them, to order the merges";
    assert_eq!(Tokenizer::from_metadata(&meta).unwrap_err().to_string(), expected);
    let long = "a".repeat(513);
    let tokens: Strings = ["a", "b", "c", "ab", "abc", "<end>", "Ġ", &long].iter().collect();
    let error = refusal(llama(), "tokens", tokens);
    assert_eq!(error, "tokenizer: `tokenizer.ggml.tokens`: got 513 bytes for token 7, wanted at most 512");
}
