//! Rows have the same bits whatever other rows are in the call, if the level *batch* is requested.
use super::WAVES_OF_64;
use ops_core::{DType, Determinism};
use ops_cpu::Reference;
use ops_rocm::Rocm;
use ops_test::suite::{CaseStatus, Filter, run_rows};
use standin_testing::with_standin;

/// Maximum size of an operand of a case, in elements.
const MOST: usize = 1 << 11;

/// Runs every op in these types, or the one in `OPS_TEST_OP`, with one in three of its cases, because each is
/// run many times.
fn rows(types: &[DType]) {
    let rocm = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
    for dtype in types {
        let filter = Filter { dtype: Some(*dtype), one_case_in: Some(3), ..Filter::all() }.with_variables();
        let rows = run_rows(&rocm, &Reference::new(), &filter, MOST, &mut |_| {});
        println!("{dtype}: {:?}", rows.compared);
        let failures: Vec<String> = rows
            .report
            .failures()
            .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
            .collect();
        let shown = failures.len().min(60);
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
        if filter.op.is_none() {
            for op in ["linear", "qlinear", "matmul", "attention", "linear_experts", "rms_norm", "softmax"] {
                assert!(rows.compared.contains_key(op), "no rows of {op} were compared");
            }
        }
    }
    assert!(rocm.decisions().iter().any(|decision| decision.calls > 0));
}

#[test]
fn rows_on_waves_of_32() {
    with_standin("rows::rows_on_waves_of_32", &[], |_| rows(&[DType::F16, DType::F32]));
}

#[test]
fn rows_on_waves_of_64() {
    with_standin("rows::rows_on_waves_of_64", WAVES_OF_64, |_| rows(&[DType::BF16]));
}
