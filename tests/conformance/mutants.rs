//! Wrong kernels, each of which the suite must detect.
//!
//! A suite is only as good as the bugs it detects. Every mutant is the reference with one bug in one op and
//! type. The suite's cases for that op and type must detect it, and the case that does must pass without the
//! bug.
use backend::{Mutant, Mutated};
use ops_test::suite::{CaseStatus, Filter, Outcome, run};
use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

mod attention;
mod backend;
mod bitwise;
mod cache;
mod compare;
mod conv;
mod elementwise;
mod exact;
mod experts;
mod float64;
mod formats;
mod fused;
mod gated;
mod linear_attention;
mod matmul;
mod norm;
mod parametric;
mod pool;
mod reduce;
mod sampling;
mod scatter;
mod sort;
mod tools;

fn mutants() -> Vec<Mutant> {
    [
        norm::mutants(),
        attention::mutants(),
        attention::ragged::mutants(),
        elementwise::mutants(),
        parametric::mutants(),
        matmul::mutants(),
        compare::mutants(),
        bitwise::mutants(),
        conv::mutants(),
        float64::mutants(),
        formats::mutants(),
        exact::mutants(),
        reduce::mutants(),
        sort::mutants(),
        pool::mutants(),
        scatter::mutants(),
        gated::mutants(),
        experts::mutants(),
        sampling::mutants(),
        linear_attention::mutants(),
        cache::mutants(),
        fused::mutants(),
    ]
    .concat()
}

/// The mutants that this run plants: all, or with `OPS_TEST_MUTANTS=3/8` the third of every eight.
fn planted() -> Vec<Mutant> {
    let all = mutants();
    let Ok(part) = std::env::var("OPS_TEST_MUTANTS") else { return all };
    let numbers = part.split_once('/').and_then(|(which, of)| Some((which.parse().ok()?, of.parse().ok()?)));
    let (which, of): (usize, usize) = numbers
        .filter(|(which, of)| (1..=*of).contains(which))
        .unwrap_or_else(|| panic!("OPS_TEST_MUTANTS is `{part}`; it is like 3/8, the third of every eight"));
    all.into_iter().skip(which - 1).step_by(of).collect()
}

/// Calls `f` with each item, on all processors.
fn each<T: Sync>(items: &[T], f: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            f(item);
        }
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
}

/// Every mutant fails a case that passes without the bug.
#[test]
fn every_wrong_kernel_is_caught() {
    let (caught, escaped) = (Mutex::new(HashMap::<_, HashSet<String>>::new()), Mutex::new(Vec::new()));
    let planted = planted();
    each(&planted, |mutant| {
        let filter = Filter { until_failure: true, ..mutant.cases() };
        let report = run(&Mutated(mutant.clone()), &filter);
        let label = format!("{} {}: {}", mutant.op, mutant.dtype, mutant.name);
        match report.failures().next() {
            Some(Outcome { case, .. }) => {
                println!("{label} | case {} | {case}", report.outcomes.len());
                let mut caught = caught.lock().unwrap();
                caught.entry((mutant.op, mutant.dtype)).or_default().insert(case.clone());
            }
            None => escaped.lock().unwrap().push(label),
        }
    });
    let (caught, escaped) = (caught.into_inner().unwrap(), escaped.into_inner().unwrap());
    assert!(escaped.is_empty(), "{} escaped:\n{}", escaped.len(), escaped.join("\n"));
    let wrongly = Mutex::new(Vec::new());
    each(&Vec::from_iter(caught), |((op, dtype), cases)| {
        let names = Vec::from_iter(cases.iter().cloned());
        let filter = Filter { dtype: Some(*dtype), names, ..Filter::op(op) };
        let report = run(&Mutated(Mutant::sound_in(op)), &filter);
        let passed: HashSet<&String> =
            report.outcomes.iter().filter(|o| o.status == CaseStatus::Pass).map(|o| &o.case).collect();
        wrongly.lock().unwrap().extend(cases.iter().filter(|case| !passed.contains(case)).cloned());
    });
    let wrongly = wrongly.into_inner().unwrap();
    assert!(wrongly.is_empty(), "{} fail without a bug:\n{}", wrongly.len(), wrongly.join("\n"));
    if planted.len() == mutants().len() {
        ops_test::proofs::write(env!("CARGO_TARGET_TMPDIR"), "mutants detected", planted.len());
    }
}

/// Bugs within the tolerance of every random case, which integer operands detect.
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
