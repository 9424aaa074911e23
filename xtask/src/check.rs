//! `cargo xtask check`: runs what CI runs.
mod beside;
pub(crate) mod last_run;
mod run;
mod select;
pub(crate) mod since;
mod steps;

use beside::BesideProcess;
use run::{Seconds, run};
use select::{Plan, plan};
use std::time::Instant;
use steps::{Place, Step};

const USAGE: &str = "cargo xtask check [--quick] [--all] [--from STEP] [--without STEP] [--beside]

Runs the steps of CI and stops at the first failure. Steps with a separate target folder (the sanitizer, the fuzzers) and those that
build nothing run in parallel with the others. Steps that measure time run alone, at the end. Steps whose subject has not changed for
40 commits, and that have passed since, run in one of eight checks; the output ends with the list of skipped steps.
--quick         skips the slow steps
--all           skips nothing, and compiles every kernel for every target
--from STEP     starts at a step
--without STEP  skips one step
--beside        runs only the steps that run in parallel with others";

/// Runs the steps that the arguments select, as [`USAGE`] says.
pub(crate) fn main(args: &[String]) -> Result<(), String> {
    if args.iter().any(|a| matches!(a.as_str(), "-h" | "--help" | "help")) {
        println!("{USAGE}\n\nsteps:{}", steps::names());
        return Ok(());
    }
    let plan = plan(args)?;
    let of = |place| plan.steps.iter().copied().filter(move |s| s.place == place);
    let started = Instant::now();
    let mut took: Vec<(&Step, Seconds)> = Vec::new();
    if args.iter().any(|a| a == "--beside") {
        for step in of(Place::Beside) {
            took.push((step, run(step, plan.all)?));
        }
        print_table(&took);
        return Ok(());
    }
    let mut beside = of(Place::Beside).next().map(|_| BesideProcess::start(args)).transpose()?;
    for step in of(Place::InOrder) {
        if let Some(failed) = beside.take_if(BesideProcess::has_failed) {
            failed.join()?;
        }
        took.push((step, run(step, plan.all)?));
    }
    beside.map_or(Ok(()), BesideProcess::join)?;
    for step in of(Place::Alone) {
        took.push((step, run(step, plan.all)?));
    }
    print_table(&took);
    println!("all checks passed in {:.0} s", started.elapsed().as_secs_f64());
    print_skipped(&plan);
    Ok(())
}

/// `cargo xtask variables`: variables with which CI's tests leave out what has not changed, one per line.
pub(crate) fn variables() -> Result<(), String> {
    if let Some(part) = select::mutants() {
        println!("OPS_TEST_MUTANTS={part}");
    }
    Ok(())
}

fn print_table(took: &[(&Step, Seconds)]) {
    println!("   wall  processors   budget");
    for (step, s) in took {
        let over = if s.wall > f64::from(step.budget) { "  over its budget" } else { "" };
        println!("{:5.0} s  {:8.0} s  {:5} s  {}{over}", s.wall, s.processors, step.budget, step.name);
    }
}

/// Prints what was skipped, and when it last passed.
fn print_skipped(plan: &Plan) {
    if plan.skipped.is_empty() {
        println!("nothing was skipped");
        return;
    }
    println!("skipped:");
    for (name, why) in &plan.skipped {
        println!("  {name}: {why}; last passed: {}", last_run::of(name));
    }
}
