//! What the tests of models share: models, their expected numbers, and comparisons on any backend.

pub mod bundled;
pub mod continued;
pub mod determinism;
pub mod encoders;
pub mod families;
pub mod nan;
pub mod normal;
pub mod pages;
pub mod ranks;
pub mod rewritten;

pub use bundled::{model, quantized};

/// The output of `tools/generate/greedy_reference.py`: prompts and the tokens that follow.
pub fn expected() -> Vec<(Vec<u32>, Vec<u32>)> {
    let cases: serde_json::Value = serde_json::from_str(include_str!("../data/greedy.json")).unwrap();
    let ids =
        |v: &serde_json::Value| v.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect();
    cases.as_array().unwrap().iter().map(|case| (ids(&case["prompt_ids"]), ids(&case["ids"]))).collect()
}

/// The token with the largest logit; the first of several.
pub fn largest(logits: &[f32]) -> u32 {
    let better = |best: usize, (i, v): (usize, &f32)| if *v > logits[best] { i } else { best };
    logits.iter().enumerate().fold(0, better) as u32
}

/// The largest difference; NaN if there is one.
pub fn largest_difference(got: &[f32], want: &[f32]) -> f32 {
    let all = got.iter().zip(want).map(|(a, b)| (a - b).abs());
    all.fold(0.0, |most, off| if off > most || off.is_nan() { off } else { most })
}
