//! Small encoders with random weights in folders, and embeddings that `transformers` computed in float64
//! (`tools/generate/encoder-fixture.py`).
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Transformer;
use rocm_ops::models::{self, Encoder};
use serde_json::Value;

/// The encoders in `tests/data/folders`.
pub const ENCODERS: [&str; 2] = ["bert", "bert_masked"];

/// The expected embeddings of an encoder.
pub struct Expected {
    /// The texts.
    pub texts: Vec<String>,
    /// The tokens of each.
    pub ids: Vec<Vec<u32>>,
    /// What these decode to.
    pub decoded: Vec<String>,
    /// The embedding of each.
    pub embeddings: Vec<Vec<f64>>,
}

/// The folder of an encoder.
pub fn folder(name: &str) -> String {
    format!("{}/data/folders/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// What an encoder must say, from its `expected.json`.
pub fn expected(name: &str) -> Expected {
    let json = std::fs::read_to_string(format!("{}/expected.json", folder(name))).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let texts = |key: &str| list(&json[key]).iter().map(|text| text.as_str().unwrap().to_owned()).collect();
    let ids = |row: &Value| list(row).iter().map(|id| id.as_u64().unwrap() as u32).collect();
    let floats = |row: &Value| list(row).iter().map(|v| v.as_f64().unwrap()).collect();
    let expected = Expected {
        texts: texts("texts"),
        ids: list(&json["ids"]).iter().map(ids).collect(),
        decoded: texts("decoded"),
        embeddings: list(&json["embeddings"]).iter().map(floats).collect(),
    };
    assert!(expected.texts.len() >= 5 && expected.embeddings.len() == expected.texts.len());
    expected
}

fn nmse(got: &[f32], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
    error / want.iter().map(|w| w * w).sum::<f64>()
}

/// The embeddings of all texts, each alone and together in batches with padding.
pub fn check<B: Transformer<f32>>(b: &B, name: &str) {
    check_model(b, name, &models::open(folder(name)).unwrap());
}

/// The same for any file of this encoder.
pub fn check_model<B: Transformer<f32>>(b: &B, name: &str, model: &Gguf) {
    let encoder = Encoder::<f32, B>::load(b, model).unwrap();
    let Expected { ids, embeddings, .. } = expected(name);
    let all: Vec<&[u32]> = ids.iter().map(Vec::as_slice).collect();
    let together = encoder.embed(b, &all).unwrap();
    for ((text, together), want) in all.iter().zip(&together).zip(&embeddings) {
        let alone = encoder.embed(b, &[text]).unwrap();
        for got in [&alone[0], together] {
            let error = nmse(got, want);
            assert!(error <= 1e-9, "{name}, a text of {} tokens on {}: {error}", text.len(), b.name());
        }
    }
}

/// The encoders in `tests/data/encoders`: each a GGUF file by llama.cpp's converter, a folder, or both. Their vectors are those of
/// `transformers` in float64.
pub fn files() -> Vec<String> {
    let all = std::fs::read_dir(file("")).unwrap().map(|entry| entry.unwrap());
    let models = all
        .filter(|entry| entry.path().is_dir() || entry.path().extension().is_some_and(|end| end == "gguf"));
    let mut names: Vec<_> = models.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 12, "{names:?}");
    names
}

/// The path of one of [`files`].
pub fn file(name: &str) -> String {
    format!("{}/data/encoders/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// The numbers of one of [`files`].
pub fn numbers(name: &str) -> Value {
    let stem = name.strip_suffix(".gguf").unwrap_or(name);
    let read = |stem: &str| std::fs::read_to_string(format!("{}.json", file(stem)));
    let text = read(stem).or_else(|_| read(&format!("{stem}-f16"))).unwrap_or_else(|e| panic!("{name}: {e}"));
    serde_json::from_str(&text).unwrap()
}

/// Ids in a list of the numbers.
pub fn ids(row: &Value) -> Vec<u32> {
    row.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

/// The largest difference of a vector from the expected one.
pub fn largest_difference(got: &[f32], want: &Value) -> f64 {
    let want = want.as_array().unwrap();
    assert_eq!(got.len(), want.len());
    got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w.as_f64().unwrap()).abs()).fold(0.0, f64::max)
}

/// The vectors of one of [`files`]: of each text alone, of all in a batch, and of several copies of one, which have one length.
pub fn check_file<B: Transformer<f32>>(b: &B, name: &str, model: &Gguf) {
    let encoder = Encoder::<f32, B>::load(b, model).unwrap_or_else(|e| panic!("{name}: {e}"));
    let numbers = numbers(name);
    let texts: Vec<Vec<u32>> = numbers["texts"].as_array().unwrap().iter().map(ids).collect();
    let all: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
    let together = encoder.embed(b, &all).unwrap();
    for (i, text) in all.iter().enumerate() {
        let twice = encoder.embed(b, &[text, text]).unwrap();
        for got in [&encoder.embed(b, &[text]).unwrap()[0], &twice[1], &together[i]] {
            let off = largest_difference(got, &numbers["embeddings"][i]);
            assert!(off <= 2e-5, "{name}, a text of {} tokens on {}: {off}", text.len(), b.name());
        }
    }
}
