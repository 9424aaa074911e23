//! Compares the CPU backend with candle's on random shapes, types and layouts, op by op.
//!
//! `cargo run --manifest-path peers/differential/Cargo.toml [-- ROUNDS [SEED]]` prints a table of ops and
//! fails if a result differs for a reason not listed in `explained.rs`.
mod call;
mod explained;
mod floats;
mod numbers;
mod on_both;
mod operand;
mod planes;
mod report;

use report::Report;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number: ROUNDS or SEED"));
    let (rounds, seed) = (arguments.next().unwrap_or(20), arguments.next().unwrap_or(1));
    // candle panics on some calls; these are counted, and their messages are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    let mut report = Report::default();
    floats::compare(&mut report, rounds, seed);
    numbers::compare(&mut report, rounds, seed);
    planes::compare(&mut report, rounds, seed);
    if !report.finish() {
        std::process::exit(1);
    }
}
