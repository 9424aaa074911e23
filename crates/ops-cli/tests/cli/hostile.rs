//! Outputs that are not files, inputs without end, readers that exit, signals.
use super::replay::silu_of_zeros;
use super::{Run, command, finished, ops, scratch};
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn model() -> String {
    format!("{}/../../models/tiny-llama-kjv-f16.gguf", env!("CARGO_MANIFEST_DIR"))
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = scratch(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// The commands that write a file, with this output.
fn writers(output: &Path) -> [Vec<String>; 3] {
    let (model, output) = (model(), output.display().to_string());
    [
        format!("quantize {model} {output} --type q8_0"),
        format!("trace {model} --out {output} --prompt-ids 1,2 --tokens 0"),
        format!("test --op copy --report {output}"),
    ]
    .map(|line| line.split(' ').map(str::to_owned).collect())
}

fn run(args: &[String]) -> Run {
    ops(&args.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn what_is_no_regular_file_is_not_replaced() {
    let folder = folder("not-replaced");
    let pipe = folder.join("pipe");
    fifo(&pipe);
    symlink("/dev/null", folder.join("null")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    for name in ["pipe", "null", "folder"] {
        for args in writers(&folder.join(name)) {
            let run = run(&args);
            let message = run.refused();
            assert!(message.contains(name) && message.contains("not a regular file"), "{args:?}: {message}");
        }
    }
    for args in writers(Path::new("/dev/null")) {
        assert!(run(&args).refused().contains("not a regular file"));
    }
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_eq!(names(&folder), ["folder", "null", "pipe"]);
}

#[test]
fn links_are_followed_and_modes_stay() {
    for number in 0..3 {
        let folder = folder(&format!("followed-{number}"));
        let (file, link) = (folder.join("file"), folder.join("link"));
        symlink("file", &link).unwrap();
        let args = writers(&link).into_iter().nth(number).unwrap();
        assert_eq!(run(&args).code, 0, "a link to a file that does not exist yet");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        let run = run(&args);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let meta = fs::metadata(&file).unwrap();
        assert_eq!((meta.permissions().mode() & 0o7777, meta.len() > 3), (0o640, true));
        assert_eq!(names(&folder), ["file", "link"]);
    }
}

/// Starts a long recording, and waits until it has begun to write.
fn recording(folder: &Path, program: &mut Command) -> Child {
    program
        .args(["trace", &model(), "--backend", "reference", "--tokens", "400", "--out"])
        .arg(folder.join("out"));
    let mut child = program.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the binary runs");
    let start = Instant::now();
    while names(folder).is_empty() {
        assert!(child.try_wait().unwrap().is_none() && start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

fn signal(name: &str, child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

#[test]
fn signals_leave_nothing_behind() {
    let folder = folder("signals");
    let ignored = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = ignored.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let ignored = u64::from_str_radix(ignored, 16).unwrap();
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        // As in a test that runs in the background.
        if ignored >> (number - 1) & 1 == 1 {
            continue;
        }
        let mut child = recording(&folder, &mut command(&[]));
        signal(name, &child);
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(number), "{name}: {status}");
        assert_eq!(names(&folder), [] as [&str; 0], "{name}");
    }
    // Nothing can be done when the process is killed. The next run removes what is left.
    let mut child = recording(&folder, &mut command(&[]));
    signal("KILL", &child);
    child.wait().unwrap();
    assert_eq!(names(&folder).len(), 1);
    assert_eq!(run(&writers(&folder.join("out"))[1]).code, 0);
    assert_eq!(names(&folder), ["out"]);
}

#[test]
fn ignored_signals_stay_ignored() {
    let folder = folder("ignored");
    let mut nohup = Command::new("nohup");
    let mut child = recording(&folder, nohup.arg(env!("CARGO_BIN_EXE_ops")));
    signal("HUP", &child);
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    signal("TERM", &child);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(names(&folder), [] as [&str; 0]);
}

/// Fails if the command does not end by itself.
fn ends(mut child: Child) -> Run {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    finished(child.wait_with_output().unwrap())
}

#[test]
fn inputs_without_end_are_refused() {
    let pipe = folder("inputs").join("pipe.optrace");
    fifo(&pipe);
    let pipe = pipe.to_str().unwrap();
    let out = scratch("inputs.out");
    let output = out.to_str().unwrap();
    let commands: [&[&str]; 6] = [
        &["replay", "/dev/zero"],
        &["replay", pipe],
        &["replay", "/dev/null", pipe],
        &["trace", pipe, "--out", output],
        &["trace", "/dev/zero", "--out", output],
        &["quantize", pipe, output, "--type", "q8_0"],
    ];
    for args in commands {
        let run = ends(command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("not a regular file"), "{args:?}: {}", run.stderr);
    }
}

/// Runs a command whose standard output or standard error, or both, have no reader.
fn unread(args: &[&str], out: bool, err: bool) -> Run {
    let mut child = command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    if out {
        drop(child.stdout.take());
    }
    if err {
        drop(child.stderr.take());
    }
    ends(child)
}

#[test]
fn a_closed_pipe_hides_no_failed_check() {
    let right = silu_of_zeros("unread-right.safetensors", "silu", [0.0, 0.0]);
    let wrong = silu_of_zeros("unread-wrong.safetensors", "silu", [0.0, 1.0]);
    let (right, wrong) = (right.to_str().unwrap(), wrong.to_str().unwrap());
    let cases: [(&[&str], i32); 10] = [
        (&["info"], 0),
        (&["--help"], 0),
        (&["explain", "softmax", "--dtype", "f32", "--shape", "2,3"], 0),
        (&["generate", "--max-tokens", "3"], 0),
        (&["generate", "--ids"], 0),
        (&["generate", "--json", "--max-tokens", "1"], 0),
        (&["generate", "--top1"], 0),
        (&["replay", right], 0),
        (&["replay", wrong], 1),
        (&["replay", wrong, right], 1),
    ];
    for (args, status) in cases {
        for (out, err) in [(true, false), (true, true)] {
            let run = unread(args, out, err);
            assert_eq!((run.code, run.stderr.as_str()), (status, ""), "{args:?}");
        }
    }
}

/// Messages are lost with their reader, but the work is done.
#[test]
fn a_closed_standard_error_ends_nothing() {
    let output = scratch("unread.gguf");
    let _ = fs::remove_file(&output);
    let model = model();
    let args = ["quantize", &model, output.to_str().unwrap(), "--type", "q8_0", "--progress"];
    let run = unread(&args, false, true);
    assert_eq!(run.code, 0);
    assert!(run.last().contains("times smaller") && output.exists(), "{}", run.stdout);
    assert_eq!(unread(&["replay", "/no/such/file"], false, true).code, 2);
}

#[test]
fn unknown_instruction_sets_are_errors() {
    let with = |value: &str, args: &[&str]| finished(command(args).env("OPS_SIMD", value).output().unwrap());
    for value in ["avx3", "portable", "AVX2"] {
        for args in [&["info"][..], &["support"], &["test", "--op", "copy"], &["replay", "x.safetensors"]] {
            let run = with(value, args);
            let message = run.refused();
            assert!(
                message.contains(&format!("OPS_SIMD is {value:?}")) && message.contains("scalar"),
                "{message}"
            );
        }
    }
    for value in ["", "scalar", "sca"] {
        assert_eq!(with(value, &["test", "--op", "copy"]).code, 0, "{value:?}");
    }
}

#[test]
fn a_model_that_does_not_fit_is_refused_before_it_is_read() {
    let folder = folder("too-large");
    let path = folder.join("large.gguf");
    let (name, dims) = ("token_embd.weight", [1 << 16, 1 << 23]);
    let mut writer = ops_gguf::Writer::new();
    writer.set("general.architecture", "llama").unwrap();
    writer.tensor(name, ops_gguf::GgmlType::F16, &dims).unwrap();
    // Only the front is written; the data are a hole in the file.
    let mut front = Vec::new();
    drop(writer.write_to(&mut front).unwrap());
    fs::write(&path, &front).unwrap();
    let size = front.len() as u64 + 2 * dims.iter().product::<usize>() as u64;
    fs::File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
    let run = ops(&["trace", path.to_str().unwrap(), "--out", folder.join("out").to_str().unwrap()]);
    let message = run.refused();
    assert!(message.contains("needs 2048.0 GiB of memory") && message.contains("are available"), "{message}");
    assert_eq!(names(&folder), ["large.gguf"]);
}
