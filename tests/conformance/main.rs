//! The conformance tests for the backends of this workspace.
//!
//! They are one test program, because most of its build time goes into every kernel of each backend.
mod golden;
mod mutants;
mod rows;
mod suite;
mod trace;
