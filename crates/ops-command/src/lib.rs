//! What the commands and the examples share: how they start and end, and messages to standard error.
//!
//! - [`start`] refuses an environment variable that would be ignored, and makes signals remove unfinished files.
//! - When the reader of standard output has exited, as `head` does, a command ends quietly. Its status is 0 unless a check has
//!   failed before: [`end`], [`failed`], [`closed_pipe`].
//! - Programs that only print write to [`stdout`], which ends them in the same way.
//! - Messages to a closed standard error are dropped, and the command goes on: [`stderr`].
//! - [`memory`] refuses a model that does not fit.
#![forbid(unsafe_code)]

pub mod memory;
#[cfg(unix)]
mod signals;
#[cfg(not(unix))]
#[path = "signals_elsewhere.rs"]
mod signals;

use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Prepares a command. SIGINT, SIGTERM and SIGHUP end it after its unfinished files have been removed. With `stop`, the first
/// SIGINT sets that flag instead, and the second ends the command with status 130.
///
/// # Errors
/// `OPS_SIMD` names no instruction set of this processor, or signals cannot be handled.
pub fn start(stop: Option<&Arc<AtomicBool>>) -> Result<(), Box<dyn Error>> {
    ops_simd::Isa::from_env()?;
    signals::handle(stop)?;
    Ok(())
}

/// The status of what has failed so far.
static FAILED: AtomicU8 = AtomicU8::new(0);

/// Remembers that a check has failed (1) or that an input could not be read (2), so that the command ends with this status even
/// if nobody reads its output any more.
pub fn failed(status: u8) {
    FAILED.fetch_max(status, Ordering::Relaxed);
}

/// The status to end with, quietly, if the error is that the reader of standard output has exited.
pub fn closed_pipe(error: &(dyn Error + 'static)) -> Option<u8> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
            return Some(FAILED.load(Ordering::Relaxed));
        }
        cause = error.source();
    }
    None
}

/// Ends a command: with this status, or with 2 and a message. See [`closed_pipe`] for the exception.
pub fn end(result: Result<u8, Box<dyn Error>>) -> ExitCode {
    ExitCode::from(status(result))
}

fn status(result: Result<u8, Box<dyn Error>>) -> u8 {
    result.unwrap_or_else(|error| {
        closed_pipe(&*error).unwrap_or_else(|| {
            writeln!(stderr(), "error: {error}");
            2
        })
    })
}

/// Standard error, for `writeln!`. Unlike `eprintln!`, it ignores errors: a message that nobody can read is no reason to end.
#[derive(Debug)]
pub struct Stderr(());

/// Standard error.
pub fn stderr() -> Stderr {
    Stderr(())
}

impl Stderr {
    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, message: fmt::Arguments<'_>) {
        let _ = io::stderr().write_fmt(message);
    }
    /// Shows a message that has no line break yet.
    pub fn flush(&mut self) {
        let _ = io::stderr().flush();
    }
}

/// Standard output, for `writeln!` in programs that do nothing besides printing. Unlike `println!`, it does not panic: when a write
/// fails, the program ends as [`end`] says.
#[derive(Debug)]
pub struct Stdout(());

/// Standard output of such a program.
pub fn stdout() -> Stdout {
    Stdout(())
}

impl Stdout {
    /// What `write!` and `writeln!` call.
    pub fn write_fmt(&mut self, message: fmt::Arguments<'_>) {
        if let Err(error) = io::stdout().write_fmt(message) {
            std::process::exit(i32::from(status(Err(error.into()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_found_among_the_causes() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert_eq!(closed_pipe(&pipe()), Some(0));
        assert_eq!(
            closed_pipe(&io::Error::other(pipe())),
            None,
            "an error of something else, which wraps it"
        );
        assert_eq!(closed_pipe(&io::Error::from(io::ErrorKind::StorageFull)), None);
        #[derive(Debug)]
        struct Outer(io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("outer")
            }
        }
        impl Error for Outer {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&self.0)
            }
        }
        assert_eq!(closed_pipe(&Outer(pipe())), Some(0));
        failed(1);
        assert_eq!(closed_pipe(&Outer(pipe())), Some(1));
    }
}
