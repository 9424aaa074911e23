//! One module per command.
use crate::args::{Choice, Cli, Command};
use crate::backend::{Purpose, open};
use crate::exit::{Failure, Outcome};
use std::io::{BufReader, Write, stdin};
use std::sync::atomic::AtomicBool;

mod batch;
mod bench;
mod check;
mod embed;
mod explain;
mod generate;
mod gpus;
mod info;
mod quantize;
mod replay;
mod support;
mod test;
mod tokenize;
mod trace;
mod tune;
mod warm;

/// Runs the command of the command line. `stop` is set when the user wants it to end after the step at hand.
///
/// # Errors
/// See [`Failure`].
pub(crate) fn run(cli: &Cli, stop: &AtomicBool, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let common = cli.common;
    if common.backend == Choice::Checked
        && !matches!(cli.command, Command::Generate(_) | Command::Batch(_) | Command::Embed(_))
    {
        let message = "--backend checked: only generate, batch and embed compare as they run; `ops test` compares every op";
        return Err(Failure::Usage(message.to_owned()));
    }
    let backend = |purpose| open(common.backend, purpose);
    match &cli.command {
        Command::Generate(args) => generate::run(common, args, stop, out),
        Command::Batch(args) => batch::run(common, args, Some(Box::new(BufReader::new(stdin()))), stop, out),
        Command::Embed(args) => embed::run(common, args, &mut stdin(), out),
        // Lists all backends, including those that cannot be opened.
        Command::Info => info::run(common.json, out),
        // Opens devices in other processes only.
        Command::Check(args) => check::run(common, args, out),
        // Opens its device several times, with different tuning values.
        Command::Tune(args) => tune::run(common, args, out),
        Command::Warm(args) => warm::run(common, args, out),
        Command::Quantize(args) => quantize::run(common, args, out),
        Command::Tokenize(args) => tokenize::run(common, args, out),
        Command::Trace(args) => trace::run(common, args, out),
        Command::Test(args) => {
            let purpose = if args.rows { Purpose::ComputeRows } else { Purpose::Compute };
            test::run(|| backend(purpose), common, args, out)
        }
        Command::Bench(args) => bench::run(&*backend(Purpose::Compute)?, common, args, out),
        Command::Replay(args) => replay::run(&*backend(Purpose::Compute)?, common, args, out),
        Command::Support(args) => support::run(&*backend(Purpose::Explain(None))?, common, args, out),
        Command::Explain(args) => {
            explain::check_gfx(common.backend, args.gfx.as_deref())?;
            let gfx = args.gfx.as_deref().filter(|_| common.backend == Choice::Rocm);
            explain::run(&*backend(Purpose::Explain(gfx))?, common, args, out)
        }
    }
}
