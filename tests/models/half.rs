//! Every family in f16 and bf16, compared with the same decoder in f32. In 16 bits, sinks, biases and caches have a different type
//! than the weights of norms.
use ops_tests::families::all;
use ops_tests::families::folder;
use rocm_ops::gguf::{GgmlType, Gguf, Writer};
use rocm_ops::models::{Config, Decoder};
use rocm_ops::{Activations, Cpu, Float, bf16, f16};

/// Tokens that a model reads. With the sixth, two experts of `gemma4_moe` score almost equally: 16 bits choose the other one.
fn tokens(name: &str) -> u32 {
    if name.starts_with("gemma4_moe") { 5 } else { 18 }
}

/// The logits after each of some tokens, of a model that computes in `T`.
fn logits<T: Float>(name: &str, gguf: &Gguf) -> Vec<f32> {
    // With rounded activations, another 16-bit rounding moves codes, which shows more than the type does.
    let cpu = Cpu::builder().activations(Activations::Exact).build().unwrap();
    let model = Decoder::<T, Cpu>::load(&cpu, gguf, 32).unwrap();
    let tokens: Vec<u32> = (2..2 + tokens(name)).collect();
    model.forward_all(&cpu, &mut model.state(&cpu, 32).unwrap(), &tokens).unwrap()
}

/// The NMSE of `got`: infinite if any logit is not finite.
fn error(got: &[f32], want: &[f32]) -> f64 {
    if got.iter().any(|v| !v.is_finite()) {
        return f64::INFINITY;
    }
    let square = |v: f32| f64::from(v).powi(2);
    let error: f64 = got.iter().zip(want).map(|(g, w)| square(g - w)).sum();
    error / want.iter().map(|w| square(*w)).sum::<f64>()
}

/// Compares both types with f32.
fn check(name: &str, gguf: &Gguf) {
    let want = logits::<f32>(name, gguf);
    assert!(want.iter().all(|v| v.is_finite()), "{name}");
    let (half, brain) = (error(&logits::<f16>(name, gguf), &want), error(&logits::<bf16>(name, gguf), &want));
    println!("{name}: {half:.1e} in f16, {brain:.1e} in bf16");
    // Another expert may be chosen; in Gemma 3n and 4, scores are not scaled, so that softmax enlarges what its inputs lack. In
    // Gemma 3n, the differences of streams are multiplied as well.
    let more = match name {
        _ if name.starts_with("gemma4") => 4.0,
        _ if name.starts_with("gemma3n") => 8.0,
        _ => 1.0,
    };
    assert!(half > 0.0 && half < 1e-4 * more, "{name} in f16: {half:e}");
    assert!(brain > 0.0 && brain < 2e-2 * more, "{name} in bf16: {brain:e}");
}

fn open(name: &str) -> Gguf {
    Gguf::open(format!("{}/{name}.gguf", folder())).unwrap()
}

#[test]
fn all_families_compute_in_16_bits() {
    all().iter().for_each(|name| check(name, &open(name)));
}

/// What is added to the residual stream: embeddings and the results of blocks; in some families, the norms of these results.
fn adds_to_the_stream(name: &str, normed: bool) -> bool {
    let parts: &[&str] = match normed {
        true => &["post_attention_norm.", "post_ffw_norm.", "post_norm."],
        false => &["token_embd", "attn_output", "ffn_down", "ssm_out"],
    };
    parts.iter().any(|part| name.contains(part))
}

/// The same model with a residual stream that is this many times as large, in floats.
fn with_large_stream(gguf: &Gguf, normed: bool, by: f32) -> Gguf {
    let mut writer = Writer::with_metadata(gguf.metadata().clone());
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name(), tensor.ggml_type(), tensor.dims()).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for tensor in gguf.tensors() {
        let mut bytes = tensor.bytes().unwrap().to_vec();
        if adds_to_the_stream(tensor.name(), normed) {
            match tensor.ggml_type() {
                GgmlType::F16 => scale::<f16>(&mut bytes, |v| f16::from_f32(v.to_f32() * by)),
                GgmlType::F32 => scale::<f32>(&mut bytes, |v| v * by),
                other => panic!("{} is {other:?}", tensor.name()),
            }
        }
        body.write(tensor.name(), &bytes).unwrap();
    }
    Gguf::from_bytes(body.finish().unwrap()).unwrap()
}

fn scale<T: bytemuck::Pod>(bytes: &mut [u8], f: impl Fn(T) -> T) {
    for bytes in bytes.chunks_exact_mut(size_of::<T>()) {
        let value = bytemuck::pod_read_unaligned(bytes);
        bytes.copy_from_slice(bytemuck::bytes_of(&f(value)));
    }
}

/// The root mean square of a tensor.
fn size(gguf: &Gguf, name: &str) -> f32 {
    let tensor = gguf.tensor(name).unwrap();
    let values: Vec<f32> = match tensor.ggml_type() {
        GgmlType::F16 => tensor.view::<f16>().unwrap().iter().map(|v| v.to_f32()).collect(),
        _ => tensor.view::<f32>().unwrap().into_owned(),
    };
    (values.iter().map(|v| v * v).sum::<f32>() / values.len() as f32).sqrt()
}

/// The stream of Gemma 3 270M reaches 104,000, more than f16 can represent, and that of other models some thousands; here, blocks add up to
/// 32 times as much as the embeddings. A test model in blocks has the same layers as the one in floats.
#[test]
fn residual_streams_may_be_as_large_as_in_real_models() {
    for name in all().iter().filter(|name| name.ends_with("-f16")) {
        let gguf = open(name);
        let norm = "blk.0.post_ffw_norm.weight";
        let normed = gguf.find(norm).is_some();
        let (largest, wanted) = if normed { (norm, 40_000.0) } else { ("token_embd.weight", 500.0) };
        let scale = if normed { 1.0 } else { Config::new(gguf.metadata()).unwrap().embedding_scale };
        let by = (wanted / (size(&gguf, largest) * scale as f32)).log2().ceil().exp2();
        check(&format!("{name}, times {by}"), &with_large_stream(&gguf, normed, by));
    }
}
