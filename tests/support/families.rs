//! Small models with random weights, one of each family, and logits that another implementation computed in
//! float64 (`tests/data/families/README.md`).
use crate::{largest, largest_difference};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Transformer;
use rocm_ops::models::Decoder;
use serde_json::Value;

/// Those that every backend runs with every wave size: of the files in [`folder`], without their extension.
pub const FAMILIES: [&str; 8] = [
    "llama-f16",
    "llama-Q4_K_M",
    "qwen3-f16",
    "gemma3-f16",
    "qwen3moe-f16",
    "gpt-oss-f16",
    "deepseek-v3-f16",
    "qwen3next-f16",
];

/// The folder of the models.
pub fn folder() -> String {
    format!("{}/data/families", env!("CARGO_MANIFEST_DIR"))
}

/// All that are there.
pub fn all() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path());
    let models = files.filter(|path| path.extension().is_some_and(|end| end == "gguf"));
    let mut names: Vec<_> =
        models.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// The expected output of a model for a prompt.
struct Case {
    prompt: Vec<u32>,
    top1: Vec<u32>,
    last_logits: Vec<f64>,
    greedy: Vec<u32>,
}

fn cases(path: &str) -> Vec<Case> {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let of = |key: &str, i: usize| json[key][i].as_array().unwrap().clone();
    let ids = |key, i| of(key, i).iter().map(|v| v.as_u64().unwrap() as u32).collect();
    let prompts = json["prompts"].as_array().unwrap().len();
    assert!(prompts >= 3);
    (0..prompts)
        .map(|i| Case {
            prompt: ids("prompts", i),
            top1: ids("top1", i),
            last_logits: of("last_logits", i).iter().map(|v| v.as_f64().unwrap()).collect(),
            greedy: ids("greedy", i),
        })
        .collect()
}

fn nmse(got: &[f32], want: &[f64]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
    error / want.iter().map(|w| w * w).sum::<f64>()
}

/// Checks the top token at every position, the last logits, and `greedy` tokens of each of the first prompts.
pub fn check<B: Transformer<f32>>(b: &B, name: &str, prompts: usize, greedy: usize) {
    let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
    check_model(b, (name, &gguf), &numbers(name), prompts, greedy);
}

/// The same on a backend that does not round activations for products with weights in blocks.
pub fn check_exact<B: Transformer<f32>>(b: &B, name: &str, prompts: usize, greedy: usize) {
    let gguf = Gguf::open(format!("{}/{name}.gguf", folder())).unwrap();
    check_numbers(b, (name, &gguf), &numbers(name), (prompts, greedy), true);
}

/// The path of a model's expected numbers. The weights in MXFP4 are those in f16.
pub fn numbers(name: &str) -> String {
    format!("{}/{}.json", folder(), name.replace("MXFP4", "f16"))
}

/// The same for any model at `path` with expected numbers.
pub fn check_model<B: Transformer<f32>>(
    b: &B,
    (name, gguf): (&str, &Gguf),
    path: &str,
    prompts: usize,
    greedy: usize,
) {
    // Blocks are multiplied with activations in 8 bits, but not by the reference; a token may then change where two are nearly
    // equally likely.
    let exact = !["Q4", "MXFP4"].iter().any(|blocks| name.contains(blocks)) || b.name() == "reference";
    check_numbers(b, (name, gguf), path, (prompts, greedy), exact);
}

fn check_numbers<B: Transformer<f32>>(
    b: &B,
    (name, gguf): (&str, &Gguf),
    path: &str,
    (prompts, greedy): (usize, usize),
    exact: bool,
) {
    for case in cases(path).into_iter().take(prompts) {
        let capacity = case.prompt.len() + greedy;
        let model = Decoder::<f32, B>::load(b, gguf, capacity).unwrap();
        let mut state = model.state(b, capacity).unwrap();
        let logits = model.forward_all(b, &mut state, &case.prompt).unwrap();
        let rows: Vec<_> = logits.chunks(model.vocabulary()).collect();
        let top1: Vec<u32> = rows.iter().map(|row| largest(row)).collect();
        let error = nmse(rows[rows.len() - 1], &case.last_logits);
        assert!(error <= if exact { 1e-9 } else { 2e-2 }, "{name} on {}: {error}", b.name());
        if !exact {
            continue;
        }
        assert_eq!(top1, case.top1, "{name} on {}", b.name());
        let mut next = top1[top1.len() - 1];
        for want in &case.greedy[..greedy] {
            assert_eq!(next, *want, "{name} on {}", b.name());
            next = largest(&model.forward(b, &mut state, &[next]).unwrap());
        }
    }
}

/// Texts of different lengths in one step give the same as each one alone.
pub fn check_batch<B: Transformer<f32>>(b: &B, gguf: &Gguf, name: &str) {
    let model = Decoder::<f32, B>::load(b, gguf, 32).unwrap();
    let state = || model.state(b, 32).unwrap();
    let prompts: [&[u32]; 3] = [&[5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15], &[17], &[250, 2, 40]];
    let steps: [[&[u32]; 3]; 2] = [prompts, [&[9], &[21, 22], &[3]]];
    let (mut states, mut alone) = ([state(), state(), state()], [state(), state(), state()]);
    for step in steps {
        let mut rows: Vec<_> = states.iter_mut().zip(step).collect();
        let together = model.forward_batch(b, &mut rows).unwrap();
        for ((state, tokens), got) in alone.iter_mut().zip(step).zip(together) {
            let want = model.forward(b, state, tokens).unwrap();
            let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
            let off = largest_difference(&got, &want);
            assert!(off <= 1e-5 * scale, "{name} on {}: {off} of {scale}", b.name());
        }
    }
    assert_eq!(states.each_ref().map(|state| state.len()), [12, 3, 4]);
    let mut rows: Vec<_> = states.iter_mut().zip([&[1_u32][..], &[], &[1]]).collect();
    assert!(model.forward_batch(b, &mut rows).is_err(), "a text without tokens");
}
