//! Traces: the op calls of a run, in order, in a file, so that they can be run again elsewhere.
//!
//! `docs/optrace.md` describes the format. [`TraceRecorder`] writes it from the calls of a
//! [`Traced`](ops_core::combine::Traced) backend, and [`Trace`] reads it.
//!
//! ```
//! use ops_core::{Backend, combine::Traced, ops::*};
//! use ops_test::trace::{Trace, TraceRecorder};
//! use std::{io::Cursor, sync::Arc};
//!
//! let recorder = Arc::new(TraceRecorder::new(Vec::new(), Default::default(), true)?);
//! let recorded = Traced::new(ops_cpu::Cpu::new(), recorder.clone());
//! let x = recorded.tensor(&[2], &[1.0_f32, 2.0])?;
//! recorded.silu(recorded.add(&x, &x)?)?;
//! let (file, written) = recorder.finish()?;
//! assert_eq!((written.calls, written.distinct), (2, 2));
//!
//! let trace = Trace::read(Cursor::new(file))?;
//! assert_eq!(trace.calls[1].op, "silu");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
use crate::{CallError, Params};
use ops_core::{DType, Layout};
use std::io;

mod parse;
mod read;
mod write;

pub use read::{Blocks, Trace};
pub use write::{TraceRecorder, TraceSummary};

/// The version of the format.
pub const VERSION: u64 = 1;
/// What every trace starts with.
const START: &str = "{\"optrace\":";
/// Maximum number of integers of an operand that are stored individually.
const MAX_VALUES: usize = 1024;
/// Number of calls in a record of the order.
const RUN_LENGTH: usize = 4096;
/// Maximum bytes of a record, excluding data: far above what this crate writes.
const MAX_RECORD: u64 = 1 << 20;

/// Whether a file with this beginning is a trace.
pub fn is_trace(start: &[u8]) -> bool {
    start.starts_with(START.as_bytes())
}

/// A call that a trace stores once, however often it was made.
#[derive(Debug)]
pub struct TracedCall {
    /// The op, as files name it.
    pub op: String,
    /// The name of the type that it runs in.
    pub dtype: String,
    /// The rest, or why this build cannot interpret it.
    pub detail: Result<CallDetail, CallError>,
}

/// The details of a call.
#[derive(Debug)]
pub struct CallDetail {
    /// The type that the op runs in.
    pub dtype: DType,
    /// The options.
    pub params: Params,
    /// The operands that were given, written ones included.
    pub operands: Vec<TracedOperand>,
}

/// An operand of a traced call.
#[derive(Debug)]
pub struct TracedOperand {
    /// The name in the op's contract.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// Where its elements lie in its memory, which starts at the lowest one.
    pub layout: Layout,
    /// What is known about its memory before the call.
    pub memory: Memory,
}

/// What a trace has of an operand's memory, from its lowest element to its highest.
#[derive(Clone, Debug, PartialEq)]
pub enum Memory {
    /// Nothing, as for outputs, and for floats in a trace without inputs.
    Unknown,
    /// The bytes.
    Bytes(Vec<u8>),
    /// The number of the block of data that has the bytes, see [`Blocks::read`].
    Block(usize),
    /// The smallest and the largest of its integers.
    Bounds(i64, i64),
}

/// Calls that are not in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// The op.
    pub op: String,
    /// Number of calls.
    pub calls: u64,
    /// Why they are not in the trace.
    pub reason: String,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a trace.
    #[error("is not a trace: it does not start with {START}")]
    NotATrace,
    /// The file has another version of the format.
    #[error("is a trace of version {0}, and this build reads version {VERSION}: record it again")]
    Version(String),
    /// A record is invalid.
    #[error("record {number}: {why}")]
    Record {
        /// The number of the record, from 1; the line of the file, if it has no data.
        number: usize,
        /// What is wrong with it.
        why: String,
    },
}
