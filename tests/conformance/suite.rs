//! The suite on both CPU backends.
use ops_test::SuiteBackend;
use ops_test::suite::{CaseStatus, Filter, run};
use rocm_ops::{Cpu, DType, Reference};

fn passes<B: SuiteBackend>(backend: &B) {
    // `OPS_TEST_OP` narrows the suite to one op.
    let op = std::env::var("OPS_TEST_OP").ok();
    let one_type_in = crate::one_type_in();
    let report = run(backend, &Filter { op: op.clone(), one_type_in, ..Filter::all() });
    println!("{}\n{}", report.backend, report.table());
    let failures: Vec<String> = report
        .failures()
        .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
        .collect();
    let shown = failures.len().min(60);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
    // Neither backend declines anything.
    assert_eq!(report.total().unsupported, 0);
    let least = 10_000 / one_type_in.unwrap_or(1);
    assert!(op.is_some() || report.total().pass > least, "only {} cases ran", report.total().pass);
}

#[test]
fn reference_passes() {
    passes(&Reference::new());
}

#[test]
fn cpu_passes() {
    passes(&Cpu::new());
}

#[test]
fn one_case_in_four_is_the_first_of_every_four_of_a_type() {
    let names = |one_case_in, dtype| -> Vec<String> {
        let report = run(&Reference::new(), &Filter { one_case_in, ..Filter::op("rms_norm") });
        report.outcomes.into_iter().filter(|o| o.dtype == dtype).map(|o| o.case).collect()
    };
    for dtype in [DType::F16, DType::F32] {
        let wanted: Vec<String> = names(None, dtype).into_iter().step_by(4).collect();
        assert!(wanted.len() > 3);
        assert_eq!(names(Some(4), dtype), wanted);
    }
}
