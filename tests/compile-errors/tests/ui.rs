//! The compile errors that users see: each names what is missing and what to do.
//!
//! After a message changes, `TRYBUILD=overwrite cargo test -p ops-compile-errors` updates the expected ones.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    // Something has to compile, so that the programs are built: a check alone does not detect a lying
    // element.
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
