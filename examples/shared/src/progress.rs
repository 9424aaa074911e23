//! Progress of loading.
use crate::command::stderr;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Shows progress if loading takes more than a second.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    last: Option<Instant>,
}

impl Progress {
    /// Loading begins.
    #[allow(clippy::new_without_default)] // it takes the time
    pub fn new() -> Self {
        Progress { begin: Instant::now(), last: None }
    }
    /// `done` of `all` layers are loaded.
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
            let text = format!("loading the model: {done} of {all} layers");
            if terminal { write!(stderr(), "\r{text}") } else { writeln!(stderr(), "{text}") }
        }
    }
}
