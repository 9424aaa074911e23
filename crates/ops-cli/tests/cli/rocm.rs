//! The command with the stand-in for ROCm.
use super::{Run, command, finished, scratch};
use serde_json::{Value, json};
use standin_testing::needed_folder;
use std::path::Path;

/// Runs the command on the stand-in, with these variables.
pub(super) fn on_standin(args: &[&str], variables: &[(&str, &str)]) -> Option<Run> {
    let mut command = command(args);
    command.env("OPS_ROCM_PATH", needed_folder("the command")?).env("OPS_ROCM_CACHE", scratch("rocm-cache"));
    Some(finished(command.envs(variables.iter().copied()).output().expect("the binary runs")))
}

#[test]
fn matrix_units_are_checked_by_name() {
    let args = ["test", "--backend", "rocm", "--op", "matrix_units"];
    let Some(run) = on_standin(&args, &[]) else { return };
    assert_eq!((run.code, run.last()), (0, "3 pass, 0 fail, 0 unsupported"), "{}", run.stderr);
    assert!(run.lines()[1].starts_with("matrix_units "), "{}", run.stdout);

    let rows = on_standin(&[&args[..], &["--json"]].concat(), &[]).unwrap().json();
    let dtypes: Vec<_> = rows[..3].iter().map(|row| row["dtype"].as_str().unwrap()).collect();
    assert_eq!(dtypes, ["f16", "bf16", "i8"]);
    assert!(rows[..3].iter().all(|row| row["op"] == "matrix_units" && row["pass"] == 1));

    // A check that cannot run is a failure, but does not end the report.
    let path = scratch("matrix-units.json");
    let report = ["--report", path.to_str().unwrap()];
    let broken = [("HIP_STANDIN_FAIL", "hipModuleLaunchKernel:1+")];
    let run = on_standin(&[&args[..], &report].concat(), &broken).unwrap();
    assert_eq!((run.code, run.last()), (1, "0 pass, 1 fail, 0 unsupported"), "{}", run.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!((&report["complete"], &report["total"]["fail"]), (&json!(true), &json!(1)));
    assert!(report["failures"][0]["message"].as_str().unwrap().contains("hipModuleLaunchKernel"), "{report}");

    let run = on_standin(&args, &[("HIP_STANDIN_GFX", "gfx1030")]).unwrap();
    assert_eq!((run.code, run.last()), (0, "0 pass, 0 fail, 0 unsupported"), "{}", run.stderr);
    assert!(run.stderr.contains("rocm has no matrix units"), "{}", run.stderr);
}

#[test]
fn without_a_device_the_report_and_the_survey_say_why() {
    let path = scratch("no-device-standin.json");
    let _ = std::fs::remove_file(&path);
    let environment = [
        ("HIP_STANDIN_DEVICES", "none"),
        ("OPS_ROCM_KERNELS", "aot"),
        ("HSA_OVERRIDE_GFX_VERSION", "11.0.0"),
    ];
    let args = ["test", "--backend", "rocm", "--op", "neg", "--report", path.to_str().unwrap()];
    let Some(run) = on_standin(&args, &environment) else { return };
    assert!(run.refused().contains("no AMD GPU: "), "{}", run.stderr);
    let report: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert!(report["error"].as_str().unwrap().contains("no AMD GPU: "), "{report}");
    let warnings: Vec<_> = report["rocm"]["warnings"].as_array().unwrap().iter().collect();
    let warned = |part: &str| warnings.iter().any(|warning| warning.as_str().unwrap().contains(part));
    for part in ["no AMD GPU: ", "HSA_OVERRIDE_GFX_VERSION is 11.0.0", "OPS_ROCM_KERNELS=aot"] {
        assert!(warned(part), "{part}: {warnings:?}");
    }

    // HIP is not needed for this either.
    let info = command(&["info"]).envs(environment).output().expect("the binary runs");
    let text = finished(info).stdout;
    assert!(
        text.contains("HSA_OVERRIDE_GFX_VERSION is 11.0.0") && text.contains("OPS_ROCM_KERNELS=aot"),
        "{text}"
    );
}

#[test]
fn a_process_that_dies_has_shown_what_it_did() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let file = |name: &str| golden.join(name).display().to_string();
    let (fine, deadly) = (file("080-neg-f32-7.safetensors"), file("077-silu-f32-7.safetensors"));
    let dies = [
        ("HIP_STANDIN_REPLACE", "return x * sigmoid(x); }=>__builtin_trap(); }"),
        ("HIP_STANDIN_FAULT", "abort"),
        ("OPS_ROCM_POLICY", "*=hip"),
        ("OPS_ROCM_CACHE", ""),
    ];
    let args = ["replay", "--backend", "rocm", "--progress", &fine, &deadly];
    let Some(run) = on_standin(&args, &dies) else { return };
    assert_eq!((run.code, run.lines().len()), (-1, 1), "{}{}", run.stdout, run.stderr);
    assert!(run.lines()[0].starts_with("neg f32 [7] ok"), "{}", run.stdout);
    assert!(run.stderr.lines().any(|line| line == deadly), "{}", run.stderr);

    let args = ["test", "--backend", "rocm", "--op", "silu", "--progress"];
    let run = on_standin(&args, &dies).unwrap();
    assert_eq!(run.code, -1, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.lines().any(|line| line.starts_with("silu(dtype=")), "{}", run.stderr);
}

#[test]
fn the_providers_of_a_trace_are_measured_and_explained() {
    let folder = scratch("measured");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (trace, cache) = (folder.join("run.optrace"), folder.join("cache"));
    let (trace, cache) = (trace.to_str().unwrap(), cache.to_str().unwrap());
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-f16.gguf");
    let run = super::ops(&["trace", model, "--out", trace, "--tokens", "0", "--prompt-ids", "1,2,3"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let tune = ["tune", "--backend", "rocm", "--trace", trace, "--op", "linear", "--budget-ms", "20"];
    let variables = [("OPS_ROCM_CACHE", cache)];
    let Some(run) = on_standin(&tune, &variables) else { return };
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.last().starts_with("stored in "), "{}", run.stdout);
    assert!(run.stdout.contains("x f16 [rows<=4, ") && run.stdout.contains("rocblas "), "{}", run.stdout);
    let line = run.lines().into_iter().find(|line| line.contains("weight f16 [")).unwrap().to_owned();
    let weight = line.split("weight f16 [").nth(1).unwrap().split(']').next().unwrap().replace(' ', "");
    let columns = weight.split(',').nth(1).unwrap().to_owned();
    let (x, weight) = (format!("3,{columns}"), format!("weight={weight}"));
    let explain =
        ["explain", "--backend", "rocm", "linear", "--dtype", "f16", "--shape", &x, "--shape", &weight];
    let run = on_standin(&explain, &variables).unwrap();
    assert!(
        run.stdout.contains("the fastest") && run.stdout.contains("measured: "),
        "{line}\n{}",
        run.stdout
    );
    let off = [variables[0], ("OPS_ROCM_TUNED", "off")];
    let run = on_standin(&explain, &off).unwrap();
    assert!(!run.stdout.contains("measured: "), "{}", run.stdout);
}
