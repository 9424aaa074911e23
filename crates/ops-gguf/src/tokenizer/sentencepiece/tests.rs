use serde_json::json;

use crate::tokenizer::pretokenizer::LISTED;
use crate::{EncodeOptions, Metadata, Tokenizer};

/// A vocabulary as Gemma 4 has it: characters, spaces as `▁`, bytes, and merges that also join words and newlines.
fn vocabulary() -> (Vec<String>, Vec<i32>, Vec<String>) {
    let merges = [
        "h e",
        "l l",
        "he ll",
        "hell o",
        "▁ ▁",
        "▁▁ ▁▁",
        "\n \n",
        "o ▁",
        "t h",
        "▁ th",
        "▁th e",
        "é ▁",
        "1 2",
    ];
    let mut tokens: Vec<String> = ["<unk>", "<bos>", "<eos>", "<td>"].map(str::to_owned).to_vec();
    let mut kinds = vec![2, 3, 3, 4];
    tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
    kinds.resize(tokens.len(), 6);
    tokens.extend("▁\nabcdehlmnorstuvw'.,!?0123éइ你".chars().map(String::from));
    tokens.extend(merges.map(|merge| merge.replacen(' ', "", 1)));
    kinds.resize(tokens.len(), 1);
    (tokens, kinds, merges.map(str::to_owned).to_vec())
}

/// The same as a `tokenizer.json`, in the form of the published ones.
fn library(tokens: &[String], merges: &[String]) -> tokenizers::Tokenizer {
    let vocab: serde_json::Map<String, _> =
        tokens.iter().cloned().zip((0..).map(|id: u32| id.into())).collect();
    let added = json!({ "id": 3, "content": "<td>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": false });
    let file = json!({
        "version": "1.0",
        "added_tokens": [added],
        "normalizer": { "type": "Replace", "pattern": { "String": " " }, "content": "▁" },
        "pre_tokenizer": { "type": "Split", "pattern": { "String": " " }, "behavior": "MergedWithPrevious", "invert": false },
        "decoder": { "type": "Sequence", "decoders": [
            { "type": "Replace", "pattern": { "String": "▁" }, "content": " " }, { "type": "ByteFallback" }, { "type": "Fuse" } ] },
        "model": { "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocab, "merges": merges },
    });
    file.to_string().parse().unwrap()
}

#[test]
fn texts_are_encoded_as_a_whole_as_the_library_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/byte_level.json");
    let cases: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let texts = cases["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap());
    let own = ["hello  the\n\n\nhello the", "    hello<td>  the 12\n", "▁ x", "", " "];
    let (tokens, kinds, merges) = vocabulary();
    let library = library(&tokens, &merges);
    // Converters mark runs of spaces as added tokens, and restore their spaces.
    let runs = |text: &String| text.len() > 3 && text.chars().all(|c| c == '▁');
    let kinds: Vec<i32> =
        kinds.iter().zip(&tokens).map(|(kind, text)| if runs(text) { 4 } else { *kind }).collect();
    let written: Vec<String> =
        tokens.iter().map(|text| if runs(text) { text.replace('▁', " ") } else { text.clone() }).collect();
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.tokens", written.as_slice()).unwrap();
    meta.set("tokenizer.ggml.token_type", kinds).unwrap();
    meta.set("tokenizer.ggml.merges", merges.as_slice()).unwrap();
    meta.set("tokenizer.ggml.unknown_token_id", 0_u32).unwrap();
    // Without a meaning here: merges are in order.
    meta.set("tokenizer.ggml.scores", vec![-1000.0_f32; tokens.len()]).unwrap();
    let texts: Vec<&str> = texts.chain(own).collect();
    for (model, pre) in LISTED.map(|pre| ("gpt2", pre)).into_iter().chain([("gemma4", "gemma4")]) {
        meta.set("tokenizer.ggml.model", model).unwrap().set("tokenizer.ggml.pre", pre).unwrap();
        let tokenizer = Tokenizer::from_metadata(&meta).unwrap();
        assert!(!tokenizer.adds_bos());
        for text in &texts {
            let ids = tokenizer.encode_with(text, EncodeOptions::default()).unwrap();
            assert_eq!(ids, library.encode(*text, false).unwrap().get_ids(), "{pre}: {text:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), text.replace('▁', " "), "{pre}: {text:?}");
        }
    }
}
