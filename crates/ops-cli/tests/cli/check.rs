//! `ops check`: reports of every kind of machine that the stand-in can be.
use super::rocm::on_standin;
use super::{Run, command, finished, ops, scratch};
use serde_json::{Value, json};
use standin_testing::{Scratch, have_compiler};
use std::path::PathBuf;

/// A folder for one report.
fn folder(name: &str) -> PathBuf {
    let folder = scratch(&format!("check-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// A report, and the page beside it.
fn report(folder: &std::path::Path) -> (Value, String) {
    let text = |name| std::fs::read_to_string(folder.join(name)).unwrap();
    (serde_json::from_str(&text("report.json")).unwrap(), text("report.md"))
}

/// The names and states of the steps that ran.
fn steps(report: &Value) -> Vec<(&str, &str)> {
    let steps = report["steps"].as_array().unwrap().iter();
    let steps = steps.map(|step| (step["name"].as_str().unwrap(), step["state"].as_str().unwrap()));
    steps.filter(|(_, state)| *state != "not_run").collect()
}

/// Checks ops on the stand-in with these variables and options, and returns how it ended.
fn checked(name: &str, options: &[&str], variables: &[(&str, &str)]) -> Option<(Run, Value, String)> {
    let folder = folder(name);
    let all = ["check", "--out", folder.to_str().unwrap()];
    let run = on_standin(&[&all[..], options].concat(), variables)?;
    let (report, page) = report(&folder);
    Some((run, report, page))
}

const ONE_OP: [&str; 4] = ["--op", "neg", "--skip", "matrix_units,tokens,bench"];

#[test]
fn level_0_looks_at_the_system_only() {
    let folder = folder("0");
    let start = std::time::Instant::now();
    let run = ops(&["check", "--level", "0", "--out", folder.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(start.elapsed().as_secs() < 2);
    let (report, page) = report(&folder);
    assert_eq!(
        (&report["schema"], &report["level"], &report["running"]),
        (&json!(1), &json!(0), &Value::Null)
    );
    assert_eq!(report["steps"], json!([]));
    assert!(report["system"]["machine"]["threads"].as_u64().unwrap() > 0);
    assert!(
        run.stdout.starts_with(&page) && page.starts_with("# ops check, level 0: nothing was run on a card")
    );
}

#[test]
fn without_rocm_there_is_a_report_that_says_so() {
    let folder = folder("absent");
    let run = ops(&["check", "--out", folder.to_str().unwrap()]);
    let (report, page) = report(&folder);
    if steps(&report).len() > 1 {
        return; // This machine has a card.
    }
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert_eq!(report["verdict"], "no card can be used");
    assert!(page.contains("cannot load the HIP runtime"), "{page}");
}

#[test]
fn a_card_that_is_right_has_a_report_with_every_step() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-f16.gguf");
    let options = ["--op", "neg", "--model", model];
    let Some((run, report, page)) = checked("right", &options, &[]) else { return };
    assert_eq!(run.code, 0, "{}{page}", run.stderr);
    let names = ["survey", "matrix_units", "tokens", "tokens on the CPU", "bench", "neg"];
    assert_eq!(steps(&report), names.map(|name| (name, "ok")));
    assert_eq!(report["verdict"], "all that ran is right");
    assert!(report["bench"].as_array().unwrap().len() >= 3, "{}", report["bench"]);
    assert!(page.contains("| rms_norm |") && page.contains("gfx"), "{page}");
}

/// A single card has no links, nor has one beside an integrated GPU.
#[test]
fn two_cards_are_checked_together() {
    let two = ("HIP_STANDIN_DEVICES", "gfx1100,gfx1100");
    let options = ["--op", "neg", "--skip", "matrix_units,tokens,bench"];
    let Some((run, report, page)) = checked("together", &options, &[two]) else { return };
    assert_eq!(
        (run.code, steps(&report)),
        (0, vec![("survey", "ok"), ("links", "ok"), ("neg", "ok")]),
        "{page}"
    );
    assert!(page.contains("- devices 0 and 1 reach each other's memory"), "{page}");
    let lost = [two, ("HIP_STANDIN_PEERS", "lost"), ("OPS_ROCM_CACHE", "")];
    let (run, _, page) = checked("lost", &options, &lost).unwrap();
    assert_eq!(run.code, 0, "small messages go through memory of the host: {page}");
    assert!(
        page.contains("- devices 0 and 1 do not reach each other's memory: device 0 did not join"),
        "{page}"
    );
    let broken = [two, ("HIP_STANDIN_FAIL", "ncclCommInitAll:1")];
    let (run, report, page) = checked("broken", &options, &broken).unwrap();
    assert_eq!((run.code, steps(&report)), (1, vec![("survey", "ok"), ("links", "failed"), ("neg", "ok")]));
    assert!(page.contains("ncclCommInitAll failed on rocm: ncclSystemError (2)"), "{page}");
}

#[test]
fn a_wrong_kernel_is_a_failure() {
    let wrong = [("HIP_STANDIN_REPLACE", "return -x; }=>return x; }"), ("OPS_ROCM_CACHE", "")];
    let Some((run, report, page)) = checked("wrong", &ONE_OP, &wrong) else { return };
    assert_eq!((run.code, report["verdict"].as_str()), (1, Some("something failed")), "{page}");
    assert_eq!(steps(&report), [("survey", "ok"), ("neg", "failed")]);
    assert!(!report["failures"].as_array().unwrap().is_empty());
    assert!(page.contains("failed cases, the first:"), "{page}");
}

#[test]
fn a_kernel_that_faults_or_hangs_is_a_result_and_the_next_op_runs() {
    let options = ["--op", "neg,abs", "--skip", "matrix_units,tokens,bench", "--step-seconds", "20"];
    let fault = [
        ("HIP_STANDIN_REPLACE", "return -x; }=>__builtin_trap(); }"),
        ("HIP_STANDIN_FAULT", "abort"),
        ("OPS_ROCM_CACHE", ""),
    ];
    let Some((run, report, _)) = checked("fault", &options, &fault) else { return };
    assert_eq!((run.code, steps(&report)), (1, vec![("survey", "ok"), ("neg", "died"), ("abs", "ok")]));
    let options = [&options[..5], &["14"]].concat();
    let hang =
        [("HIP_STANDIN_REPLACE", "return -x; }=>for (;;) asm volatile(\"\"); }"), ("OPS_ROCM_CACHE", "")];
    let (run, report, _) = checked("hang", &options, &hang).unwrap();
    assert_eq!((run.code, steps(&report)), (1, vec![("survey", "ok"), ("neg", "timed_out"), ("abs", "ok")]));
}

#[test]
fn a_card_that_cannot_be_used_ends_with_2() {
    let none = [("HIP_STANDIN_DEVICES", "none"), ("HSA_OVERRIDE_GFX_VERSION", "11.0.0")];
    let Some((run, report, page)) = checked("none", &[], &none) else { return };
    assert_eq!((run.code, report["verdict"].as_str()), (2, Some("no card can be used")));
    assert!(page.contains("HSA_OVERRIDE_GFX_VERSION is 11.0.0"), "{page}");
}

#[test]
fn an_old_library_is_named_with_its_version() {
    let options = ["--op", "softmax", "--skip", "matrix_units,tokens,bench"];
    let old = [("HIP_STANDIN_MIOPEN", "3.1.0"), ("OPS_ROCM_POLICY", "*=miopen,hip")];
    let Some((run, report, page)) = checked("old-miopen", &options, &old) else { return };
    assert_eq!((run.code, report["verdict"].as_str()), (0, Some("all that ran is right")), "{page}");
    assert!(page.contains("- MIOpen: 3.1.0"), "{page}");

    let (rocm, folder) = (Scratch::new(), folder("old-hip"));
    if !have_compiler() {
        return;
    }
    let hip = rocm.hip(5, 1);
    let mut check = command(&["check", "--out", folder.to_str().unwrap(), "--unredacted"]);
    let run = finished(check.env("OPS_ROCM_PATH", rocm.path()).output().expect("the binary runs"));
    let (report, page) = self::report(&folder);
    if steps(&report).len() > 1 {
        return; // This machine has a card.
    }
    assert_eq!((run.code, report["verdict"].as_str()), (2, Some("no card can be used")), "{}", run.stderr);
    assert!(page.contains(&format!("{} is of an unsupported version", hip.display())), "{page}");
}

#[test]
fn without_permission_the_report_names_the_groups() {
    // ROCm reports a device file that may not be opened as a missing device. The program must see the same refusal, also if it runs as root.
    let refuse = "#define _GNU_SOURCE
        #include <dlfcn.h>
        #include <errno.h>
        #include <string.h>
        int open64(const char *path, int flags, unsigned mode) {
            if (!strcmp(path, \"/dev/kfd\") || !strncmp(path, \"/dev/dri/\", 9)) { errno = EACCES; return -1; }
            return ((int (*)(const char *, int, unsigned))dlsym(RTLD_NEXT, \"open64\"))(path, flags, mode);
        }";
    let folder = Scratch::new();
    if !have_compiler() {
        return;
    }
    let preload = folder.library("libdenied.so", refuse, &[]);
    let denied = [("HIP_STANDIN_DEVICES", "none"), ("LD_PRELOAD", preload.to_str().unwrap())];
    let Some((run, report, page)) = checked("denied", &[], &denied) else { return };
    assert_eq!((run.code, report["verdict"].as_str()), (2, Some("no card can be used")), "{page}");
    assert!(page.contains("/dev/kfd may not be opened by this user"), "{page}");
    assert!(page.contains("usermod -aG render,video"), "{page}");
}

#[test]
fn level_2_replays_golden_cases_and_says_what_it_left_out() {
    let options = [&ONE_OP[..], &["--level", "2"]].concat();
    let Some((run, report, page)) = checked("level-2", &options, &[]) else { return };
    assert_eq!(run.code, 0, "{page}");
    let names = ["survey", "neg golden", "neg", "neg --rows"];
    assert_eq!(steps(&report), names.map(|name| (name, "ok")));
    assert!(page.contains("| other golden cases | not run | 0.0 | "), "{page}");
    assert!(page.contains("are part of this program; in the repository, run ops replay"), "{page}");

    let wrong = [("HIP_STANDIN_REPLACE", "return -x; }=>return x; }"), ("OPS_ROCM_CACHE", "")];
    let (run, report, _) = checked("level-2-wrong", &options, &wrong).unwrap();
    assert_eq!((run.code, steps(&report)[1]), (1, ("neg golden", "failed")));
    let failures = report["failures"].as_array().unwrap();
    assert!(failures.iter().any(|case| case["message"].as_str().unwrap().starts_with("golden case: ")));
}

#[test]
fn two_cards_and_cards_without_matrix_units_are_told() {
    let two = [("HIP_STANDIN_DEVICES", "gfx1036:integrated,gfx1030")];
    let options = ["--op", "neg", "--skip", "tokens,bench"];
    let Some((run, report, page)) = checked("two", &options, &two) else { return };
    assert_eq!(run.code, 0, "{page}");
    let devices = report["rocm"]["devices"].as_array().unwrap();
    assert_eq!(
        (devices.len(), &devices[0]["integrated"], &devices[1]["preferred"]),
        (2, &json!(true), &json!(true))
    );
    assert_eq!(steps(&report), [("survey", "ok"), ("matrix_units", "ok"), ("neg", "ok")]);
}

#[test]
fn unknown_names_are_refused() {
    assert!(ops(&["check", "--skip", "nonsense"]).refused().contains("matrix_units, tokens, links, bench"));
    assert_eq!(ops(&["check", "--op", "nonsense"]).code, 2);
    assert_eq!(ops(&["check", "--level", "3"]).code, 2);
}
