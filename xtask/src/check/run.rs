//! Runs a step and measures it.
use super::last_run;
use super::steps::Step;
use crate::page::root;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// How long a step took.
pub(super) struct Seconds {
    pub(super) wall: f64,
    /// The processor time of the step's processes, which is more meaningful on a machine that is also doing other work. 0 if unknown.
    pub(super) processors: f64,
}

/// Runs a step (its complete form with `all`), and notes that it passed.
pub(super) fn run(step: &Step, all: bool) -> Result<Seconds, String> {
    let arguments = || step.command.iter().chain(step.all.iter().filter(|_| all));
    let line = arguments().copied().collect::<Vec<_>>().join(" ");
    println!("== {}: {line}", step.name);
    let (started, before) = (Instant::now(), processor_seconds());
    let status = Command::new(in_target(step.command[0]))
        .args(arguments().skip(1))
        .envs(step.env.iter().map(|(name, value)| (name, in_target(value))))
        .status()
        .map_err(|e| format!("{}: cannot start {}: {e}", step.name, step.command[0]))?;
    if !status.success() {
        let env: String = step.env.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
        return Err(format!("{}: failed ({status}); repeat with: {env}{line}", step.name));
    }
    last_run::note(step.name)?;
    let seconds = Seconds { wall: started.elapsed().as_secs_f64(), processors: processor_seconds() - before };
    println!("== {}: ok, {:.0} s, {:.0} s of processor time", step.name, seconds.wall, seconds.processors);
    Ok(seconds)
}

/// Resolves a path in the target folder, wherever that is and whatever the working directory; leaves other paths unchanged.
fn in_target(path: &str) -> PathBuf {
    let Some(inside) = path.strip_prefix("target/") else { return PathBuf::from(path) };
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    root().join(folder).join(inside)
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
