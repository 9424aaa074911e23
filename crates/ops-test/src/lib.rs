//! The suite that every backend runs, and replay of golden cases.
//!
//! Both work on a [`Case`], one op call as data. [`call`] runs a case on any backend, whatever its
//! op and types are; [`golden`] reads cases from files with the results that another implementation
//! computed in float64.
#![forbid(unsafe_code)]

mod array;
mod case;
mod dispatch;
mod judge;
mod types;

pub use array::Array;
pub use case::{CallError, Case, Operand, Params, Ran};
pub use dispatch::{
    BlockSuite, ElementSuite, FloatSuite, ScalarSuite, SuiteBackend, WeightSuite, call, op_names,
};

pub mod golden;
pub mod suite;
