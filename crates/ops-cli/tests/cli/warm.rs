//! `ops warm`, on the stand-in for ROCm.
use crate::{Run, ops, scratch};
use serde_json::Value;
use standin_testing::needed_folder;
use std::path::PathBuf;
use std::process::Command;

/// The bundled model, quantized.
fn model(dtype: &str) -> PathBuf {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-f16.gguf");
    let to = scratch(&format!("warm-{dtype}.gguf"));
    assert_eq!(ops(&["quantize", from, to.to_str().unwrap(), "--type", dtype]).code, 0);
    to
}

fn warm(standin: &PathBuf, cache: &PathBuf, model: &PathBuf, more: &[&str]) -> Run {
    let output = Command::new(env!("CARGO_BIN_EXE_ops"))
        .args(["warm", "--backend", "rocm"])
        .arg(model)
        .args(more)
        .env("OPS_ROCM_PATH", standin)
        .env("OPS_ROCM_CACHE", cache)
        .env("HIP_STANDIN_STRICT", "1")
        .output()
        .expect("the binary runs");
    Run {
        code: output.status.code().expect("it exits"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

fn origins(run: &Run) -> Vec<(String, String)> {
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = |line: &Value, key: &str| line[key].as_str().expect("a text").to_owned();
    run.json().iter().map(|line| (text(line, "unit"), text(line, "origin"))).collect()
}

#[test]
fn it_compiles_what_a_model_uses_in_several_processes_and_keeps_it() {
    let Some(standin) = needed_folder("ops warm") else { return };
    let cache = scratch("warm-cache");
    let _ = std::fs::remove_dir_all(&cache);
    let model = model("q4_0");
    let first = origins(&warm(standin, &cache, &model, &["--json"]));
    let has = |start: &str| first.iter().any(|(unit, _)| unit.starts_with(start));
    for unit in [
        "norm-rms-wave-f16-f32",
        "attention_mma-mma64-f16",
        "attention_decode-head",
        "qlinear",
        "binary-glu-f16",
    ] {
        assert!(has(unit), "{unit} is missing: {first:?}");
    }
    for unit in ["norm-layer", "norm-group", "attention_mma-mma256", "softmax", "unary"] {
        assert!(!has(unit), "{unit} is not used: {first:?}");
    }
    let by = |origin: &str| first.iter().filter(|(_, from)| from == origin).count();
    assert_eq!(by("compiled") + by("compiled by a helper"), first.len(), "{first:?}");
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
        assert!(by("compiled by a helper") > 0, "{first:?}");
    }
    assert_eq!(std::fs::read_dir(&cache).unwrap().count(), first.len(), "one file for each unit");

    let second = origins(&warm(standin, &cache, &model, &["--json"]));
    assert!(second.iter().all(|(_, from)| from == "from the cache"), "{second:?}");
    assert_eq!(second.len(), first.len());
    let text = warm(standin, &cache, &model, &[]);
    let last = format!("{} from the cache; kept in {}", first.len(), cache.display());
    assert!(text.last().ends_with(&last), "{}", text.stdout);
}

#[test]
fn what_is_no_decoder_is_refused_with_the_reason() {
    let path = scratch("not-a-model.gguf");
    std::fs::write(&path, "no model").unwrap();
    let path = path.to_str().unwrap();
    assert!(ops(&["warm", "--backend", "rocm", path]).refused().contains("wanted a GGUF file"));
    assert!(ops(&["warm", path]).refused().contains("add --backend rocm"));
    assert!(ops(&["warm", "--backend", "rocm", "/no/such.gguf"]).refused().contains("/no/such.gguf"));
}
