//! `ops explain`.
use super::ops;
use serde_json::json;

fn explain(args: &[&str]) -> super::Run {
    ops(&[&["explain"], args].concat())
}

#[test]
fn operands_follow_from_the_first() {
    let run = explain(&["rms_norm", "--dtype", "f16", "--shape", "8,4096"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains("x f16 8,4096") && run.stdout.contains("weight f16 4096"), "{}", run.stdout);
    assert!(run.last().contains("cpu") && run.last().contains("taken"), "{}", run.stdout);
}

#[test]
fn given_operands_and_types_are_used() {
    let args = ["attention", "--dtype", "bf16", "--shape", "1,32,1,128", "--shape", "k=1,8,4096,128"];
    let json = explain(&[&args[..], &["--json"]].concat()).json();
    let [line] = &json[..] else { panic!("one candidate") };
    assert_eq!(line["operands"]["v"], json!([1, 8, 4096, 128]));
    assert_eq!((&line["rank"], &line["taken"]), (&json!(1), &json!(true)));
    assert_eq!(line["determinism"], "run", "attention is split by the number of rows");
    assert_eq!(line["shape"], json!([1, 32, 1, 128]));

    let args =
        ["linear", "--dtype", "f32", "--dtype", "weight=f16", "--shape", "1,64", "--shape", "weight=10,64"];
    let json = explain(&[&args[..], &["--backend", "reference", "--json"]].concat()).json();
    assert_eq!((&json[0]["dtype"], &json[0]["backend"]), (&json!("f32,weight=f16"), &json!("reference")));
    assert_eq!(json[0]["operands"]["y"], json!([1, 10]));
}

#[test]
fn nothing_is_allocated() {
    let run = explain(&["linear", "--dtype", "f32", "--shape", "1000000000,65536"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn mistakes_are_explained() {
    let cases: [(&[&str], &str); 9] = [
        (&["nonesuch", "--dtype", "f32", "--shape", "8"], "known: rms_norm"),
        (&["add", "--dtype", "f33", "--shape", "8"], "known: f64, f32"),
        (&["rms_norm", "--dtype", "u8", "--shape", "8"], "available in f16, bf16, f32, f64"),
        (&["rms_norm", "--shape", "8"], "requires --dtype"),
        (&["rms_norm", "--dtype", "f32"], "requires --shape"),
        (&["rope", "--dtype", "f32", "--shape", "8,64"], "expected [b,h,t,d]"),
        (
            &["rms_norm", "--dtype", "f32", "--shape", "8,9", "--shape", "weight=3"],
            "weight has shape [3], expected [9]",
        ),
        (&["add", "--dtype", "f32", "--shape", "8,x9"], "such as 8,4096"),
        (&["copy", "--dtype", "f32", "--shape", "99999999999,99999999999"], "more elements than memory"),
    ];
    for (args, message) in cases {
        let run = explain(args);
        assert!(run.refused().contains(message), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn gpu_names_are_checked() {
    let add = ["add", "--dtype", "f32", "--shape", "8", "--gfx"];
    assert_eq!(explain(&[&add[..], &["gfx942"]].concat()).code, 0);
    assert!(explain(&[&add[..], &["mi300"]].concat()).refused().contains("gfx1100"));
}

#[test]
fn an_absent_gpu_has_candidates_too() {
    let softmax = ["softmax", "--dtype", "bf16", "--shape", "8,4096", "--backend", "rocm"];
    let run = explain(&softmax);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("the answers are for gfx1100"), "{}", run.stderr);
    let line = |name: &str| run.lines().into_iter().find(|l| l.contains(name)).unwrap().to_owned();
    assert!(line("hip").contains("taken") && line("miopen").contains("passed over"), "{}", run.stdout);
    assert!(line("miopen").contains("bf16"), "{}", run.stdout);

    let matmul = ["matmul", "--dtype", "bf16", "--shape", "64,64", "--backend", "rocm", "--json"];
    let taken = |gfx| {
        let run = explain(&[&matmul[..], &["--gfx", gfx]].concat());
        assert_eq!(run.stderr, "");
        run.json().into_iter().find(|l| l["taken"] == json!(true)).unwrap()["provider"].clone()
    };
    assert_eq!((taken("gfx1030"), taken("gfx1100")), (json!("rocblas"), json!("hipblaslt")));
    let support = ops(&["support", "--op", "softmax", "--backend", "rocm"]);
    assert!(support.stdout.contains("hip"), "{}", support.stdout);
}

#[test]
fn convolutions_say_which_kernel_they_take() {
    let args = ["--dtype", "f32", "--shape", "1,64,56,56", "--backend", "rocm", "--gfx", "gfx1100"];
    let line = |op: &str, more: &[&str]| {
        let run = explain(&[&[op], &args[..], more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.lines().into_iter().find(|l| l.contains("hip")).unwrap().to_owned()
    };
    for op in ["conv2d", "conv_transpose2d"] {
        let tiles = line(op, &[]);
        assert!(tiles.contains("taken") && tiles.contains("in tiles of 64 channels"), "{tiles}");
    }
    let few = line("conv2d", &["--shape", "weight=4,64,3,3"]);
    assert!(few.contains("one thread per element"), "{few}");
}

#[test]
fn hipblaslt_computes_bf16_on_gfx1151() {
    let args = ["linear", "--dtype", "bf16", "--shape", "512,4096", "--backend", "rocm", "--gfx", "gfx1151"];
    let run = explain(&args);
    let first = run.lines().into_iter().find(|line| line.contains("hipblaslt")).unwrap().to_owned();
    assert!(first.starts_with("1.") && first.contains("taken"), "{}", run.stdout);
}

#[test]
fn products_of_few_rows_go_to_our_kernels() {
    let taken = |gfx: &str, shape: &str| {
        let run = explain(&[
            "linear",
            "--dtype",
            "f16",
            "--shape",
            shape,
            "--backend",
            "rocm",
            "--json",
            "--gfx",
            gfx,
        ]);
        let lines = run.json();
        let of = |provider: &str| lines.iter().find(|l| l["provider"] == json!(provider)).unwrap().clone();
        (of("hip")["taken"] == json!(true), of("rocblas")["reason"].as_str().unwrap().to_owned())
    };
    let (by_hip, reason) = taken("gfx1100", "1,4096");
    assert!(by_hip && reason.contains("up to 8 rows (product_rows)"), "{reason}");
    assert!(!taken("gfx1100", "512,4096").0);
}
