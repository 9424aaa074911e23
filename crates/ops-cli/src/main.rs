//! The `ops` command: check, time and explain the ops of a backend, and run models with them.
//!
//! Modules form layers. Each uses only those above it in this table:
//!
//! | module | what it has |
//! |---|---|
//! | [`exit`], [`output`], [`units`], [`timing`] | exit status, tables and JSON lines, sizes and times as text, the clock |
//! | [`args`] | the command line |
//! | [`catalogue`] | the ops, and problems as values: element types, shapes, costs |
//! | [`ceilings`] | what the machine can do at best |
//! | [`problem`] | a problem on a backend of any type, as an object |
//! | [`backend`] | the backends of this build, as objects |
//! | [`bench`](mod@bench) | timing a problem against the ceilings |
//! | [`text`] | models that read and write text, on a backend and in an element type chosen at run time |
//! | [`commands`] | one module for each command |
#![deny(unsafe_code)]

mod args;
mod backend;
mod bench;
mod catalogue;
mod ceilings;
mod commands;
mod exit;
mod output;
mod problem;
mod text;
mod timing;
mod units;

use clap::Parser;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
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
