//! Every family in f16 and bf16, compared with the same decoder in f32. In 16 bits, sinks, biases and caches have a different type
//! than the weights of norms.
use super::families::MORE;
use ops_tests::families::{FAMILIES, folder};
use rocm_ops::gguf::{GgmlType, Gguf, Writer};
use rocm_ops::models::Decoder;
use rocm_ops::{Activations, Cpu, Float, bf16, f16};

const TOKENS: u32 = 18;

/// The logits after each of some tokens, of a model that computes in `T`. Rounding to 8 bits would hide the error of 16 bits.
fn logits<T: Float>(gguf: &Gguf) -> Vec<f32> {
    let cpu = Cpu::builder().activations(Activations::Exact).build().unwrap();
    let model = Decoder::<T, Cpu>::load(&cpu, gguf, 32).unwrap();
    let tokens: Vec<u32> = (2..2 + TOKENS).collect();
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

/// Compares both types with f32. Returns what is out of bounds.
fn check(name: &str, gguf: &Gguf) -> Option<String> {
    let want = logits::<f32>(gguf);
    let (half, brain) = (error(&logits::<f16>(gguf), &want), error(&logits::<bf16>(gguf), &want));
    let line = format!("{name}: {half:.1e} in f16, {brain:.1e} in bf16");
    println!("{line}");
    let fits = half > 0.0 && half < 1e-3 && brain > 0.0 && brain < 5e-2;
    (!fits).then_some(line)
}

fn open(name: &str) -> Gguf {
    Gguf::open(format!("{}/{name}.gguf", folder())).unwrap()
}

#[test]
fn all_families_compute_in_16_bits() {
    let wrong: Vec<_> = FAMILIES.iter().chain(&MORE).filter_map(|name| check(name, &open(name))).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// What is added to the residual stream: embeddings and the results of blocks; of Gemma, the norms of these results.
fn adds_to_the_stream(name: &str, gemma: bool) -> bool {
    let parts: &[&str] = match gemma {
        true => &["post_attention_norm", "post_ffw_norm"],
        false => &["token_embd", "attn_output", "ffn_down", "ssm_out"],
    };
    parts.iter().any(|part| name.contains(part))
}

/// The same model with a residual stream that is this many times as large, in floats.
fn with_large_stream(gguf: &Gguf, gemma: bool, by: f32) -> Gguf {
    let mut writer = Writer::with_metadata(gguf.metadata().clone());
    for tensor in gguf.tensors() {
        writer.tensor(tensor.name(), tensor.ggml_type(), tensor.dims()).unwrap();
    }
    let mut body = writer.write_to(Vec::new()).unwrap();
    for tensor in gguf.tensors() {
        let mut bytes = tensor.bytes().unwrap().to_vec();
        if adds_to_the_stream(tensor.name(), gemma) {
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

/// The largest factor, a power of two, with which the logits are finite in f16. All that is added to the stream has this factor, so the
/// next one makes the stream exceed 65504.
fn largest_in_f16(gguf: &Gguf) -> f32 {
    let finite = |by: &f32| logits::<f16>(&with_large_stream(gguf, false, *by)).iter().all(|v| v.is_finite());
    (0..16).rev().map(|power| (power as f32).exp2()).find(finite).expect("it is finite as it is")
}

/// The stream of Gemma 3 270M reaches 104,000, and that of other models some thousands. The norms of the test models have weights near 1,
/// so those of Gemma, times 65536, add more than 65504 to the stream in every layer. A test model in blocks has the same layers as the
/// one in floats.
#[test]
fn residual_streams_may_be_as_large_as_in_real_models() {
    let large = |name: &&str| {
        let (gguf, gemma) = (open(name), name.starts_with("gemma"));
        let by = if gemma { 65536.0 } else { largest_in_f16(&gguf) };
        check(&format!("{name}, times {by}"), &with_large_stream(&gguf, gemma, by))
    };
    let floats = FAMILIES.iter().chain(&MORE).filter(|name| name.ends_with("-f16"));
    let wrong: Vec<_> = floats.filter_map(large).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
