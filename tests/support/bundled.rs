//! The project's own model, in the types of its files and in those that are made from them.
use rocm_ops::Cpu;
use rocm_ops::gguf::{Gguf, Mixture, Quantizer};
use std::sync::OnceLock;

/// In f16 and Q8_0, or in Q4_0, which is quantized from f16.
pub fn model(dtype: &str) -> Gguf {
    static Q4_0: OnceLock<Vec<u8>> = OnceLock::new();
    if dtype == "q4_0" {
        let bytes = Q4_0.get_or_init(|| quantized(&path("f16"), dtype));
        return Gguf::from_bytes(bytes.clone()).unwrap();
    }
    Gguf::open(path(dtype)).expect("the model is part of the project")
}

/// The path of one of the model's files.
pub fn path(dtype: &str) -> String {
    format!("{}/../models/tiny-llama-kjv-{dtype}.gguf", env!("CARGO_MANIFEST_DIR"))
}

/// The bytes of the file that `ops quantize` makes of another.
pub fn quantized(from: &str, mixture: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("quantized.gguf");
    let mixture = Mixture::from_name(mixture).unwrap();
    Quantizer::open(from, mixture).unwrap().write(&Cpu::new(), &to, |_| ()).unwrap();
    std::fs::read(&to).unwrap()
}
