//! Programs that try to call a kernel with unchecked arguments must not compile.
//!
//! When a compiler message changes, run `TRYBUILD=overwrite cargo test -p ops-cpu --test compile_fail` to update the expected output.

#[test]
fn no_program_reaches_a_kernel_with_what_was_not_checked() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
