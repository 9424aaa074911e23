//! Every op with each operand empty in turn.
use super::{WAVES_OF_64, none_of};
use ops_core::DType;
use ops_cpu::Reference;
use ops_rocm::Rocm;
use ops_test::suite::{CaseStatus, Filter, run_empties};
use standin_testing::{Standin, with_standin};

/// Compares one type with `Reference`.
fn empties(standin: &Standin, dtype: DType) {
    let rocm = Rocm::new().unwrap();
    let filter = Filter { dtype: Some(dtype), ..Filter::all() }.with_variables();
    let report = run_empties(&rocm, &Reference::new(), &filter, &mut |_| {});
    println!("{}", report.table());
    let failures = report.failures();
    none_of(
        failures
            .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
            .collect(),
    );
    assert_eq!(standin.misuses(), 0);
    if filter.op.is_none() {
        let total = report.total();
        assert!(total.pass > 1000 && total.pass > 50 * total.unsupported, "{total}");
    }
}

#[test]
fn empty_operands_on_waves_of_32() {
    with_standin("empties::empty_operands_on_waves_of_32", &[], |standin| empties(standin, DType::F32));
}

#[test]
fn empty_operands_on_waves_of_64() {
    with_standin("empties::empty_operands_on_waves_of_64", WAVES_OF_64, |standin| {
        empties(standin, DType::F16)
    });
}
