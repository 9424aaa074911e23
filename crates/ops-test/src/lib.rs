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
#![forbid(unsafe_code)]

mod array;
mod case;
mod dispatch;
mod judge;
mod options;
mod types;

pub use array::Array;
pub use case::{CallError, Case, Operand, Params, RunResult};
pub use dispatch::{call, op_names};
/// What a backend must implement to run the suite: every op, in every type.
pub use ops_core::ops::registry::AllOps as SuiteBackend;
pub use options::CallOptions;

pub mod erased;
pub mod golden;
pub mod proofs;
pub mod suite;
pub mod trace;
