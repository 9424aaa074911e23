//! `ops quantize`: types by mixture, and output files that are complete or absent.
use super::{ops, scratch};
use ops_gguf::{GgmlType, Gguf, Writer};
use std::path::{Path, PathBuf};

fn model(dtype: &str) -> String {
    format!("{}/../../models/tiny-llama-kjv-{dtype}.gguf", env!("CARGO_MANIFEST_DIR"))
}

/// A file of one layer with rows of 256, 96 and 100 values, and a norm.
fn small(path: &Path, ty: GgmlType) {
    let mut writer = Writer::new();
    writer.set("general.architecture", "llama").unwrap().set("llama.block_count", 1_u32).unwrap();
    writer.tensor("blk.0.attn_norm.weight", GgmlType::F32, &[256]).unwrap();
    let names = [("blk.0.attn_q.weight", 256), ("blk.0.ffn_up.weight", 96), ("blk.0.ffn_gate.weight", 100)];
    for (name, k) in names {
        writer.tensor(name, ty, &[2, k]).unwrap();
    }
    let mut body = writer.create(path).unwrap();
    body.write("blk.0.attn_norm.weight", &[1.0_f32; 256]).unwrap();
    for (name, k) in names {
        let values: Vec<f32> = (0..2 * k).map(|i| (i as f32 * 0.37).sin()).collect();
        body.write(name, &values).unwrap();
    }
    body.commit().unwrap();
}

fn quantize(from: &Path, to: &Path, more: &[&str]) -> super::Run {
    let mut args = vec!["quantize", from.to_str().unwrap(), to.to_str().unwrap(), "--type"];
    args.extend(more);
    ops(&args)
}

fn scratch_pair(name: &str) -> (PathBuf, PathBuf) {
    (scratch(&format!("{name}-in.gguf")), scratch(&format!("{name}-out.gguf")))
}

#[test]
fn every_mixture_of_a_model_is_readable_and_near_the_original() {
    let from = PathBuf::from(model("f16"));
    let to = scratch("mixture.gguf");
    let original = Gguf::open(&from).unwrap();
    for (mixture, worst) in [
        ("q2_k", 0.15),
        ("q3_k_m", 0.05),
        ("q4_k_s", 0.01),
        ("q4_k_m", 0.01),
        ("q5_k_m", 0.003),
        ("q6_k", 7e-4),
        ("q8_0", 7e-5),
    ] {
        let run = quantize(&from, &to, &[mixture]);
        assert_eq!(run.code, 0, "{mixture}: {}", run.stderr);
        assert!(run.last().contains("times smaller"), "{}", run.stdout);
        let gguf = Gguf::open(&to).unwrap();
        assert_eq!(gguf.metadata().get::<u32>("general.quantization_version").unwrap(), 2);
        assert_eq!(gguf.tensors().len(), original.tensors().len());
        let mut changed = 0;
        for (a, b) in original.tensors().zip(gguf.tensors()) {
            assert_eq!((a.name(), a.dims()), (b.name(), b.dims()));
            changed += usize::from(a.ggml_type() != b.ggml_type());
            let error = nmse(&values(&a), &values(&b));
            assert!(error <= worst, "{mixture}, {}: an error of {error}", a.name());
        }
        assert!(changed > 10, "{mixture}: {changed} tensors changed");
    }
}

fn values(tensor: &ops_gguf::Tensor<'_>) -> Vec<f32> {
    use ops_core::{DType, ops::registry};
    let bytes = tensor.bytes().unwrap();
    match tensor.ggml_type() {
        GgmlType::F32 => tensor.view::<f32>().unwrap().into_owned(),
        GgmlType::F16 => tensor.view::<ops_core::f16>().unwrap().iter().map(|v| v.to_f32()).collect(),
        ty => {
            let Some(DType::Block(format)) = registry::dtype(ty.name().unwrap()) else { panic!("{ty}") };
            let mut values = vec![0.0; tensor.elements()];
            for (block, values) in bytes.chunks(format.bytes()).zip(values.chunks_mut(format.values())) {
                format.decode(block, values);
            }
            values
        }
    }
}

fn nmse(want: &[f32], got: &[f32]) -> f64 {
    let sum = |f: &dyn Fn(f64, f64) -> f64| -> f64 {
        want.iter().zip(got).map(|(w, g)| f(f64::from(*w), f64::from(*g))).sum()
    };
    sum(&|w, g| (w - g) * (w - g)) / sum(&|w, _| w * w).max(1e-30)
}

#[test]
fn the_project_s_own_q8_0_model_comes_out_again() {
    // The bundled file was quantized by the public Python package: all matrices, whatever their role.
    let to = scratch("own-q8_0.gguf");
    assert_eq!(quantize(Path::new(&model("f16")), &to, &["q8_0"]).code, 0);
    let (ours, theirs) = (Gguf::open(&to).unwrap(), Gguf::open(model("q8_0")).unwrap());
    let mut compared = 0;
    for tensor in theirs.tensors().filter(|t| t.ggml_type() == GgmlType::Q8_0) {
        let own = ours.tensor(tensor.name()).unwrap();
        assert!(own.bytes().unwrap() == tensor.bytes().unwrap(), "{}", tensor.name());
        compared += 1;
    }
    assert!(compared > 10, "{compared} tensors compared");
}

/// The checksum (FNV-1a) is that of a file which the public Python package quantized, less its embedding table: here and in llama.cpp, that
/// is the output matrix too and has six bits.
#[test]
fn the_blocks_of_q4_0_are_those_of_the_python_package() {
    let to = scratch("own-q4_0.gguf");
    assert_eq!(quantize(Path::new(&model("f16")), &to, &["q4_0"]).code, 0);
    let ours = Gguf::open(&to).unwrap();
    assert_eq!(ours.tensor("token_embd.weight").unwrap().ggml_type(), GgmlType::Q6_K);
    let (mut checksum, mut tensors) = (0xcbf2_9ce4_8422_2325_u64, 0);
    for tensor in ours.tensors().filter(|t| t.ggml_type() == GgmlType::Q4_0) {
        let fold = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        checksum = tensor.bytes().unwrap().iter().fold(checksum, fold);
        tensors += 1;
    }
    assert_eq!((tensors, checksum), (42, 0xfc3e_7b1e_e085_964e));
}

#[test]
fn rows_without_whole_blocks_take_shorter_ones_and_vectors_stay() {
    let (from, to) = scratch_pair("rows");
    small(&from, GgmlType::F32);
    let run = quantize(&from, &to, &["q4_k_m", "--json"]);
    let types: Vec<_> = run.json().iter().map(|line| line["to"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types, ["f32", "q4_k", "q5_0", "f16"]);
    let bytes = run.json()[1]["bytes_after"].as_u64();
    assert_eq!(bytes, Some(2 * 144));
    assert_eq!(Gguf::open(&to).unwrap().tensor("blk.0.ffn_up.weight").unwrap().ggml_type(), GgmlType::Q5_0);
}

#[test]
fn a_dry_run_writes_nothing() {
    let (from, to) = scratch_pair("dry");
    small(&from, GgmlType::F32);
    let run = quantize(&from, &to, &["q6_k", "--dry-run"]);
    assert_eq!(run.code, 0);
    assert!(run.last().ends_with("nothing written"), "{}", run.stdout);
    assert!(!to.exists());
}

#[test]
fn what_cannot_be_quantized_is_refused_and_the_old_file_stays() {
    let (from, to) = scratch_pair("refused");
    std::fs::write(&to, "old").unwrap();
    let blocks = quantize(Path::new(&model("q8_0")), &to, &["q4_k_m"]);
    assert!(blocks.refused().contains("quantizing blocks again"), "{}", blocks.stderr);
    let unknown = quantize(&from, &to, &["q9_k"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("expected one of") && unknown.stderr.contains("q4_k_m"),
        "{}",
        unknown.stderr
    );
    let missing = quantize(&scratch("no such file.gguf"), &to, &["q4_k_m"]);
    assert!(missing.refused().contains("no such file.gguf"), "{}", missing.stderr);
    small(&from, GgmlType::F32);
    let cut = std::fs::read(&from).unwrap();
    std::fs::write(&from, &cut[..cut.len() - 8]).unwrap();
    assert_eq!(quantize(&from, &to, &["q4_k_m"]).code, 2);
    assert_eq!(std::fs::read(&to).unwrap(), b"old");
    let strays = std::fs::read_dir(to.parent().unwrap()).unwrap();
    let of_this = |name: &str| name.ends_with(".tmp") && name.contains("refused-out");
    assert!(!strays.into_iter().any(|f| of_this(&f.unwrap().file_name().to_string_lossy())));
}
