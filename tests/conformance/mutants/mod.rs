//! Wrong kernels, each of which the suite must detect.
//!
//! A suite is only as good as the faults it detects. Every mutant is the reference with one fault in one op and type. The
//! suite's cases for that op and type must fail with the fault and pass without it.
use backend::{Mutant, Mutated};
use ops_test::suite::{CaseStatus, Filter, Outcome, run};

mod attention;
mod backend;
mod cache;
mod conv;
mod elementwise;
mod exact;
mod experts;
mod float64;
mod formats;
mod gated;
mod linear_attention;
mod norms;
mod order;
mod parametric;
mod planes;
mod products;
mod ragged;
mod reduce;
mod relations;
mod sampling;
mod scatter;
mod tools;

fn mutants() -> Vec<Mutant> {
    [
        norms::mutants(),
        attention::mutants(),
        ragged::mutants(),
        elementwise::mutants(),
        parametric::mutants(),
        products::mutants(),
        relations::mutants(),
        conv::mutants(),
        float64::mutants(),
        formats::mutants(),
        exact::mutants(),
        reduce::mutants(),
        order::mutants(),
        planes::mutants(),
        scatter::mutants(),
        gated::mutants(),
        experts::mutants(),
        sampling::mutants(),
        linear_attention::mutants(),
        cache::mutants(),
    ]
    .concat()
}

#[test]
fn no_mutant_is_lost() {
    assert_eq!(mutants().len(), 612);
}

#[test]
fn every_wrong_kernel_is_caught() {
    let mut escaped = Vec::new();
    for mutant in mutants() {
        let filter = Filter { until_failure: true, ..mutant.cases() };
        let report = run(&Mutated(mutant.clone()), &filter);
        let label = format!("{} {}: {}", mutant.op, mutant.dtype, mutant.name);
        match report.failures().next() {
            Some(Outcome { case, .. }) => println!("{label} | case {} | {case}", report.outcomes.len()),
            None => escaped.push(label),
        }
    }
    assert!(escaped.is_empty(), "{} escaped:\n{}", escaped.len(), escaped.join("\n"));
}

#[test]
fn without_a_fault_nothing_is_caught() {
    let mut seen = std::collections::HashSet::new();
    // Once for all mutants of the same cases.
    for mutant in mutants().into_iter().filter(|mutant| seen.insert((mutant.op, mutant.dtype, mutant.named)))
    {
        let report = run(&Mutated(Mutant::sound_in(mutant.op)), &mutant.cases());
        let failure = report.failures().next().map(|o| match &o.status {
            CaseStatus::Fail(why) => format!("{}: {why}", o.case),
            _ => o.case.clone(),
        });
        assert_eq!(failure, None, "{} {}", mutant.op, mutant.dtype);
    }
}

/// Faults within the tolerance of every random case, which integer operands detect.
#[test]
fn only_exact_mode_catches_these() {
    for mutant in exact::mutants() {
        let filter = Filter { dtype: Some(mutant.dtype), ..Filter::op(mutant.op) };
        let report = run(&Mutated(mutant.clone()), &filter);
        let (exact, drawn): (Vec<&Outcome>, Vec<&Outcome>) =
            report.failures().partition(|o| o.case.contains(", exact,"));
        let drawn: Vec<&str> = drawn.iter().map(|o| o.case.as_str()).collect();
        println!("{} {}: {} | {} exact cases", mutant.op, mutant.dtype, mutant.name, exact.len());
        assert!(!exact.is_empty(), "{} {}: {}", mutant.op, mutant.dtype, mutant.name);
        assert!(drawn.is_empty(), "{} {}: {} also fails {drawn:?}", mutant.op, mutant.dtype, mutant.name);
    }
}
