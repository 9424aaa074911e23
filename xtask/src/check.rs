//! `cargo xtask check`: runs what CI runs.
use crate::page::root;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

/// A step: its name, and its command line, which may start with environment variables.
struct Step {
    name: &'static str,
    env: &'static [(&'static str, &'static str)],
    command: &'static [&'static str],
    /// Skipped by `--quick`.
    slow: bool,
    place: Place,
}

/// What else may run at the same time.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The steps of this kind run one after the other.
    InOrder,
    /// It builds in a target folder of its own, so it runs beside those in order: a processor that one build or test leaves idle works
    /// on the other.
    Beside,
    /// It measures time, so it runs alone, after all others.
    Alone,
}

const fn step(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { name, env: &[], command, slow: false, place: Place::InOrder }
}

const fn beside(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { slow: true, place: Place::Beside, ..step(name, command) }
}

const fn alone(name: &'static str, command: &'static [&'static str]) -> Step {
    Step { place: Place::Alone, ..step(name, command) }
}

const STEPS: &[Step] = &[
    step("test", &["cargo", "test", "--workspace"]),
    step("format", &["cargo", "fmt", "--all", "--check"]),
    step("clippy", &["cargo", "clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    Step {
        env: &[("RUSTDOCFLAGS", "-D warnings")],
        ..step("docs", &["cargo", "doc", "--workspace", "--no-deps"])
    },
    step("functions", &["tools/ci/list-hip-functions.sh", "--check"]),
    // rocm-rs finds no ROCm where this runs, so nothing is linked.
    Step {
        env: &[("SKIP_BINDGEN", "1")],
        ..step(
            "bridge",
            &["cargo", "clippy", "-p", "ops-rocm", "--features", "rocm-rs", "--", "-D", "warnings"],
        )
    },
    Step { slow: true, ..step("bridge on the stand-in", &["tools/ci/bridge.sh"]) },
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
    Step { slow: true, ..step("threads", &["tools/ci/threads.sh"]) },
    Step { slow: true, ..step("sanitizer of the stand-in", &["tools/ci/sanitizer-rocm.sh"]) },
    beside("sanitizer", &["tools/ci/sanitizer.sh"]),
    beside("fuzz", &["fuzz/run.sh", "gguf", "10"]),
    beside("fuzz traces", &["fuzz/run.sh", "optrace", "10"]),
    // The documentation promises a bound on the overhead of a call.
    alone("overhead", &["tools/ci/overhead.sh", "--check"]),
    alone("launch", &["tools/ci/launch.sh", "--check"]),
];

const USAGE: &str = "cargo xtask check [--quick] [--from STEP] [--without STEP] [--beside]

Runs the steps of CI and stops at the first failure. Those with a target folder of their own (the sanitizer, the fuzzers) run beside
the others; those that measure time run alone, at the end.
--quick         skips the slow steps
--from STEP     starts at a step
--without STEP  skips one step
--beside        only the steps that run beside others";

/// Runs the steps that the arguments select, as [`USAGE`] says.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args.iter().any(|a| matches!(a.as_str(), "-h" | "--help" | "help")) {
        println!("{USAGE}\n\nsteps:{}", names());
        return Ok(());
    }
    let chosen = chosen(args)?;
    let of = |place| chosen.iter().copied().filter(move |s| s.place == place);
    let started = Instant::now();
    let mut took: Vec<(&str, Seconds)> = Vec::new();
    if args.iter().any(|a| a == "--beside") {
        for s in of(Place::Beside) {
            took.push((s.name, run(s)?));
        }
        print_table(&took);
        return Ok(());
    }
    let mut others = of(Place::Beside).next().map(|_| Others::start(args)).transpose()?;
    for s in of(Place::InOrder) {
        if let Some(failed) = others.take_if(Others::has_failed) {
            failed.join()?;
        }
        took.push((s.name, run(s)?));
    }
    others.map_or(Ok(()), Others::join)?;
    for s in of(Place::Alone) {
        took.push((s.name, run(s)?));
    }
    print_table(&took);
    println!("all checks passed in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// The steps that the arguments select.
fn chosen(args: &[String]) -> Result<Vec<&'static Step>, String> {
    let known = |(i, a): (usize, &String)| {
        let after_flag = i > 0 && matches!(args[i - 1].as_str(), "--from" | "--without");
        after_flag || matches!(a.as_str(), "--quick" | "--from" | "--without" | "--beside")
    };
    if let Some((_, unknown)) = args.iter().enumerate().find(|at| !known(*at)) {
        return Err(format!("`{unknown}` is not an option of check\n{USAGE}"));
    }
    let value = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    let quick = args.iter().any(|a| a == "--quick");
    let unknown = |name: &String| format!("no step `{name}`; there are:{}", names());
    let at = |name: &String| STEPS.iter().position(|s| s.name == name).ok_or_else(|| unknown(name));
    let begin = value("--from").map_or(Ok(0), at)?;
    let without = value("--without").map(at).transpose()?;
    let steps = STEPS.iter().enumerate().skip(begin);
    Ok(steps.filter(|(i, s)| !(quick && s.slow) && Some(*i) != without).map(|(_, s)| s).collect())
}

fn print_table(took: &[(&str, Seconds)]) {
    println!("   wall  processors");
    took.iter().for_each(|(name, s)| println!("{:5.0} s  {:8.0} s  {name}", s.wall, s.processors));
}

/// The steps that run beside the others: a process, which writes to a file. If a step in order fails, no further one of these begins, but
/// the present one runs on to its end.
struct Others {
    process: Child,
    log: PathBuf,
}

impl Others {
    /// Starts a process for those of the selected steps that run beside the others.
    fn start(args: &[String]) -> Result<Self, String> {
        let log = root().join("target/check-beside.log");
        let open = || {
            std::fs::create_dir_all(root().join("target"))?;
            // A step that ran on from before may still write to the old file.
            let _ = std::fs::remove_file(&log);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (file, same) = open().map_err(|e: std::io::Error| format!("{}: {e}", log.display()))?;
        let program = std::env::current_exe().map_err(|e| format!("this program's path: {e}"))?;
        println!("== beside the following steps, and printed after them: {}", log.display());
        let mut command = Command::new(program);
        command.arg("check").args(args).arg("--beside").stdout(file).stderr(same);
        let process =
            command.spawn().map_err(|e| format!("cannot start the steps beside the others: {e}"))?;
        Ok(Others { process, log })
    }
    fn has_failed(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(Some(status)) if !status.success())
    }
    /// Waits for them and prints what they printed.
    fn join(mut self) -> Result<(), String> {
        let status = self.process.wait().map_err(|e| format!("the steps beside the others: {e}"))?;
        let log = self.log.display();
        print!("{}", String::from_utf8_lossy(&std::fs::read(&self.log).map_err(|e| format!("{log}: {e}"))?));
        if status.success() {
            Ok(())
        } else {
            Err(format!("a step beside the others failed; its output is above and in {log}"))
        }
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // Fails if it has ended, which is what is wanted.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(args: &[&str]) -> Result<Vec<&'static str>, String> {
        let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
        chosen(&args).map(|steps| steps.iter().map(|s| s.name).collect())
    }

    #[test]
    fn arguments_select_steps() {
        assert_eq!(names_of(&[]).unwrap().len(), STEPS.len());
        assert_eq!(names_of(&["--from", "fuzz traces"]).unwrap(), ["fuzz traces", "overhead", "launch"]);
        assert!(!names_of(&["--without", "launch"]).unwrap().contains(&"launch"));
        assert!(!names_of(&["--quick", "--beside"]).unwrap().contains(&"fuzz"));
        assert!(names_of(&["--from", "nothing"]).unwrap_err().contains("fuzz traces"));
        assert!(names_of(&["--all"]).unwrap_err().contains("`--all`"));
    }
}
