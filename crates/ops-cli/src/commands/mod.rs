//! One module for each command.
use crate::args::{Choice, Cli, Command};
use crate::backend::{Wanted, open};
use crate::exit::{Failure, Outcome};
use std::io::Write;

mod bench;
mod explain;
mod gpus;
mod info;
mod replay;
mod support;
mod test;
mod tune;

/// Runs the command that was asked for.
///
/// # Errors
/// It cannot be done.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let common = cli.common;
    let backend = |wanted| open(common.backend, wanted);
    match &cli.command {
        // It tells of every backend, also of those that cannot be opened.
        Command::Info => info::run(common.json, out),
        // It opens its device several times, each with other values.
        Command::Tune(args) => tune::run(common, args, out),
        Command::Test(args) => test::run(&*backend(Wanted::Results)?, common, args, out),
        Command::Bench(args) => bench::run(&*backend(Wanted::Results)?, common, args, out),
        Command::Replay(args) => replay::run(&*backend(Wanted::Results)?, common, args, out),
        Command::Support(args) => support::run(&*backend(Wanted::Answers(None))?, common, args, out),
        Command::Explain(args) => {
            explain::check_gfx(common.backend, args.gfx.as_deref())?;
            let gfx = args.gfx.as_deref().filter(|_| common.backend == Choice::Rocm);
            explain::run(&*backend(Wanted::Answers(gfx))?, common, args, out)
        }
    }
}
