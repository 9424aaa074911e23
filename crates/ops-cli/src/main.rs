//! The `ops` command.
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(ops_cli::run(std::env::args_os(), None))
}
