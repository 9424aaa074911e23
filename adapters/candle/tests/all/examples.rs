//! The examples against results of `transformers` in float64, and the page against the examples.
use rocm_ops::Cpu;
use rocm_ops::gguf::Gguf;
use std::path::{Path, PathBuf};

#[path = "../../examples/llama.rs"]
mod llama;
#[path = "../../examples/qwen3.rs"]
mod qwen3;

/// Computes the logits after some tokens, which follow a number of others.
type Forward = Box<dyn Fn(&[u32], usize) -> Vec<f32>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs every prompt of a fixture: `forward` gets its tokens and where they start.
fn check(name: &str, budget: f64, mut load: impl FnMut(&Gguf) -> Forward) {
    let folder = root().join("tests/data/families");
    let gguf = Gguf::open(folder.join(format!("{name}.gguf"))).unwrap();
    let json = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    let all: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let ids = |row: &serde_json::Value| -> Vec<u32> {
        row.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    };
    for (i, prompt) in all["prompts"].as_array().unwrap().iter().enumerate() {
        let (prompt, forward) = (ids(prompt), load(&gguf));
        let want: Vec<f64> =
            all["last_logits"][i].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
        // In two pieces, so that the cache is read.
        let cut = prompt.len() / 2;
        if cut > 0 {
            forward(&prompt[..cut], 0);
        }
        let got = forward(&prompt[cut..], cut);
        let error: f64 = got.iter().zip(&want).map(|(g, w)| (f64::from(*g) - w).powi(2)).sum();
        let error = error / want.iter().map(|w| w * w).sum::<f64>();
        assert!(got.len() == want.len() && error <= budget, "{name}, prompt {i}: {error}");
    }
}

#[test]
fn llama_computes_what_transformers_does() {
    let load = |gguf: &Gguf| -> Forward {
        let model = llama::Llama::load(gguf, Cpu::new(), 64).unwrap();
        Box::new(move |ids, start| model.forward(ids, start).unwrap().to_vec1().unwrap())
    };
    check("llama-f16", 1e-9, load);
    // In blocks, of which each product rounds the activations.
    check("llama-Q4_K_M", 2e-2, load);
}

#[test]
fn qwen3_computes_what_transformers_does() {
    check("qwen3-f16", 1e-9, |gguf| {
        let model = qwen3::Qwen3::load(gguf, Cpu::new(), 64).unwrap();
        Box::new(move |ids, start| model.forward(ids, start).unwrap().to_vec1().unwrap())
    });
}

/// What the page calls short.
#[test]
fn examples_have_at_most_150_lines() {
    for name in ["llama", "qwen3"] {
        let text =
            std::fs::read_to_string(root().join(format!("adapters/candle/examples/{name}.rs"))).unwrap();
        assert!(text.lines().count() <= 150, "{name}: {} lines", text.lines().count());
    }
}

/// Code in the page is part of a program that is compiled.
#[test]
fn the_page_shows_code_of_the_examples() {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let folder = root().join("adapters/candle/examples");
    let programs: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| flat(&std::fs::read_to_string(file.unwrap().path()).unwrap()))
        .collect();
    let page = std::fs::read_to_string(root().join("docs/candle-adapter.md")).unwrap();
    let blocks: Vec<&str> =
        page.split("```rust,ignore\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(blocks.len() >= 3, "{} blocks", blocks.len());
    for block in blocks {
        let block = flat(block);
        assert!(programs.iter().any(|program| program.contains(&block)), "no example has: {block}");
    }
}
