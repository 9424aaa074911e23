//! What programs cannot do to a kernel, because it does not compile.
//!
//! After a change of a message, `TRYBUILD=overwrite cargo test -p ops-cpu --test ui` writes the new ones.

#[test]
fn no_program_reaches_a_kernel_with_what_was_not_checked() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
