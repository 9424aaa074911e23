//! The compile errors that users meet: each names what is missing and what to do.
//!
//! After a change of a message, `TRYBUILD=overwrite cargo test -p ops-core --test ui` writes the new ones.

#[test]
fn mistakes_are_explained() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
