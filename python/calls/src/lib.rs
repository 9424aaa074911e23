//! Ops by name, on views of memory that others own.
//!
//! [`OPS`] describes every name of the registry: operands, options with their defaults, element types. [`Call`] makes an op of
//! a name, of the types of its operands and of options as values; [`Prepared`] is that op as an object, for one backend. Only
//! [`made`] is compiled for every op, type and backend.
#![forbid(unsafe_code)]

mod describe;
mod object;
mod options;
mod views;

pub use describe::{About, Kind, OPS, OperandAbout, OptionAbout, find};
pub use object::{Made, Prepared, made};
pub use options::{Fault, Value};
pub use views::{Call, Views};
