//! `ops trace`, and `ops replay` on its output.
use super::rocm::on_standin;
use super::{Run, ops, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn repository(path: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).display().to_string()
}

/// Traces a short run of a model.
fn trace(model: &str, name: &str, more: &[&str]) -> (PathBuf, Run) {
    let (model, out) = (repository(model), scratch(name));
    let args = ["trace", &model, "--out", out.to_str().unwrap(), "--prompt-ids", "3,1,2", "--tokens", "2"];
    let run = ops(&[&args[..], more].concat());
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{model}");
    (out, run)
}

/// The rows of a replay, and its counts.
fn rows(run: &Run) -> (Vec<Value>, Value) {
    let mut rows = run.json();
    let counts = rows.pop().expect("the counts");
    (rows, counts)
}

fn family(name: &str) -> String {
    format!("tests/data/families/{name}.gguf")
}

#[test]
fn families_are_traced_and_replayed() {
    // Together they use latent attention, sinks, windows, softcaps, experts, biases, both kinds of norms and many formats.
    let cases: [(&str, &str, &[&str]); 6] = [
        ("llama-Q4_K_M", "f16", &["qlinear", "qembedding", "rope_qk_cache_write", "add_rms_norm"]),
        ("gemma3-f16", "bf16", &["linear", "affine_inplace", "rms_norm", "geglu", "attention"]),
        ("gpt-oss-MXFP4", "f32", &["router_topk", "qlinear_experts", "swiglu_clamped", "combine_experts"]),
        ("deepseek-v3-f16", "f32", &["linear_experts", "router_topk", "copy"]),
        ("starcoder2-f16", "f32", &["layer_norm", "gelu", "add"]),
        ("stablelm-parallel-f16", "f16", &["rope_qk_cache_write", "linear_swiglu", "cast"]),
    ];
    for (name, dtype, ops_used) in cases {
        for inputs in [&[][..], &["--inputs"]] {
            let (file, _) =
                trace(&family(name), &format!("{name}.optrace"), &[&["--dtype", dtype], inputs].concat());
            let run = ops(&["replay", "--strict", "--json", file.to_str().unwrap()]);
            let (rows, counts) = rows(&run);
            assert_eq!(run.code, 0, "{name} {inputs:?}: {}", run.stdout);
            assert_eq!(counts["ok"], json!(rows.len()), "{name}: {counts}");
            for op in ops_used {
                assert!(rows.iter().any(|row| row["op"] == *op), "{name} has no {op}");
            }
        }
    }
}

/// The trace of a step that draws its token from NaN is not written.
#[test]
fn logits_that_are_nan_are_an_error() {
    let from = repository("models/tiny-llama-kjv-f16.gguf");
    let gguf = ops_gguf::Gguf::open(&from).unwrap();
    let table = gguf.tensor("token_embd.weight").unwrap().bytes().unwrap();
    let mut bytes = std::fs::read(&from).unwrap();
    let start = bytes.windows(4096).position(|part| part == &table[..4096]).unwrap();
    // Id 1, which is no token of the prompt: the table is also the output matrix.
    let width = table.len() / gguf.tensor("token_embd.weight").unwrap().dims()[0];
    bytes[start + width..][..width].fill(0x7e);
    let (model, out) = (scratch("nan.gguf"), scratch("nan.optrace"));
    std::fs::write(&model, bytes).unwrap();
    let (model, out) = (model.to_str().unwrap(), out.to_str().unwrap());
    let run = ops(&["trace", model, "--out", out, "--prompt-ids", "3,4", "--tokens", "1"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("after the token at position 1, the logit of id 1 is NaN"), "{}", run.stderr);
    assert!(!Path::new(out).exists());
}

#[test]
fn a_folder_is_traced_too() {
    let (file, run) = trace("tests/data/folders/qwen3", "folder.optrace", &["--json"]);
    let [line] = &run.json()[..] else { panic!("one object") };
    assert_eq!(line["bytes"], json!(std::fs::metadata(&file).unwrap().len()));
    assert_eq!(line["not_recorded"], json!([]));
    assert!(line["calls"].as_u64() > line["distinct"].as_u64(), "{line}");
}

#[test]
fn a_replay_is_a_table_of_the_run() {
    let (file, _) = trace("models/tiny-llama-kjv-q8_0.gguf", "table.optrace", &["--inputs"]);
    let file = file.to_str().unwrap();
    let run = ops(&["replay", file]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let head: Vec<_> = run.lines()[0].split_whitespace().collect();
    assert_eq!(head, ["op", "dtype", "shape", "calls", "time", "share", "floor", "error/limit", "verdict"]);
    assert!(run.last().ends_with(" ok, 0 fail, 0 unsupported, 0 error"), "{}", run.stdout);
    // The down projections of six layers in the prompt. Those of a step have a separate row.
    let words = |line: &&str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let lines = run.lines();
    let down = lines.iter().map(words).find(|words| words.get(2).is_some_and(|shape| shape == "3,768"));
    let down = down.unwrap_or_else(|| panic!("{}", run.stdout));
    assert_eq!(down[..5], ["qlinear", "f16,weight=q8_0", "3,768", "weight=256,24", "6"]);

    let (rows, _) = rows(&ops(&["replay", "--json", file]));
    let share: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
    assert!((share - 100.0).abs() < 0.1, "{share}");
    for row in &rows {
        assert!(row["ns"].as_f64() > Some(0.0) && row["floor_ns"].as_f64() > Some(0.0), "{row}");
        assert!(row["checked"].as_u64() > Some(0) && row["provider"] == "cpu", "{row}");
        assert!(row["nmse"].as_f64() <= row["limit"].as_f64(), "{row}");
    }
    let totals: Vec<_> = rows.iter().map(|row| row["total_ns"].as_f64().unwrap()).collect();
    assert!(totals.is_sorted_by(|a, b| a >= b), "{totals:?}");
}

#[test]
fn traces_and_golden_cases_are_counted_together() {
    let (file, _) = trace(&family("llama-Q4_K_M"), "together.optrace", &[]);
    let golden = repository("tests/golden/080-neg-f32-7.safetensors");
    let (_, alone) = rows(&ops(&["replay", "--json", file.to_str().unwrap()]));
    let run = ops(&["replay", "--backend", "reference", file.to_str().unwrap(), &golden]);
    let ok = alone["ok"].as_u64().unwrap() + 1;
    assert_eq!((run.code, run.last()), (0, &*format!("{ok} ok, 0 fail, 0 unsupported, 0 error")));
}

#[test]
fn rocm_is_checked_and_a_wrong_kernel_is_caught() {
    let (file, _) = trace(&family("llama-Q4_K_M"), "rocm.optrace", &["--inputs"]);
    let args = ["replay", "--backend", "rocm", "--json", file.to_str().unwrap()];
    let Some(run) = on_standin(&args, &[]) else { return };
    let (found, counts) = rows(&run);
    assert_eq!((run.code, &counts["fail"], &counts["error"]), (0, &json!(0), &json!(0)), "{}", run.stdout);
    assert!(found.iter().any(|row| row["op"] == "qlinear" && row["provider"] == "hip"), "{}", run.stdout);

    let wrong = [
        ("HIP_STANDIN_REPLACE", "return gate * sigmoid(gate) * up; }=>return gate * sigmoid(gate) + up; }"),
        ("OPS_ROCM_CACHE", ""),
    ];
    let run = on_standin(&args, &wrong).unwrap();
    let (found, _) = rows(&run);
    assert_eq!(run.code, 1, "{}", run.stdout);
    let failed: Vec<_> = found.iter().filter(|row| row["status"] == "fail").collect();
    let gated = |row: &&Value| row["op"].as_str().unwrap().ends_with("swiglu");
    assert!(!failed.is_empty() && failed.iter().all(gated), "{}", run.stdout);
    assert!(failed[0]["reason"].as_str().unwrap().contains("the reference has"), "{}", failed[0]);
}

#[test]
fn nothing_half_written_is_left() {
    let folder = scratch("half-written");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let out = folder.join("run.optrace");
    let (model, out) = (repository(&family("llama-f16")), out.to_str().unwrap());
    let run = ops(&["trace", &model, "--out", out, "--prompt-ids", "99999999"]);
    assert!(
        run.refused().contains("--prompt-ids has 99999999, but the model's ids are below"),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert!(ops(&["trace", &model, "--out", out, "--backend", "rocm"]).refused().contains("on the CPU"));
    assert!(ops(&["trace", "/no/such.gguf", "--out", out]).refused().contains("/no/such.gguf"));
}

/// A trace of one call that runs once.
fn handmade(name: &str, call: &Value) -> String {
    let path = scratch(name);
    let records =
        [json!({"call": call}), json!({"run": [0]}), json!({"end": {"calls": 1, "not_recorded": []}})];
    let lines: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(&path, format!("{{\"optrace\":1,\"about\":{{}}}}\n{lines}")).unwrap();
    path.display().to_string()
}

fn operand(name: &str, dtype: &str, shape: &[u64]) -> Value {
    json!({"name": name, "dtype": dtype, "shape": shape})
}

#[test]
fn what_is_wrong_with_a_call_is_named() {
    let (x, y) = (operand("x", "f32", &[2, 3]), operand("y", "f32", &[2, 3]));
    let call = |op: &str, options: Value, operands: &[&Value]| json!({"op": op, "dtype": "f32", "options": options, "operands": operands});
    let lookup = |ids: Value| {
        let (table, y) = (operand("x", "f32", &[4, 3]), operand("y", "f32", &[2, 3]));
        let mut operand = operand("ids", "u32", &[2]);
        operand.as_object_mut().unwrap().extend(ids.as_object().unwrap().clone());
        call("index_select", json!({"axis": 0}), &[&table, &operand, &y])
    };
    let mut overlapping = operand("y", "f32", &[2, 3]);
    overlapping["strides"] = json!([0, 1]);
    let huge = [operand("x", "f32", &[1 << 40]), operand("y", "f32", &[1 << 40])];
    let mut repeated = operand("x", "f32", &[1 << 40]);
    repeated["strides"] = json!([0]);
    let cases = [
        (call("neg", json!({}), &[&x, &y]), "ok", ""),
        (lookup(json!({"values": [3, 0]})), "ok", ""),
        (lookup(json!({"bounds": [1, 3]})), "ok", ""),
        (call("nonesuch", json!({}), &[&x, &y]), "unsupported", "`nonesuch` is not an op of this build"),
        (call("neg", json!({"beta": 1}), &[&x, &y]), "unsupported", "no parameter `beta`"),
        (call("neg", json!({}), &[&x, &y, &operand("z", "f32", &[1])]), "unsupported", "no operand `z`"),
        (call("neg", json!({}), &[&x]), "error", "neg requires an operand `y`"),
        (call("neg", json!({}), &[&x, &operand("y", "f32", &[3, 2])]), "error", "neg: y has shape [3, 2]"),
        (call("neg", json!({}), &[&x, &operand("y", "f16", &[2, 3])]), "error", "neg: y is of f16"),
        (call("neg", json!({}), &[&x, &overlapping]), "error", "overlaps itself"),
        (call("rms_norm", json!({}), &[&x, &y]), "error", "`eps` is missing"),
        (call("softmax", json!({"axis": "last"}), &[&x, &y]), "error", "`axis` is \"last\", wanted an axis"),
        (
            call("neg", json!({}), &[&huge[0], &huge[1]]),
            "error",
            "more than the 4294967296 that --memory allows",
        ),
        (call("sum", json!({}), &[&repeated, &operand("y", "f32", &[])]), "error", "that --memory allows"),
        (lookup(json!({})), "error", "`ids` is of u32, wanted its values or bounds"),
        (lookup(json!({"values": [4, 0]})), "error", "index"),
    ];
    for (call, status, want) in cases {
        let run = ops(&["replay", "--json", &handmade("call.optrace", &call)]);
        let (rows, counts) = rows(&run);
        let reason = rows[0]["reason"].as_str().unwrap_or_default();
        assert_eq!((&rows[0]["status"], &counts[status]), (&json!(status), &json!(1)), "{call}: {reason}");
        assert!(reason.contains(want), "{reason}\nwanted {want}");
        assert_eq!(run.code, i32::from(status == "error"));
    }
    let unknown = handmade("unknown.optrace", &call("nonesuch", json!({}), &[&x, &y]));
    assert_eq!(ops(&["replay", "--strict", &unknown]).code, 1);
    let small = handmade("small.optrace", &call("neg", json!({}), &[&x, &y]));
    assert_eq!(ops(&["replay", "--memory", "10", &small]).code, 1);
}

#[test]
fn damaged_files_are_refused_and_the_others_replayed() {
    let (x, y) = (operand("x", "f32", &[2]), operand("y", "f32", &[2]));
    let call = json!({"op": "neg", "dtype": "f32", "options": {}, "operands": [x, y]});
    let whole = handmade("whole.optrace", &call);
    let bytes = std::fs::read(&whole).unwrap();
    let damaged = |name: &str, bytes: &[u8]| {
        let path = scratch(name);
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let cases = [
        (damaged("cut.optrace", &bytes[..bytes.len() - 9]), "record 4: it is truncated"),
        (damaged("other.optrace", b"GGUF"), "is not a trace"),
        (damaged("version.bin", b"{\"optrace\":9,\"about\":{}}\n"), "is a trace of version 9"),
    ];
    for (file, want) in cases {
        let run = ops(&["replay", &file, &whole]);
        assert_eq!((run.code, run.last()), (2, "1 ok, 0 fail, 0 unsupported, 0 error"), "{}", run.stderr);
        assert!(run.stderr.contains(want) && run.stderr.contains(&file), "{}", run.stderr);
    }
}
