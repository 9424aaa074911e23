//! Progress of loading, and of other work in many parts.
use crate::command::stderr;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows progress if work takes more than a second.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    last: Option<Instant>,
    /// What is being done, and what the parts are.
    work: (&'static str, &'static str),
}

impl Progress {
    /// Loading begins.
    #[allow(clippy::new_without_default)] // it takes the time
    pub fn new() -> Self {
        Self::of("loading the model", "layers")
    }
    /// This work begins, in these parts.
    pub fn of(work: &'static str, parts: &'static str) -> Self {
        Progress { begin: Instant::now(), last: None, work: (work, parts) }
    }
    /// `done` of `all` parts are done.
    pub fn step(&mut self, done: usize, all: usize) {
        let terminal = std::io::stderr().is_terminal();
        let quiet = self.begin.elapsed() < Duration::from_secs(1);
        let pause = Duration::from_millis(if terminal { 200 } else { 10_000 });
        if done == all {
            if self.last.is_some() && terminal {
                write!(stderr(), "\r\x1b[K");
            }
        } else if !quiet && self.last.is_none_or(|last| last.elapsed() > pause) {
            self.last = Some(Instant::now());
            let (work, parts) = self.work;
            let text = format!("{work}: {done} of {all} {parts}");
            if terminal { write!(stderr(), "\r{text}") } else { writeln!(stderr(), "{text}") }
        }
    }
}
