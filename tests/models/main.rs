//! The decoder, compared with NumPy in float64 (`tools/generate/greedy_reference.py`).

// Functions of an op, a type and a backend that it has are not compiled once more here.
extern crate ops_cli as _;

mod continuation;
mod determinism;
mod encoders;
mod families;
mod folders;
mod further;
mod gemma3n;
mod generation;
mod half;
mod memories;
mod odd_files;
mod pages;
mod published;
mod ranks;
mod states;

use ops_tests::{bundled, expected, largest, model, quantized};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Transformer;
use rocm_ops::models::Decoder;
use rocm_ops::{Checked, Cpu, Float, Reference};

/// The most likely continuation; the prompt is processed in one pass or token by token.
fn greedy<T: Float, B: Transformer<T>>(
    b: &B,
    gguf: &Gguf,
    prompt: &[u32],
    n: usize,
    one_pass: bool,
) -> Vec<u32> {
    let model = Decoder::<T, B>::load(b, gguf, prompt.len() + n).unwrap();
    let mut state = model.state(b, prompt.len() + n).unwrap();
    let step = if one_pass { prompt.len() } else { 1 };
    let mut logits = Vec::new();
    for tokens in prompt.chunks(step) {
        logits = model.forward(b, &mut state, tokens).unwrap();
    }
    let mut ids = vec![largest(&logits)];
    while ids.len() < n {
        logits = model.forward(b, &mut state, &ids[ids.len() - 1..]).unwrap();
        ids.push(largest(&logits));
    }
    ids
}

fn check<B: Transformer<f32>>(b: &B, cases: usize, tokens: usize) {
    let gguf = model("f16");
    for (prompt, want) in expected().into_iter().take(cases) {
        let n = want.len().min(tokens);
        for one_pass in [true, false] {
            let got = greedy::<f32, B>(b, &gguf, &prompt, n, one_pass);
            assert_eq!(got, want[..n], "{} one_pass={one_pass} prompt={prompt:?}", b.name());
        }
    }
}

#[test]
fn greedy_tokens_are_those_of_float64_on_the_cpu() {
    check(&Cpu::new(), usize::MAX, usize::MAX);
}

#[test]
fn greedy_tokens_are_those_of_float64_on_the_reference() {
    check(&Reference::new(), 2, 16);
}

#[test]
fn greedy_tokens_are_those_of_float64_when_every_op_is_checked() {
    let checked = Checked::new(Cpu::new(), Reference::new());
    check(&checked, 2, 16);
    assert!(checked.calls() > 1000);
}

#[test]
fn the_tokenizer_gives_the_prompts_of_the_reference() {
    let cases: serde_json::Value = serde_json::from_str(include_str!("../data/greedy.json")).unwrap();
    let tokenizer = model("f16").tokenizer().unwrap();
    for (case, (ids, _)) in cases.as_array().unwrap().iter().zip(expected()) {
        assert_eq!(tokenizer.encode(case["prompt"].as_str().unwrap()).unwrap(), ids);
    }
}

/// Quantized weights change the model, not the arithmetic: compared with the same weights in f64 on the reference, the
/// logits stay close.
#[test]
fn quantized_logits_stay_close_to_the_reference() {
    for dtype in ["q8_0", "q4_0"] {
        let gguf = model(dtype);
        let (prompt, _) = &expected()[0];
        let fast = forward_once(&Cpu::new(), &gguf, prompt);
        let reference = forward_once(&Reference::new(), &gguf, prompt);
        let error: f32 = fast.iter().zip(&reference).map(|(a, b)| (a - b) * (a - b)).sum();
        let signal: f32 = reference.iter().map(|v| v * v).sum();
        assert!(error / signal < 1e-3, "{dtype}: {}", error / signal);
    }
}

fn forward_once<B: Transformer<f32>>(b: &B, gguf: &Gguf, prompt: &[u32]) -> Vec<f32> {
    let model = Decoder::<f32, B>::load(b, gguf, prompt.len()).unwrap();
    let mut state = model.state(b, prompt.len()).unwrap();
    model.forward(b, &mut state, prompt).unwrap()
}

/// A quantized model still says what the original says: after each token of a text, it has the same most
/// likely next token.
#[test]
fn a_quantized_model_still_speaks() {
    let cpu = Cpu::new();
    for (mixture, least) in [("q8_0", 0.96), ("q6_k", 0.95), ("q4_k_m", 0.85), ("q2_k", 0.5)] {
        let gguf = Gguf::from_bytes(quantized(&bundled::path("f16"), mixture)).unwrap();
        let (mut same, mut all) = (0, 0);
        for (prompt, continuation) in expected() {
            let tokens = [prompt.as_slice(), continuation.as_slice()].concat();
            let model = Decoder::<f32, Cpu>::load(&cpu, &gguf, tokens.len()).unwrap();
            let mut state = model.state(&cpu, tokens.len()).unwrap();
            let mut next = largest(&model.forward(&cpu, &mut state, &prompt).unwrap());
            for token in continuation {
                all += 1;
                same += usize::from(next == token);
                next = largest(&model.forward(&cpu, &mut state, &[token]).unwrap());
            }
        }
        let share = same as f64 / all as f64;
        println!("{mixture}: {same} of {all} tokens are those of the original");
        assert!(share >= least, "{mixture}: {same} of {all}");
    }
}

#[test]
fn a_mismatched_model_gives_an_error_that_names_the_problem() {
    let gguf = model("q8_0");
    let rewritten = |change: Option<(&str, rocm_ops::gguf::Value)>, without: &str| {
        let mut metadata = gguf.metadata().clone();
        if let Some((key, value)) = change {
            metadata.set(key, value).unwrap();
        }
        let mut writer = rocm_ops::gguf::Writer::with_metadata(metadata);
        let kept = || gguf.tensors().filter(|t| t.name() != without);
        for t in kept() {
            writer.tensor(t.name(), t.ggml_type(), t.dims()).unwrap();
        }
        let mut body = writer.write_to(Vec::new()).unwrap();
        kept().for_each(|t| body.write(t.name(), t.bytes().unwrap()).unwrap());
        let file = Gguf::from_bytes(body.finish().unwrap()).unwrap();
        Decoder::<f32, Cpu>::load(&Cpu::new(), &file, 16).err().expect("refused").to_string()
    };
    let unknown = rewritten(Some(("general.architecture", "mamba".into())), "");
    assert!(unknown.contains("mamba"), "{unknown}");
    let missing = rewritten(None, "blk.3.ffn_up.weight");
    assert!(missing.contains("blk.3.ffn_up.weight"), "{missing}");
    let wider = rewritten(Some(("llama.feed_forward_length", 1000u32.into())), "");
    assert!(wider.contains("ffn_") && wider.contains("1000"), "{wider}");
}
