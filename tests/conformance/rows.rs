//! Rows have the same bits whatever other rows are in the call.
use ops_test::SuiteBackend;
use ops_test::suite::{CaseStatus, Filter, run_rows};
use rocm_ops::{Cpu, Determinism, Reference};

/// The largest operand of a case, in elements.
const MOST: usize = 1 << 10;

fn passes<B: SuiteBackend>(backend: &B) {
    let filter = Filter::all().with_variables();
    let rows = run_rows(backend, &Reference::new(), &filter, MOST, &mut |_| {});
    let without: Vec<_> = ops_test::op_names().filter(|op| !rows.compared.contains_key(*op)).collect();
    println!("calls compared: {:?}\nno rows: {without:?}", rows.compared);
    let failures: Vec<String> = rows
        .report
        .failures()
        .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
        .collect();
    let shown = failures.len().min(60);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
    // Of some cases only, nothing is expected.
    if filter.is_partial() {
        return;
    }
    for op in
        ["linear", "qlinear", "matmul", "attention", "linear_experts", "rms_norm", "softmax", "sum", "add"]
    {
        assert!(rows.compared.contains_key(op), "no rows of {op} were compared");
    }
}

#[test]
fn rows_are_their_own_on_the_reference() {
    passes(&Reference::new());
}

#[test]
fn rows_are_their_own_on_the_cpu() {
    passes(&Cpu::builder().determinism(Determinism::Batch).build().unwrap());
}

/// Why the level exists: without it, the comparison finds rows with different bits.
#[test]
fn rows_are_not_their_own_without_the_level() {
    for op in ["linear", "qlinear"] {
        let rows = run_rows(&Cpu::new(), &Reference::new(), &Filter::op(op), 1 << 13, &mut |_| {});
        assert!(rows.report.failures().count() > 0, "{op}");
    }
}
