//! The conformance tests for the backends of this workspace.
//!
//! They are one test program, because most of its build time goes into every kernel of each backend.
// Functions of an op, a type and a backend that it has are not compiled once more here.
extern crate ops_cli as _;

mod golden;
mod mutants;
mod rows;
mod suite;
mod trace;
