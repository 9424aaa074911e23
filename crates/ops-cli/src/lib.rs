//! The `ops` command: check, time and explain the ops of a backend, and run models with them.
//!
//! A library, so that another program can have the command inside: the Python package has. [`run`] is all of it.
//!
//! Modules form layers. Each uses only those above it in this table:
//!
//! | module | what it has |
//! |---|---|
//! | `program` | how this program is started again, and where its models are |
//! | `exit`, `output`, `units`, `timing` | exit status, tables and JSON lines, sizes and times as text, the clock |
//! | `args` | the command line |
//! | `catalogue` | the ops, and problems as values: element types, shapes, costs |
//! | `ceilings` | what the machine can do at best |
//! | `problem` | a problem on a backend of any type, as an object |
//! | `backend` | the backends of this build, as objects |
//! | `bench` | timing a problem against the ceilings |
//! | `text` | models that read and write text, on a backend and in an element type chosen at run time |
//! | `commands` | one module for each command |
#![deny(unsafe_code)]

// Functions of an op, a type and a backend that the library has are not compiled once more for its tests.
#[cfg(test)]
extern crate ops_cli as _;

mod args;
mod backend;
mod bench;
mod catalogue;
mod ceilings;
mod commands;
mod exit;
mod output;
mod problem;
mod program;
mod text;
mod timing;
mod units;

pub use program::Host;

use clap::Parser;
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the command with these words, of which the first is its name, and returns the exit status. `host` is the program that has the
/// command inside; `None` if the command is the program.
///
/// It handles signals of the process, so it is called once, and the process then ends.
pub fn run(words: impl IntoIterator<Item = OsString>, host: Option<Host>) -> u8 {
    program::set_host(host);
    let cli = match args::Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Like `clap` itself: a message that cannot be written is no reason for another status.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    // The first Ctrl-C ends these after the step at hand.
    let stop = Arc::new(AtomicBool::new(false));
    let stops = matches!(cli.command, args::Command::Generate(_) | args::Command::Batch(_));
    ops_gguf::panics::hide_caught();
    let started = ops_command::start(stops.then_some(&stop));
    let started = started.map_err(|error| exit::Failure::Usage(error.to_string()));
    let result = started.and_then(|()| commands::run(&cli, &stop, &mut out));
    let result = result.and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    exit::end(result)
}
