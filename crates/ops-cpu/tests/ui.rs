//! What safe code of other crates cannot do to a kernel, because it does not compile.
//!
//! After a change of a message, `TRYBUILD=overwrite cargo test -p ops-cpu --test ui` writes the new ones.

#[test]
fn safe_code_reaches_no_kernel_with_what_was_not_checked() {
    let cases = trybuild::TestCases::new();
    // Something has to compile, so that all are built: a check alone does not find a lying element.
    cases.pass("tests/ui/honest_element.rs");
    cases.compile_fail("tests/ui/lying_element.rs");
    cases.compile_fail("tests/ui/outside_float.rs");
    cases.compile_fail("tests/ui/unchecked_kernel.rs");
}
