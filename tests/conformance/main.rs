//! The conformance tests for the backends of this workspace.
//!
//! They are one test program, because most of its build time goes into every kernel of each backend.
mod golden;
mod mutants;
mod rows;
mod suite;

/// `OPS_TEST_ONE_TYPE_IN=4` limits the suite to about one in four of each op's types.
fn one_type_in() -> Option<usize> {
    let count = std::env::var("OPS_TEST_ONE_TYPE_IN").ok()?;
    Some(count.parse().expect("OPS_TEST_ONE_TYPE_IN is a count"))
}
