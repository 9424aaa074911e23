//! Golden cases: op calls in files, with the results that another implementation computed in float64.
//!
//! A file is a `.safetensors` with tensors `in.<operand>` and `out.<operand>`, and metadata:
//!
//! | key | value |
//! |---|---|
//! | `op`, `dtype` | the op, and the element type it runs in (a cast's input) |
//! | `params` | a JSON object with the op's options |
//! | `limit.<operand>` | the largest `nmse` of an output, or `exact` |
//! | `view.in.<operand>` | `{"shape", "strides", "offset"}`, in elements of the flattened tensor |
//! | `view.out.<operand>` | the same and `len`, the storage to be written through the view |
//!
//! In-place forms are named `rope_inplace` and the like, or have the output `out.x`.
//!
//! Blocks are stored as `u8`, the bytes of a row of blocks as the last axis, or the bytes of each
//! block as one more axis. Views of them count blocks. The format is the option `format` (`to`,
//! `type`, `qtype` and `block` are understood too), or else the case's `dtype`.
//!
//! A case with an operand, parameter, element type or block format that this build does not know is
//! unsupported, and its reason names what is not known: it is never run without it. Other metadata, such as
//! `source`, are notes.
//!
//! Nothing in a file is trusted: sizes and views are checked before use.
use crate::dispatch::Runner;
use crate::judge::Want;
use crate::{CallError, Case, SuiteBackend};
use ops_core::DType;
use ops_core::ops::registry;
use std::fmt;
use std::path::Path;

mod compare;
mod file;
mod prepare;
mod tally;

pub use tally::Tally;

/// Why a file holds no case.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It is not in the format.
    #[error("is not a safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// It says nothing of a case.
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
    /// The file cannot be read, is in another format, or does not name an op. Anything else that is
    /// wrong with a case is told by [`replay`](Golden::replay).
    pub fn load(path: impl AsRef<Path>) -> Result<Self, FileError> {
        Self::parse(&std::fs::read(path)?)
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

    /// Runs the case and compares.
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

/// How a case ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// As it should.
    Ok,
    /// With a wrong result, or memory outside a view written.
    Fail,
    /// The backend, or core, does not have the op in these types.
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

/// One line of a replay; `Display` writes it.
#[derive(Clone, Debug)]
pub struct CaseResult {
    /// The op.
    pub op: String,
    /// The element type it ran in.
    pub dtype: String,
    /// The shape of the first operand.
    pub shape: Vec<usize>,
    /// How it ended.
    pub status: Status,
    /// The error of the worst output, unless all are exact.
    pub nmse: Option<f64>,
    /// What was allowed for it.
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

/// The element type of this name, which for a file may also be a block format.
fn dtype(name: &str) -> Result<DType, CallError> {
    registry::dtype(name).ok_or_else(|| CallError::NotOffered(format!("not offered in {name}")))
}

#[cfg(test)]
mod tests;
