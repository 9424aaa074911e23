//! Golden cases that are part of this program: a small one of nearly every op and element type.
use crate::exit::Failure;
use ops_gguf::AtomicFile;
use std::path::{Path, PathBuf};

/// A golden case.
struct Case {
    op: &'static str,
    name: &'static str,
    bytes: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/golden.rs"));

/// Number of cases in this program, of [`TOTAL`] in the repository.
pub(super) const EMBEDDED: usize = CASES.len();

/// Writes the cases of an op into a folder, where `ops replay` reads them.
pub(super) fn unpack(op: &str, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unwritten = |error: ops_gguf::Error| Failure::Usage(error.to_string());
    let write = |case: &Case| {
        let file = folder.join(case.name);
        AtomicFile::save(&file, case.bytes).map_err(unwritten)?;
        Ok(file)
    };
    CASES.iter().filter(|case| case.op == op).map(write).collect()
}
