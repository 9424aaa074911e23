//! `ops test`.
use super::{ops, scratch};
use serde_json::{Value, json};

#[test]
fn an_op_passes_and_is_reported() {
    let path = scratch("report.json");
    let run = ops(&["test", "--op", "copy", "--report", path.to_str().unwrap()]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let words: Vec<_> = run.last().split(' ').collect();
    let [pass, "pass,", "0", "fail,", "0", "unsupported"] = words[..] else { panic!("{}", run.last()) };
    assert!(run.lines()[0].starts_with("op ") && run.lines()[1].starts_with("copy "), "{}", run.stdout);

    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&report["backend"], &report["version"]), (&json!("cpu"), &json!(env!("CARGO_PKG_VERSION"))));
    assert!(report["machine"]["cpu"].is_string() && report["machine"]["threads"].is_u64());
    assert_eq!(report["total"]["pass"].to_string(), pass);
    let ops = report["ops"].as_array().unwrap();
    assert!(ops.iter().all(|row| row["op"] == "copy" && row["dtype"].is_string() && row["fail"] == 0));
    let sum: u64 = ops.iter().map(|row| row["pass"].as_u64().unwrap()).sum();
    assert_eq!(sum.to_string(), pass);
    assert_eq!(report["failures"], json!([]));
    assert_eq!((&report["running"], &report["complete"]), (&Value::Null, &json!(true)));
    assert!(report.get("rocm").is_none(), "the CPU needs no libraries");
    assert_eq!(report["timings"][0]["op"], "copy");
    assert!(report["timings"][0]["seconds"].as_f64().unwrap() > 0.0);
}

/// Rows keep their bits on the CPU, and the report says how many calls were compared.
#[test]
fn rows_are_compared_with_smaller_calls() {
    let path = scratch("rows.json");
    let run = ops(&["test", "--rows", "--op", "linear", "--report", path.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stdout);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let compared = report["compared"].as_u64().unwrap();
    assert!(compared > 100, "{compared} calls");
    assert!(
        run.stdout.contains(&format!("{compared} calls with fewer rows were compared")),
        "{}",
        run.stdout
    );
    assert!(ops(&["test", "--rows", "--op", "matrix_units"]).refused().contains("is not an op"));
}

#[test]
fn json_is_an_object_a_line() {
    let lines = ops(&["test", "--op", "neg", "--backend", "reference", "--json"]).json();
    let (total, rows) = lines.split_last().unwrap();
    assert!(rows.len() >= 4 && rows.iter().all(|row| row["op"] == "neg" && row["unsupported"] == 0));
    assert!(total["pass"].as_u64().unwrap() > 0 && total["fail"] == 0);
}

#[test]
fn mistakes_are_reported_before_anything_runs() {
    assert!(ops(&["test", "--op", "nonesuch"]).refused().contains("known: rms_norm"));
    let run = ops(&["test", "--report", "/nonexistent/folder/report.json"]);
    assert!(run.refused().contains("/nonexistent/folder/report.json"));
}

#[test]
fn a_device_that_cannot_be_opened_is_reported() {
    let path = scratch("no-device.json");
    let _ = std::fs::remove_file(&path);
    let run = ops(&["test", "--backend", "rocm", "--report", path.to_str().unwrap()]);
    if run.code != 2 {
        return; // this machine has an AMD GPU
    }
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let said = run.refused().strip_prefix("ops: ").unwrap();
    assert_eq!((&report["error"], &report["complete"]), (&json!(said), &json!(false)));
    assert_eq!((&report["backend"], &report["running"]), (&json!("rocm"), &Value::Null));
    assert!(report["rocm"]["libraries"].is_array() && report["machine"]["cpu"].is_string());
}

#[test]
fn each_case_is_named_before_it_runs() {
    let run = ops(&["test", "--op", "neg", "--progress"]);
    let cases =
        run.stderr.lines().filter(|line| line.starts_with("neg(") || line.starts_with("neg_inplace("));
    let pass: usize = run.last().split(' ').next().unwrap().parse().unwrap();
    assert_eq!(cases.count(), pass, "{}", run.stderr);
}

#[test]
fn a_host_has_no_matrix_units() {
    let run = ops(&["test", "--op", "matrix_units"]);
    assert_eq!((run.code, run.last()), (0, "0 pass, 0 fail, 0 unsupported"), "{}", run.stderr);
    assert!(run.stderr.contains("cpu has no matrix units"), "{}", run.stderr);
}
