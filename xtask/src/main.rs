//! Project chores.

use std::process::ExitCode;

mod standin;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match args.next().as_deref() {
        Some("standin") => standin::main(args.collect()),
        other => {
            eprintln!("cargo xtask: unknown command {:?}; there is: standin", other.unwrap_or(""));
            ExitCode::from(2)
        }
    }
}
