//! The `ops` command from outside: exit codes, last lines, JSON, messages.
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

mod bench;
mod check;
mod explain;
#[cfg(target_os = "linux")]
mod golden;
#[cfg(target_os = "linux")]
mod hostile;
mod quantize;
#[cfg(target_os = "linux")]
mod release;
mod replay;
mod rocm;
mod suite;
mod support;
#[cfg(target_os = "linux")]
mod threads;
mod trace;
mod warm;

/// A finished run.
struct Run {
    /// The exit status; -1 if a signal ended the process.
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    fn lines(&self) -> Vec<&str> {
        self.stdout.lines().collect()
    }
    fn last(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }
    /// The lines of standard output, each parsed as JSON. Fails if one has no version, or a field that docs/json.md does not name.
    fn json(&self) -> Vec<Value> {
        let page = include_str!("../../../../docs/json.md");
        let parse = |line| {
            let object: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            assert_eq!(object["schema"], 1, "{line}");
            for field in object.as_object().expect("an object").keys() {
                assert!(page.contains(&format!("`{field}`")), "docs/json.md does not name `{field}`: {line}");
            }
            object
        };
        self.stdout.lines().map(parse).collect()
    }
    /// The message of a run that was refused: exit status 2, nothing on standard output, one line on standard error.
    fn refused(&self) -> &str {
        assert_eq!((self.code, self.stdout.as_str()), (2, ""), "{}", self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}", self.stderr);
        self.stderr.trim_end()
    }
}

fn ops(args: &[&str]) -> Run {
    finished(command(args).output().expect("the binary runs"))
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ops"));
    command.args(args).env_remove("OPS_ROCM_PATH");
    command
}

fn finished(Output { status, stdout, stderr }: Output) -> Run {
    Run {
        code: status.code().unwrap_or(-1),
        stdout: String::from_utf8(stdout).expect("text"),
        stderr: String::from_utf8(stderr).expect("text"),
    }
}

/// The path of a scratch file.
fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

#[test]
fn help_teaches_by_example() {
    let top = ops(&["--help"]);
    assert_eq!(top.code, 0);
    assert!(top.stdout.contains("Exit status: 0 fine, 1 a check failed, 2 bad usage or unreadable input"));
    for command in [
        "generate", "batch", "embed", "info", "check", "test", "bench", "explain", "replay", "trace",
        "support", "tune",
    ] {
        assert!(top.stdout.contains(command));
        let help = ops(&[command, "--help"]);
        assert_eq!(help.code, 0);
        assert!(help.stdout.contains(&format!("  ops {command}")), "{command} shows no example");
        assert!(help.stdout.contains("--backend") && help.stdout.contains("--json"));
    }
}

#[test]
fn bad_usage_ends_with_2() {
    for args in [
        &[][..],
        &["frobnicate"],
        &["explain"],
        &["replay"],
        &["info", "--backend", "tpu"],
        &["test", "--backend", "checked"],
        &["generate", "--min-p", "2"],
        &["bench", "--x"],
    ] {
        let run = ops(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(!run.stderr.is_empty());
    }
}

/// Standard output and standard error of `ops ARGS` on a terminal, which `script` imitates.
#[cfg(target_os = "linux")]
fn on_a_terminal(args: &str, no_color: bool) -> String {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} {args}", env!("CARGO_BIN_EXE_ops")), "/dev/null"]);
    script.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("CLICOLOR").env_remove("CLICOLOR_FORCE");
    if no_color {
        script.env("NO_COLOR", "1");
    }
    finished(script.stdin(Stdio::null()).output().expect("script runs")).stdout
}

#[test]
#[cfg(target_os = "linux")]
fn only_terminals_get_colours_and_no_color_turns_them_off() {
    let has_colour = |text: &str| text.contains("\x1b[");
    for args in ["--help", "bench --x"] {
        let run = ops(&args.split(' ').collect::<Vec<_>>());
        assert!(!has_colour(&run.stdout) && !has_colour(&run.stderr), "{args} in a pipe");
        if standin_testing::has_program("only_terminals_get_colours_and_no_color_turns_them_off", "script") {
            assert!(has_colour(&on_a_terminal(args, false)), "{args} on a terminal");
            assert!(!has_colour(&on_a_terminal(args, true)), "{args} on a terminal, with NO_COLOR");
        }
    }
}

#[test]
fn info_names_machine_and_backends() {
    let run = ops(&["info"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains(env!("CARGO_PKG_VERSION")));
    assert!(run.stdout.contains("rocm") && run.stdout.contains("OPS_ROCM_PATH"), "{}", run.stdout);
    for library in ["HIP", "hipRTC", "rocBLAS", "hipBLASLt", "MIOpen", "RCCL"] {
        assert!(run.stdout.contains(&format!("  {library:<9}  ")), "{}", run.stdout);
    }

    let json = ops(&["info", "--json"]).json();
    let [info] = &json[..] else { panic!("one object") };
    assert!(info["threads"].as_u64().unwrap() >= 1);
    assert!(info["features"].is_array() && info["cpu"].is_string());
    let available = |name: &str| {
        let backends = info["backends"].as_array().unwrap();
        backends.iter().find(|b| b["name"] == name).unwrap()["available"].clone()
    };
    assert_eq!((available("cpu"), available("reference")), (json!(true), json!(true)));
    let devices = info["rocm"]["devices"].as_array().unwrap();
    assert_eq!(available("rocm"), json!(devices.iter().any(|d| d["supported"] == true)));
    for library in info["rocm"]["libraries"].as_array().unwrap() {
        assert_ne!(library["path"].is_string(), library["absent"].is_string(), "{library}");
    }
}

#[test]
fn without_a_gpu_rocm_computes_nothing() {
    let commands: [&[&str]; 3] = [&["test"], &["bench", "--quick"], &["replay", "some.safetensors"]];
    for command in commands {
        let run = ops(&[command, &["--backend", "rocm"]].concat());
        let message = run.refused();
        assert!(message.contains("install ROCm") && message.contains("OPS_ROCM_PATH"), "{message}");
        assert_eq!(message.trim().lines().count(), 1, "{message}");
    }
}

#[test]
fn support_is_a_table_of_ops_and_types() {
    let run = ops(&["support"]);
    assert_eq!(run.code, 0);
    let head: Vec<_> = run.lines()[0].split_whitespace().collect();
    assert_eq!(head[..3], ["op", "f64", "f32"]);
    assert!(head.contains(&"q8_0") && head.contains(&"f8e4m3"));
    let attention = run.lines().into_iter().find(|l| l.starts_with("attention")).unwrap().to_owned();
    assert_eq!(attention.split_whitespace().collect::<Vec<_>>(), ["attention", "cpu", "cpu", "cpu", "cpu"]);

    let json = ops(&["support", "--op", "qlinear", "--backend", "reference", "--json"]).json();
    assert_eq!(json.len(), 4 + ops_core::quant::FORMATS.len(), "four floats and the formats");
    for line in json {
        assert_eq!((&line["op"], &line["provider"]), (&json!("qlinear"), &json!("reference")));
        assert_eq!(line["supported"], json!(true));
        assert!(line["dtype"].is_string() && line["reason"].is_string());
    }
    assert!(ops(&["support", "--op", "nonesuch"]).refused().contains("rms_norm"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ops"))
        .args(["support", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn only_gpus_are_tuned() {
    assert!(ops(&["tune"]).refused().contains("--backend rocm"));
    let run = ops(&["tune", "--backend", "rocm", "--op", "softmax"]);
    assert!(run.refused().contains("attention"), "{}", run.stderr);
}
