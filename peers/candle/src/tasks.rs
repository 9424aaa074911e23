//! The tasks of docs/five-tasks.md, which are compiled here so that the page does not go out of date.
use candle_core::quantized::gguf_file;
use candle_core::{D, Device, Result, Tensor};
use candle_transformers::generation::LogitsProcessor;
use candle_transformers::models::quantized_llama::ModelWeights;
use std::fs::File;

/// A tensor from a `Vec`, a product, a softmax over the last axis, and back to a `Vec`.
pub fn tensors(w: &Tensor) -> Result<Vec<f32>> {
    let device = Device::Cpu;
    let x = Tensor::from_vec(vec![1f32, 2., 3., 4., 5., 6.], (2, 3), &device)?;
    let y = x.matmul(w)?;
    let p = candle_nn::ops::softmax(&y, D::Minus1)?;
    p.flatten_all()?.to_vec1::<f32>()
}

/// Generates text from a GGUF file of a llama, as it streams. `encode` and `decode` are those of the crate `tokenizers`.
pub fn generate(
    prompt: &str,
    end: Option<u32>,
    encode: impl Fn(&str) -> Vec<u32>,
    decode: impl Fn(&[u32]) -> String,
) -> Result<()> {
    let device = Device::Cpu;
    let mut file = File::open("model.gguf")?;
    let content = gguf_file::Content::read(&mut file)?;
    let mut model = ModelWeights::from_gguf(content, &mut file, &device)?;
    let mut ids = encode(prompt);
    let mut sampler = LogitsProcessor::new(0, Some(0.8), None);
    let (mut shown, mut at) = (decode(&ids), 0);
    for _ in 0..128 {
        let input = Tensor::new(&ids[at..], &device)?.unsqueeze(0)?;
        let logits = model.forward(&input, at)?.squeeze(0)?;
        at = ids.len();
        let next = sampler.sample(&logits)?;
        if Some(next) == end {
            break;
        }
        ids.push(next);
        let text = decode(&ids);
        if !text.ends_with('\u{FFFD}') {
            print!("{}", &text[shown.len()..]);
            shown = text;
        }
    }
    Ok(())
}
