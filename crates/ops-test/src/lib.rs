//! The suite that every backend runs, and replay of golden cases.
//!
//! Both work on a [`Case`], one op call as data. [`call`] runs a case on any backend, whatever its
//! op and types are; [`golden`] reads cases from files with the results that another implementation
//! computed in float64; [`suite`] makes thousands of its own.
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
mod types;

pub use array::Array;
pub use case::{CallError, Case, Operand, Params, Ran};
pub use dispatch::{call, op_names};
/// What a backend must implement to run the suite: every op of core, in every type.
pub use ops_core::ops::registry::AllOps as SuiteBackend;

pub mod erased;
pub mod golden;
pub mod suite;
