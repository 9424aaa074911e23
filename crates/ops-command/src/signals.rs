//! Signals that end a command.
use ops_gguf::AtomicFile;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::{flag, low_level};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// See [`start`](crate::start).
pub(crate) fn handle(stop: Option<&Arc<AtomicBool>>) -> io::Result<()> {
    // `nohup` and shells ignore some of these for a program, and that must stay so.
    let stops = |signal| signal == SIGINT && stop.is_some();
    let wanted =
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| stops(*signal) || !is_ignored(*signal));
    let wanted: Vec<_> = wanted.collect();
    if let Some(stop) = stop {
        flag::register(SIGINT, stop.clone())?;
    }
    let mut signals = Signals::new(&wanted)?;
    let stops_first = stop.is_some();
    let mut first = stops_first;
    // A thread, because files cannot be removed in a signal handler.
    let thread = std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGINT if first => first = false,
                signal => end(signal, stops_first && !first),
            }
        }
    });
    if thread.is_err() {
        // Then the next run removes the files.
        wanted.iter().try_for_each(|signal| match (*signal, stop) {
            (SIGINT, Some(stop)) => flag::register_conditional_shutdown(SIGINT, 130, stop.clone()).map(drop),
            (signal, _) => {
                flag::register_conditional_default(signal, Arc::new(AtomicBool::new(true))).map(drop)
            }
        })?;
    }
    Ok(())
}

fn end(signal: i32, interrupted: bool) {
    AtomicFile::remove_all();
    if signal == SIGINT && interrupted {
        low_level::exit(130);
    }
    let _ = low_level::emulate_default_handler(signal);
}

/// Whether the process was started with this signal ignored. Known only on Linux.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}
