//! The suite on both CPU backends.
use ops_test::proofs;
use ops_test::suite::{CaseStatus, Filter, Report, run, run_both};
use rocm_ops::{Cpu, DType, Reference};
use std::process::Command;

fn passes(report: &Report, filter: &Filter) {
    println!("{}\n{}", report.backend, report.table());
    let failures: Vec<String> = report
        .failures()
        .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
        .collect();
    let shown = failures.len().min(60);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
    // Neither backend declines anything.
    assert_eq!(report.total().unsupported, 0);
    let pass = report.total().pass;
    if let Some(op) = &filter.op {
        assert!(pass > 0, "no case of {op} ran");
    } else if filter.dtype.is_none() {
        let least = 10_000 / (filter.one_type_in.unwrap_or(1) * filter.one_case_in.unwrap_or(1));
        assert!(pass > least, "only {pass} cases ran");
    }
    // CI runs one case in eight with each of the instruction sets that its machines would not choose.
    let every_eighth = Filter { one_case_in: None, ..filter.clone() };
    let proof = match std::env::var("OPS_SIMD") {
        Err(_) if !filter.is_partial() => format!("suite cases on {}", report.backend),
        Ok(set) if filter.one_case_in == Some(8) && !every_eighth.is_partial() => {
            format!("suite cases on {}, one in 8 with OPS_SIMD={set}", report.backend)
        }
        _ => return,
    };
    proofs::write(env!("CARGO_TARGET_TMPDIR"), &proof, pass);
}

/// With `OPS_SIMD`, only on `Cpu`: the reference has no vector kernels.
#[test]
fn both_pass() {
    let filter = Filter::all().with_variables();
    if std::env::var_os("OPS_SIMD").is_some() {
        return passes(&run(&Cpu::new(), &filter), &filter);
    }
    for report in run_both(&Cpu::new(), &Reference::new(), &filter) {
        passes(&report, &filter);
    }
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

/// Runs a test of this program with `OPS_TEST_OP`. Whether it passes, and its output.
fn with_op(op: &str, test: &str) -> (bool, String) {
    let program = std::env::current_exe().expect("this program");
    let arguments = [test, "--exact", "--nocapture"];
    let output = Command::new(program).args(arguments).env("OPS_TEST_OP", op).output().expect(test);
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (output.status.success(), text.concat())
}

#[test]
fn ops_test_op_is_a_list_of_ops_that_exist() {
    for test in ["suite::both_pass", "rows::rows_are_their_own_on_the_cpu"] {
        let (passes, text) = with_op("relu,sofmax", test);
        assert!(!passes && text.contains("OPS_TEST_OP names `sofmax`"), "{test}: {text}");
    }
    let (passes, text) = with_op("relu,swiglu", "suite::both_pass");
    assert!(passes && text.contains("relu ") && text.contains("swiglu "), "{text}");
    assert!(!text.contains("rms_norm"), "{text}");
}
