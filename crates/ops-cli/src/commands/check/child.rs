//! This program as a process of its own, with a time limit.
use crate::exit::Failure;
use crate::program;
use serde_json::Value;
use std::io::Read;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Most bytes that are kept of what a process writes.
const MAX_BYTES: u64 = 1 << 20;

/// How a process ended.
pub(super) struct Ended {
    /// `None` if the time was used up.
    pub(super) status: Option<ExitStatus>,
    pub(super) seconds: f64,
    stdout: String,
    pub(super) stderr: String,
}

impl Ended {
    /// The first line of its output.
    pub(super) fn json(&self) -> Option<Value> {
        self.lines().into_iter().next()
    }

    /// The lines of its output that are JSON.
    pub(super) fn lines(&self) -> Vec<Value> {
        self.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// Runs this program with these arguments, for at most `limit`.
pub(super) fn run(arguments: &[String], limit: Duration) -> Result<Ended, Failure> {
    let mut command = program::command().map_err(|error| Failure::Usage(error.to_string()))?;
    let program = command.get_program().to_owned();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let failed = |error| Failure::Usage(format!("{} cannot be started: {error}", program.display()));
    let start = Instant::now();
    let mut child = command.spawn().map_err(failed)?;
    let outputs = [read(child.stdout.take()), read(child.stderr.take())];
    let status = wait(&mut child, limit).map_err(failed)?;
    if status.is_none() {
        // A process that waits for a GPU may not even end now, so this does not wait long.
        let _ended = child.kill().and_then(|()| wait(&mut child, Duration::from_secs(2)));
    }
    let seconds = start.elapsed().as_secs_f64();
    // Processes that it has started may keep the pipes open.
    let [stdout, stderr] =
        outputs.map(|output| output.recv_timeout(Duration::from_secs(1)).unwrap_or_default());
    Ok(Ended { status, seconds, stdout, stderr })
}

/// Reads a pipe in the background.
fn read(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let read = pipe.map(|mut pipe| {
            let kept = pipe.by_ref().take(MAX_BYTES).read_to_end(&mut bytes);
            // What is left must be read, or the process would wait.
            kept.and_then(|_| std::io::copy(&mut pipe, &mut std::io::sink()))
        });
        drop(read);
        let _nobody_waits = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

/// Waits until the process ends; `None` if it does not within `limit`.
fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let end = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
