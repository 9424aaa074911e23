//! `ops bench`, on small problems.
use super::ops;
use std::collections::BTreeSet;

fn bench(args: &[&str]) -> super::Run {
    ops(&[&["bench", "--quick"], args].concat())
}

#[test]
fn json_has_every_number() {
    let run = bench(&["--op", "add,softmax", "--sizes", "1K,2K", "--json"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let rows = run.json();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        for key in ["ns", "gbps", "gflops", "ceiling", "percent"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key} in {row}");
        }
        assert_eq!(
            (&row["dtype"], &row["backend"], &row["provider"]),
            (&"f32".into(), &"cpu".into(), &"cpu".into())
        );
        assert!(row["limit"] == "bandwidth" || row["limit"] == "compute");
        assert!(row["checked"].as_u64().unwrap() >= 256);
        let bytes: u64 = if row["op"] == "add" { 3 } else { 2 }
            * row["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap()).product::<u64>()
            * 4;
        assert_eq!(row["bytes"].as_u64(), Some(bytes));
        let gbps = bytes as f64 / row["ns"].as_f64().unwrap();
        assert!((gbps - row["gbps"].as_f64().unwrap()).abs() <= 0.01 * gbps + 0.001);
    }
}

#[test]
fn text_is_a_table_with_the_ceilings_below() {
    let run = bench(&["--op", "rms_norm", "--sizes", "4K", "--dtype", "f16,bf16", "--backend", "reference"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let lines = run.lines();
    assert!(lines[0].starts_with("op") && lines[0].ends_with("limit"), "{}", lines[0]);
    let columns = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(columns(lines[1])[..4], ["rms_norm", "f16", "1,2048", "reference"]);
    assert_eq!(columns(lines[2])[1], "bf16");
    assert!(run.last().starts_with("ceilings: 1 thread; f32 multiply-add "), "{}", run.last());
}

#[test]
fn rows_name_operands_of_other_types() {
    let rows = bench(&["--op", "quantize,dequantize,qembedding,cast", "--sizes", "1K", "--json"]).json();
    let dtypes: BTreeSet<_> = rows.iter().map(|r| r["dtype"].as_str().unwrap().to_owned()).collect();
    for dtype in ["f32,y=q4_0", "f32,x=q8_0", "f32,table=q8_0", "bf16,y=f32"] {
        assert!(dtypes.contains(dtype), "{dtype} in {dtypes:?}");
    }
}

#[test]
fn shapes_are_given_and_calls_rotate_through_memory() {
    let shapes = ["--shape", "1,256", "--shape", "weight=8,1", "--rotate", "64K", "--json"];
    let rows = bench(&[&["--op", "qlinear", "--dtype", "q4_k"], &shapes[..]].concat()).json();
    assert_eq!(rows.len(), 1);
    assert_eq!((&rows[0]["shape"], &rows[0]["dtype"]), (&[1, 256][..].into(), &"f32,weight=q4_k".into()));
    assert!(rows[0]["ns"].as_f64().unwrap() > 0.0 && rows[0]["checked"].as_u64() == Some(8));
    // One set of operands; the weight implies four groups.
    let shapes = ["--shape", "1,4,9,9", "--shape", "weight=4,1,3,3", "--json"];
    let alone = bench(&[&["--op", "conv2d", "--dtype", "f32"], &shapes[..]].concat()).json();
    assert_eq!(alone[0]["flops"].as_f64(), Some(4.0 * 81.0 * 9.0 * 2.0));
}

#[test]
fn mistakes_are_explained() {
    let alone = bench(&["--shape", "4,4"]);
    assert!(alone.code == 2 && alone.stderr.contains("--op"), "{}", alone.stderr);
    assert!(bench(&["--op", "add", "--shape", "c=4,4"]).refused().contains("reads no operand `c`"));
    assert!(bench(&["--op", "add", "--shape", "4", "--rotate", "much"]).refused().contains("not a size"));
    assert!(bench(&["--op", "nonesuch"]).refused().contains("known: rms_norm"));
    assert!(bench(&["--sizes", "1T"]).refused().contains("256M"));
    assert!(bench(&["--dtype", "f33"]).refused().contains("known: f64"));
    assert!(bench(&["--dtype", "f16,weight=q4_k"]).refused().contains("require --op"));
    assert!(bench(&["--op", "rms_norm", "--dtype", "u8"]).refused().contains("no op to time"));
}
