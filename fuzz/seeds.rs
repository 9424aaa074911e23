//! Writes the seeds: small valid files with every type of value and both kinds of tokenizer.
//!
//! Usage: cargo run --bin seeds    (from this folder)

use ops_gguf::{Array, GgmlType, Metadata, Result, Writer};

fn main() -> Result<()> {
    write("values", values()?, &[])?;
    write(
        "tensors",
        Metadata::new(),
        &[("a", GgmlType::F32, &[2, 3]), ("b.weight", GgmlType::Q8_0, &[1, 32]), ("c", GgmlType::BF16, &[])],
    )?;
    write("gpt2", gpt2("gpt-2")?, &[("t", GgmlType::F16, &[1])])?;
    write("llama3", gpt2("llama-bpe")?, &[])?;
    write("default", gpt2("default")?, &[])?;
    write("llama", llama()?, &[])
}

fn write(name: &str, metadata: Metadata, tensors: &[(&str, GgmlType, &[usize])]) -> Result<()> {
    let mut writer = Writer::with_metadata(metadata);
    for (name, ty, dims) in tensors {
        writer.tensor(name, *ty, dims)?;
    }
    let mut body = writer.create(format!("seeds/gguf/{name}.gguf"))?;
    for (i, (name, ty, dims)) in tensors.iter().enumerate() {
        let block = ty.block().expect("a known type");
        let len = dims.iter().product::<usize>() / block.len * block.bytes;
        body.write(name, &vec![i as u8; len])?;
    }
    body.commit()
}

fn values() -> Result<Metadata> {
    let mut meta = Metadata::new();
    meta.set("general.architecture", "x")?.set("general.alignment", 64_u32)?;
    meta.set("a", 1_u8)?
        .set("b", -1_i8)?
        .set("c", 1_u16)?
        .set("d", -1_i16)?
        .set("e", -1_i32)?
        .set("f", 1_u64)?;
    meta.set("g", -1_i64)?
        .set("h", 1.5_f32)?
        .set("i", 1.5_f64)?
        .set("j", true)?
        .set("k", "text \u{1f600}")?;
    meta.set("l", vec![1_u8, 2])?.set("m", vec![1.0_f32])?.set("n", vec![true, false])?;
    meta.set("o", ["", "two"].as_slice())?;
    meta.set("p", Array::Array([Array::U8([1].into()), Array::Array([].into())].into()))?;
    Ok(meta)
}

fn gpt2(pre: &str) -> Result<Metadata> {
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", "gpt2")?.set("tokenizer.ggml.pre", pre)?;
    let tokens = ["<s>", "</s>", "a", "b", "ab", "\u{120}", "\u{120}a", "1", "\u{10a}", "\u{c3}", "<|x|>"];
    meta.set("tokenizer.ggml.tokens", tokens.as_slice())?;
    meta.set("tokenizer.ggml.token_type", vec![3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 4])?;
    meta.set("tokenizer.ggml.merges", ["a b", "\u{120} a"].as_slice())?;
    meta.set("tokenizer.ggml.bos_token_id", 0_u32)?.set("tokenizer.ggml.eos_token_id", 1_u32)?;
    meta.set("tokenizer.ggml.add_bos_token", true)?;
    Ok(meta)
}

fn llama() -> Result<Metadata> {
    let mut meta = Metadata::new();
    meta.set("tokenizer.ggml.model", "llama")?;
    let tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "<0xC3>", "\u{2581}", "a", "b", "ab", "\u{2581}a", "<x>"];
    meta.set("tokenizer.ggml.tokens", tokens.as_slice())?;
    meta.set("tokenizer.ggml.scores", vec![0.0_f32, 0.0, 0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0, 0.0])?;
    meta.set("tokenizer.ggml.token_type", vec![2, 3, 3, 6, 6, 1, 1, 1, 1, 1, 4])?;
    meta.set("tokenizer.ggml.unknown_token_id", 0_u32)?.set("tokenizer.ggml.add_space_prefix", true)?;
    Ok(meta)
}
