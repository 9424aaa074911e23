//! The backends of this workspace against what every backend must do.
//!
//! One test program, since most of its build is each backend's every kernel.
mod golden;
mod mutants;
mod suite;
