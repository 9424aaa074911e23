//! The test suite for backends, and replay of golden cases.
//!
//! Both work on a [`Case`], one op call as data. [`call`] runs a case on any backend, whatever its op
//! and types are; [`golden`] reads cases from files, with results that another implementation computed in
//! float64; [`suite`] generates thousands of cases.
//!
//! ```no_run
//! use ops_test::suite::{Filter, run};
//!
//! let report = run(&ops_cpu::Cpu::new(), &Filter::op("rms_norm"));
//! println!("{}", report.table());
//! assert_eq!(report.failures().count(), 0);
//! ```
//!
//! # The oracle
//!
//! The suite's oracle calls no backend. It computes float ops from their definitions in double-double arithmetic (106 bits; long sums
//! of narrower types in f64), so `Reference` and f64 kernels are checked against independent code of higher precision. Tolerances
//! average over an output, so one wrong element among thousands can pass, and so can a relative error of 1e-6 in f32. Exact mode closes
//! that gap: its operands are integers so small that sums and products are exact in the output's type in any order, and results must be
//! equal.
//!
//! [`suite::run_rows`] runs each case again with fewer rows and compares bits, which is the determinism level *batch*. It finds out on
//! `Reference` which operands have rows, so no list of ops has to be kept.
//!
//! # Golden cases
//!
//! A case runs whole or not at all. An op's parameters and operands are ticked off as they are read. If any is left over, the case is
//! unsupported and the reason names it; running it anyway would compare the wrong call.
//!
//! # Ops as objects
//!
//! Code that is generic over ops is compiled for every op, element type and backend. [`erased`] wraps an op in an object once (shape
//! rule, support, tolerance, run). The suite, replay and every `ops` command call that object; nothing else here is generic over ops.
#![forbid(unsafe_code)]

mod array;
mod case;
mod dispatch;
mod error;
mod input;
mod judge;
mod options;
mod types;

pub use array::Array;
pub use case::{Case, Operand, Params, RunResult};
pub use dispatch::{call, op_names};
pub use error::CallError;
pub use input::open_regular;
/// What a backend must implement to run the suite: every op, in every type.
pub use ops_core::ops::registry::AllOps as SuiteBackend;
pub use options::CallOptions;

pub mod erased;
pub mod golden;
pub mod group;
pub mod proofs;
pub mod suite;
pub mod trace;
