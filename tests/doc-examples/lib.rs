//! The examples of the documentation of `rocm-ops`, of the crates that it gathers, and of the pages in `docs/`: each is a test, or, if it
//! is marked `no_run`, a function that only compiles. They see only what a program sees that depends on `rocm-ops` alone.
//!
//! `build.rs` extracts them. Those that must not compile are doc tests of this crate. A failed test is named after the file and the line
//! of its example.
#![cfg(any(test, doctest))]
// Examples show one thing each and keep no rules beyond that.
#![allow(unused, dangling_pointers_from_temporaries, nonstandard_style, clippy::all)]

/// What an example's body returns.
trait Outcome {
    fn expect_success(self);
}

impl Outcome for () {
    fn expect_success(self) {}
}

impl<E: std::fmt::Debug> Outcome for Result<(), E> {
    fn expect_success(self) {
        self.expect("the example succeeds");
    }
}

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

#[test]
fn examples_are_found() {
    assert!(COUNT > 130, "only {COUNT} examples are found");
}
