//! Ops by name, on views of memory that others own.
//!
//! [`OPS`] describes every name of the registry: operands, options with their defaults, element types. [`Call`] makes an op of
//! a name, of the types of its operands and of options as values, and runs it on views. Only the making of that op is compiled for
//! every op, type and backend.
#![forbid(unsafe_code)]

mod describe;
mod object;
mod options;
mod views;

pub use describe::{About, Kind, OPS, OperandAbout, OptionAbout, find};
pub use object::{Give, Makes, Prepared};
pub use options::{Fault, Given, Value};
pub use views::{Call, Views};
