//! The `ops` command: check, time and explain the ops of a backend.
#![deny(unsafe_code)]

mod args;
mod backend;
mod bench;
mod catalogue;
mod commands;
mod exit;
mod output;

use clap::Parser;
use std::io::{BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let result = commands::run(&cli, &mut out);
    let result = result.and_then(|outcome| Ok(out.flush().map(|()| outcome)?));
    exit::tell(&result);
    exit::code(&result)
}
