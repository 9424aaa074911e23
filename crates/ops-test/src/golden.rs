//! Golden cases: op calls in files, with results that another implementation computed in float64.
//!
//! A file is a `.safetensors` with tensors `in.<operand>` and `out.<operand>`, and metadata:
//!
//! | key | value |
//! |---|---|
//! | `op`, `dtype` | the op, and the element type it runs in (a cast's input) |
//! | `params` | a JSON object with the op's options |
//! | `limit.<operand>` | the largest `nmse` of an output, or `exact` |
//! | `view.in.<operand>` | `{"shape", "strides", "offset"}`, in elements of the flattened tensor |
//! | `view.out.<operand>` | the same and `len`, the length of the storage that is written through the view |
//!
//! In-place forms have a name such as `rope_inplace`, or the output `out.x`.
//!
//! Blocks are stored as `u8`. The last axis is either the bytes of a row of blocks, or the bytes of one
//! block. Views of blocks count blocks. The format is given by the option `format` (or `to`, `type`, `qtype`
//! or `block`), or else by the case's `dtype`.
//!
//! If this build does not know an operand, parameter, element type or block format of a case, the case is
//! unsupported, and the reason names what is unknown. It is never run without it. Other metadata, such as
//! `source`, is ignored.
//!
//! Files are not trusted: sizes and views are checked before use.
use crate::dispatch::Runner;
use crate::judge::Want;
use crate::{CallError, Case, SuiteBackend, open_regular};
use ops_core::DType;
use ops_core::ops::registry;
use std::fmt;
use std::io::Read;
use std::path::Path;

mod compare;
mod file;
mod prepare;
mod tally;

pub use tally::Tally;

/// Why a file is not a golden case.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// The file is not in the format.
    #[error("is not a safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// The metadata does not describe a case.
    #[error("is not a golden case: {0}")]
    Metadata(String),
}

/// A case from a file, ready to be run on any backend.
#[derive(Debug)]
pub struct Golden {
    op: String,
    dtype: String,
    shape: Vec<usize>,
    call: Result<(Case, Vec<Want>), CallError>,
}

impl Golden {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is in another format, or does not name an op. [`replay`](Golden::replay) reports all other
    /// problems of a case.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let mut bytes = Vec::new();
        open_regular(path.as_ref())?.read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    /// Reads the contents of a file.
    ///
    /// # Errors
    /// As [`load`](Golden::load).
    pub fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        let file = file::File::parse(bytes)?;
        let shape = file.first_shape();
        let (op, dtype) = (file.op.clone(), file.dtype.clone());
        Ok(Golden { op, dtype, shape, call: prepare::case(file) })
    }

    /// The op's name.
    pub fn op(&self) -> &str {
        &self.op
    }
    /// The element type's name.
    pub fn dtype(&self) -> &str {
        &self.dtype
    }

    /// Runs the case and compares the results.
    pub fn replay<B: SuiteBackend>(&self, backend: &B) -> CaseResult {
        self.on(backend)
    }

    fn on(&self, backend: &dyn Runner) -> CaseResult {
        let (case, wants) = match &self.call {
            Ok(call) => call,
            Err(e) => return CaseResult::not_run(self, e),
        };
        match backend.call(case) {
            Ok(ran) => CaseResult::of(self, case, wants, &ran),
            Err(e) => CaseResult::not_run(self, &e),
        }
    }
}

/// The result of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The results are correct.
    Ok,
    /// A result is wrong, or memory outside a view was written.
    Fail,
    /// The backend or this build does not have the op for these types.
    Unsupported,
    /// The call failed, or the case is malformed.
    Error,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Ok => "ok",
            Status::Fail => "fail",
            Status::Unsupported => "unsupported",
            Status::Error => "error",
        })
    }
}

/// One line of a replay, as `Display` writes it.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The op.
    pub op: String,
    /// The element type it ran in.
    pub dtype: String,
    /// The shape of the first operand.
    pub shape: Vec<usize>,
    /// The result.
    pub status: Status,
    /// The error of the worst output, unless all are exact.
    pub nmse: Option<f64>,
    /// The limit for this error.
    pub limit: Option<f64>,
    /// What was wrong or missing.
    pub reason: Option<String>,
}

impl fmt::Display for CaseResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(f, "{} {} [{}] {}", self.op, self.dtype, shape.join(","), self.status)?;
        if let (Some(nmse), Some(limit)) = (self.nmse, self.limit) {
            write!(f, " nmse {nmse:.3e} limit {limit:.3e}")?;
        }
        match &self.reason {
            Some(reason) => write!(f, " {reason}"),
            None => Ok(()),
        }
    }
}

/// The element type with this name; in a file, it may also be a block format.
fn dtype(name: &str) -> Result<DType, CallError> {
    registry::dtype(name).ok_or_else(|| CallError::Unsupported(format!("not available in {name}")))
}
