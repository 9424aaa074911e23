//! One module for each command.
use crate::args::{Cli, Command};
use crate::backend::open;
use crate::exit::{Failure, Outcome};
use std::io::Write;

mod bench;
mod explain;
mod info;
mod replay;
mod support;
mod test;

/// Runs the command that was asked for.
///
/// # Errors
/// It cannot be done.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let common = cli.common;
    let engine = open(common.backend)?;
    match &cli.command {
        Command::Info => info::run(common.json, out),
        Command::Test(args) => test::run(&*engine, common, args, out),
        Command::Bench(args) => bench::run(&*engine, common, args, out),
        Command::Explain(args) => explain::run(&*engine, common, args, out),
        Command::Replay(args) => replay::run(&*engine, common, args, out),
        Command::Support(args) => support::run(&*engine, common, args, out),
    }
}
