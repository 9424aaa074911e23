//! Processes for which the system starts no thread, or not enough.
use super::replay::silu_of_zeros;
use super::{Run, command, finished, scratch};
use std::process::Command;

/// A program that runs another one for which the system starts too few threads.
struct Limit {
    name: &'static str,
    apply: fn(&[&str]) -> Command,
    /// The most threads that calls then have.
    threads: usize,
}

fn under(limiter: &[&str], args: &[&str]) -> Command {
    let ops = command(args);
    let mut limited = Command::new(limiter[0]);
    limited.args(&limiter[1..]).arg(ops.get_program()).args(ops.get_args()).env_remove("OPS_ROCM_PATH");
    // More than the limits permit, on any machine.
    limited.env("RAYON_NUM_THREADS", "6");
    limited
}

/// Stacks of threads do not fit the address space.
fn no_stacks(args: &[&str]) -> Command {
    let mut command = under(&["env"], args);
    command.env("RUST_MIN_STACK", (1u64 << 50).to_string());
    command
}

/// A user who has no other process, and may have this many threads. Only root can become that user; other users have other
/// processes, so that their limit of 1 leaves none.
fn processes(count: &str, args: &[&str]) -> Command {
    let user = format!("--reuid={}", 1_000_000 + std::process::id());
    let limit = format!("--nproc={count}");
    under(&["prlimit", &limit, "setpriv", &user, "--regid=65534", "--clear-groups"], args)
}

const LIMITS: [Limit; 3] = [
    Limit { name: "no memory for stacks", apply: no_stacks, threads: 1 },
    Limit { name: "one thread per user", apply: |args| processes("1", args), threads: 1 },
    Limit { name: "five threads per user", apply: |args| processes("5", args), threads: 3 },
];

fn run(mut command: Command) -> Run {
    finished(command.output().expect("the command starts"))
}

#[test]
fn a_number_of_threads_that_is_set_is_named() {
    let info = run({
        let mut command = command(&["info"]);
        command.env("RAYON_NUM_THREADS", "3");
        command
    });
    assert!(info.stdout.contains("threads   3: RAYON_NUM_THREADS is 3\n"), "{}", info.stdout);
}

#[test]
fn commands_compute_with_the_threads_that_there_are() {
    let right = silu_of_zeros("threads.safetensors", "silu", [0.0, 0.0]);
    let right = right.to_str().unwrap();
    let mut applied = 0;
    for Limit { name, apply, threads } in LIMITS {
        // Without the programs, or where another user cannot read this one, there is no such limit.
        if !apply(&["--version"]).output().is_ok_and(|output| output.status.success()) {
            continue;
        }
        applied += 1;
        let info = run(apply(&["info"]));
        let line = info.stdout.lines().find_map(|line| line.strip_prefix("threads   ")).unwrap();
        let (count, why) = line.split_once(": ").unwrap();
        // Threads of a larger pool that was tried first may not have ended.
        assert!((1..=threads).contains(&count.parse().unwrap()), "{name}: {line}");
        assert!(
            why.starts_with("the system starts no more (Resource temporarily unavailable"),
            "{name}: {line}"
        );
        let commands: [&[&str]; 5] = [
            &["replay", right],
            &["test", "--op", "softmax"],
            &["bench", "--quick", "--op", "silu", "--sizes", "1M"],
            &[
                "bench",
                "--quick",
                "--op",
                "qlinear",
                "--dtype",
                "q4_k",
                "--shape",
                "4,256",
                "--shape",
                "weight=8,1",
            ],
            &["explain", "softmax", "--dtype", "f32", "--shape", "2,3"],
        ];
        for args in commands {
            let run = run(apply(args));
            assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{name}, {args:?}: {}", run.stdout);
        }
    }
    assert!(applied > 0);
    let _ = std::fs::remove_file(scratch("threads.safetensors"));
}
