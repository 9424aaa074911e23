//! `cargo xtask check`: runs what CI runs.
use std::process::Command;
use std::time::Instant;

/// A step: its name, and its command line, which may start with environment variables.
struct Step {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    command: &'static [&'static str],
    /// Skipped by `--quick`.
    slow: bool,
}

const fn step(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { name, env: &[], command, slow: false }
}

const STEPS: &[Step] = &[
    step("test", &["cargo", "test", "--workspace"]),
    step("format", &["cargo", "fmt", "--all", "--check"]),
    step("clippy", &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Step {
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("docs", &["cargo", "doc", "--workspace", "--no-deps"])
    },
    step("functions", &["tools/list-hip-functions.sh", "--check"]),
    // rocm-rs finds no ROCm where this runs, so nothing is linked.
    Step {
        env: &[("SKIP_BINDGEN", "1")],
        ..step(
            "bridge",
            &["cargo", "clippy", "-p", "ops-rocm", "--features", "rocm-rs", "--", "-D", "warnings"],
        )
    },
    Step { slow: true, ..step("bridge on the stand-in", &["tools/bridge.sh"]) },
    Step {
        slow: true,
        env: &[("OPS_ROCM_AOT", "gfx942")],
        // All of these packages, so that dependencies have the same features as in `test` and are not built again.
        ..step(
            "aot",
            &[
                "cargo",
                "test",
                "-p",
                "ops-rocm",
                "-p",
                "rocm-ops",
                "-p",
                "ops-cli",
                "--features",
                "ops-rocm/aot",
                "--lib",
                "kernels::",
            ],
        )
    },
    // The registers of a target with waves of 32; `aot` compiles for one with waves of 64. `cargo xtask kernels` alone compiles for
    // all, and belongs to a change of kernels.
    Step { slow: true, ..step("kernels", &["cargo", "xtask", "kernels", "--gfx", "gfx1100"]) },
    Step { slow: true, ..step("deny", &["cargo", "deny", "check", "licenses", "bans", "sources"]) },
    // All at once, so that the processors are busy to the end.
    step(
        "build examples",
        &[
            "cargo",
            "build",
            "--release",
            "--example",
            "quickstart",
            "--example",
            "third_backend",
            "--example",
            "custom_op",
            "--example",
            "checked",
            "--example",
            "generate",
            "--example",
            "batch",
            "--example",
            "embed",
            "--example",
            "replay",
        ],
    ),
    step("example quickstart", &["cargo", "run", "--release", "--example", "quickstart"]),
    step("example third_backend", &["cargo", "run", "--release", "--example", "third_backend"]),
    step("example custom_op", &["cargo", "run", "--release", "--example", "custom_op"]),
    step("example checked", &["cargo", "run", "--release", "--example", "checked"]),
    step(
        "example generate",
        &["cargo", "run", "--release", "--example", "generate", "--", "--max-tokens", "32"],
    ),
    // So few blocks that sequences give way and share.
    step(
        "example batch",
        &[
            "cargo",
            "run",
            "--release",
            "--example",
            "batch",
            "--",
            "--prompts",
            "examples/batch/prompts.txt",
            "--max-tokens",
            "16",
            "--blocks",
            "24",
            "--block-size",
            "8",
            "--stats",
        ],
    ),
    step(
        "example embed",
        &[
            "cargo",
            "run",
            "--release",
            "--example",
            "embed",
            "--",
            "--model",
            "tests/data/folders/bert",
            "--prompt",
            "Hello world",
        ],
    ),
    step("example replay", &["cargo", "run", "--release", "--example", "replay"]),
    // The documentation promises a bound on the overhead of a call.
    step("overhead", &["tools/overhead.sh", "--check"]),
    step("launch", &["tools/launch.sh", "--check"]),
    Step { slow: true, ..step("threads", &["tools/threads.sh"]) },
    Step { slow: true, ..step("sanitizer", &["tools/sanitizer.sh"]) },
    Step { slow: true, ..step("sanitizer of the stand-in", &["tools/sanitizer-rocm.sh"]) },
    Step { slow: true, ..step("fuzz", &["fuzz/run.sh", "gguf", "10"]) },
    Step { slow: true, ..step("fuzz traces", &["fuzz/run.sh", "optrace", "10"]) },
];

const USAGE: &str = "cargo xtask check [--quick] [--from STEP] [--without STEP]

Runs the steps of CI in order and stops at the first failure.
--quick         skips the slow steps
--from STEP     starts at a step
--without STEP  skips one step";

/// Runs the steps. `--quick` skips the slow ones, `--from NAME` starts at one, `--without NAME` skips one.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args.iter().any(|a| matches!(a.as_str(), "-h" | "--help" | "help")) {
        println!("{USAGE}\n\nsteps:{}", names());
        return Ok(());
    }
    let known = |(i, a): (usize, &String)| {
        let after_flag = i > 0 && matches!(args[i - 1].as_str(), "--from" | "--without");
        after_flag || matches!(a.as_str(), "--quick" | "--from" | "--without")
    };
    if let Some((_, unknown)) = args.iter().enumerate().find(|at| !known(*at)) {
        return Err(format!("`{unknown}` is not an option of check\n{USAGE}"));
    }
    let value = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    let quick = args.iter().any(|a| a == "--quick");
    let begin = value("--from").map_or(Ok(0), |name| {
        STEPS
            .iter()
            .position(|s| s.name == name)
            .ok_or_else(|| format!("no step `{name}`; there are:{}", names()))
    })?;
    let mut took: Vec<(&str, Seconds)> = Vec::new();
    for s in
        STEPS[begin..].iter().filter(|s| !(quick && s.slow) && value("--without").is_none_or(|w| w != s.name))
    {
        took.push((s.name, run(s)?));
    }
    println!("   wall  processors");
    took.iter().for_each(|(name, s)| println!("{:5.0} s  {:8.0} s  {name}", s.wall, s.processors));
    println!("all checks passed in {:.0} s", took.iter().map(|(_, s)| s.wall).sum::<f64>());
    Ok(())
}

/// What a step took.
struct Seconds {
    wall: f64,
    /// The processor time of the step's processes, which says more on a machine that does other things, too. 0 where unknown.
    processors: f64,
}

/// The processor time of the processes that have been started and waited for so far. Linux only; 0 elsewhere.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // proc_pid_stat(5): the name in parentheses may contain spaces; `cutime` and `cstime` are the 14th and 15th field after it, in
    // ticks of a hundredth of a second.
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.split_whitespace().skip(13).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>()
        / 100.0
}

/// Runs a step.
fn run(s: &Step) -> Result<Seconds, String> {
    println!("== {}: {}", s.name, s.command.join(" "));
    let (started, before) = (Instant::now(), processor_seconds());
    let status = Command::new(s.command[0])
        .args(&s.command[1..])
        .envs(s.env.iter().copied())
        .status()
        .map_err(|e| format!("{}: cannot start {}: {e}", s.name, s.command[0]))?;
    if !status.success() {
        return Err(format!("{}: failed ({status}); repeat with: {}", s.name, s.command.join(" ")));
    }
    let seconds = Seconds { wall: started.elapsed().as_secs_f64(), processors: processor_seconds() - before };
    println!("== {}: ok, {:.0} s, {:.0} s of processor time", s.name, seconds.wall, seconds.processors);
    Ok(seconds)
}

fn names() -> String {
    STEPS.iter().map(|s| format!("\n  {}", s.name)).collect()
}
