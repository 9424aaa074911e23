//! The compile errors that users meet: each names what is missing and what to do.
//!
//! After a change of a message, `TRYBUILD=overwrite cargo test -p ops-compile-errors` writes the new ones.

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    // Something has to compile, so that all are built: a check alone does not find a lying element.
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/*.rs");
}
