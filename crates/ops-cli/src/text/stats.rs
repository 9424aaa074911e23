//! Statistics of a run.
use ops_command::stderr;
use ops_core::combine::OpTime;
use ops_rocm::Rocm;

/// Writes a line for each op, the slowest first, and which provider computed it, to standard error.
pub(super) fn print(times: &[OpTime], providers: &[(String, String)]) {
    if let Some(peak) = peak_memory() {
        writeln!(stderr(), "peak memory of this process: {:.0} MiB", peak as f64 / 1024.0);
    }
    let all: f64 = times.iter().map(|time| time.time.as_secs_f64()).sum();
    let mut times = times.to_vec();
    times.sort_by_key(|time| std::cmp::Reverse(time.time));
    writeln!(stderr(), "{:<20} {:>9} {:>10} {:>6}", "op", "calls", "ms", "share");
    for time in times {
        let seconds = time.time.as_secs_f64();
        let share = 100.0 * seconds / all.max(1e-12);
        writeln!(stderr(), "{:<20} {:>9} {:>10.2} {share:>5.1}%", time.op, time.calls, 1e3 * seconds);
    }
    for (problem, who) in providers {
        writeln!(stderr(), "{who:<10} {problem}");
    }
}

/// Writes why the first step that could not be recorded was refused.
pub(crate) fn report_refusal(why: Option<&ops_core::Error>) {
    if let Some(why) = why {
        writeln!(
            stderr(),
            "some steps could not be recorded, so the host prepared them; the first was refused: {why}"
        );
    }
}

/// Peak device memory, then each kind of problem on an AMD GPU and its provider.
pub(super) fn providers(rocm: &Rocm) -> Vec<(String, String)> {
    let memory = rocm.memory_stats().peak_in_use as f64 / f64::from(1 << 20);
    let mut lines = vec![("peak device memory".to_owned(), format!("{memory:.0} MiB"))];
    lines.extend(rocm.decisions().into_iter().map(|decision| {
        let who = decision.chosen.map_or("nobody".to_owned(), |provider| provider.to_string());
        (format!("{} ({}), {} calls", decision.op, decision.problem, decision.calls), who)
    }));
    lines
}

/// Peak memory in kibibytes, if the system reports it.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}
