//! `ops replay`.
use super::{ops, scratch};
use serde_json::json;
use std::path::{Path, PathBuf};

fn golden(part: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let entries = std::fs::read_dir(folder).expect("golden cases");
    let paths = entries.map(|e| e.expect("an entry").path().display().to_string());
    let mut paths: Vec<_> = paths.filter(|p| p.contains(part)).collect();
    paths.sort();
    paths
}

/// Writes a case of `op` on zeros with the result `want`.
pub(super) fn silu_of_zeros(name: &str, op: &str, want: [f64; 2]) -> PathBuf {
    case(name, op, "{}", "in.x", want)
}

/// Writes a case of an op whose one input is zeros.
fn case(name: &str, op: &str, params: &str, input: &str, want: [f64; 2]) -> PathBuf {
    let header = json!({
        "__metadata__": {"op": op, "dtype": "f32", "params": params, "limit.y": "1e-11"},
        input: {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
        "out.y": {"dtype": "F64", "shape": [1, 2], "data_offsets": [8, 24]},
    });
    let mut header = header.to_string();
    header += &" ".repeat(header.len().next_multiple_of(8) - header.len());
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend([0; 8]);
    want.iter().for_each(|v| file.extend(v.to_le_bytes()));
    let path = scratch(name);
    std::fs::write(&path, file).expect("a scratch file");
    path
}

fn replay(flags: &[&str], files: &[String]) -> super::Run {
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    ops(&[&["replay"], flags, &files].concat())
}

fn text(path: &Path) -> Vec<String> {
    vec![path.display().to_string()]
}

#[test]
fn every_recorded_case_of_an_op_is_a_line() {
    let files = golden("-rms_norm-");
    for backend in ["cpu", "reference"] {
        let run = replay(&["--strict", "--backend", backend], &files);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
        assert_eq!(run.lines().len(), files.len() + 1);
        for line in &run.lines()[..files.len()] {
            let words: Vec<_> = line.split(' ').collect();
            let [op, dtype, shape, status, "nmse", nmse, "limit", limit] = words[..] else {
                panic!("{line}")
            };
            assert_eq!((op, status), ("rms_norm", "ok"));
            assert!(["f16", "bf16", "f32", "f64"].contains(&dtype) && shape.starts_with('['), "{line}");
            assert!(nmse.parse::<f64>().unwrap() <= limit.parse::<f64>().unwrap(), "{line}");
        }
        assert_eq!(run.last(), format!("{} ok, 0 fail, 0 unsupported, 0 error", files.len()));
    }
}

#[test]
fn json_is_an_object_a_line() {
    let files = golden("-softmax-f32-");
    let lines = replay(&["--json"], &files).json();
    let (counts, cases) = lines.split_last().unwrap();
    assert_eq!(cases.len(), files.len());
    assert!(cases.iter().all(|c| c["op"] == "softmax" && c["status"] == "ok" && c["shape"].is_array()));
    assert_eq!(counts, &json!({"schema": 1, "ok": files.len(), "fail": 0, "unsupported": 0, "error": 0}));
}

#[test]
fn a_wrong_result_ends_with_1() {
    let right = silu_of_zeros("right.safetensors", "silu", [0.0, 0.0]);
    let run = replay(&[], &text(&right));
    assert_eq!((run.code, run.last()), (0, "1 ok, 0 fail, 0 unsupported, 0 error"), "{}", run.stdout);

    let wrong = silu_of_zeros("wrong.safetensors", "silu", [0.0, 0.5]);
    let run = replay(&[], &text(&wrong));
    assert_eq!((run.code, run.last()), (1, "0 ok, 1 fail, 0 unsupported, 0 error"));
    assert!(run.lines()[0].starts_with("silu f32 [1,2] fail nmse "), "{}", run.stdout);
}

#[test]
fn unsupported_counts_only_if_strict() {
    let path = silu_of_zeros("unknown.safetensors", "nonesuch", [0.0, 0.0]);
    let run = replay(&[], &text(&path));
    assert_eq!((run.code, run.last()), (0, "0 ok, 0 fail, 1 unsupported, 0 error"), "{}", run.stdout);
    assert!(run.lines()[0].starts_with("nonesuch f32 [1,2] unsupported "));
    assert_eq!(replay(&["--strict"], &text(&path)).code, 1);
}

#[test]
fn cases_with_unknown_parts_are_not_run() {
    let fill = |name, params, input| case(name, "fill", params, input, [0.0, 0.0]);
    let parameter = case("parameter.safetensors", "silu", r#"{"beta": 2.0}"#, "in.x", [0.0, 0.0]);
    let operand = fill("operand.safetensors", r#"{"value": 0.0}"#, "in.pattern");
    let run = replay(&[], &[text(&parameter), text(&operand)].concat());
    assert_eq!((run.code, run.last()), (0, "0 ok, 0 fail, 2 unsupported, 0 error"), "{}", run.stdout);
    let lines = [
        "silu f32 [1,2] unsupported `silu` of this build has no parameter `beta`",
        "fill f32 [1,2] unsupported `fill` of this build has no operand `pattern`",
    ];
    assert_eq!(run.lines()[..2], lines);
    assert_eq!(replay(&["--strict"], &text(&operand)).code, 1);
}

#[test]
fn unreadable_files_end_with_2_and_the_others_are_replayed() {
    let garbage = scratch("garbage.safetensors");
    std::fs::write(&garbage, [0xff; 64]).expect("a scratch file");
    let right = silu_of_zeros("right-too.safetensors", "silu", [0.0, 0.0]);
    let missing = scratch("missing.safetensors");
    for unreadable in [garbage, missing, PathBuf::from(env!("CARGO_TARGET_TMPDIR"))] {
        let run = replay(&[], &[text(&unreadable), text(&right)].concat());
        assert_eq!((run.code, run.last()), (2, "1 ok, 0 fail, 0 unsupported, 0 error"), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1);
        assert!(run.stderr.contains(&unreadable.display().to_string()), "{}", run.stderr);
    }
}
