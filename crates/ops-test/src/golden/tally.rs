//! Replays a folder of cases on one backend and counts the results.
use super::{FileError, Golden, Status};
use crate::SuiteBackend;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// The results of the cases of a folder; `Display` writes all of it.
#[derive(Debug, Default)]
pub struct Tally {
    ok: usize,
    /// Unsupported cases, counted by what this build does not have.
    unsupported: BTreeMap<String, usize>,
    fail: Vec<String>,
    error: Vec<String>,
}

impl Tally {
    /// Replays every case of a folder, in order of name.
    ///
    /// # Errors
    /// The folder or one of its cases cannot be read.
    pub fn of<B: SuiteBackend>(backend: &B, folder: &Path) -> Result<Self, FileError> {
        Self::where_op(backend, folder, |_| true)
    }

    /// Replays the cases of a folder whose op is selected, in order of name.
    ///
    /// # Errors
    /// As [`of`](Tally::of).
    pub fn where_op<B: SuiteBackend>(
        backend: &B,
        folder: &Path,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, FileError> {
        let paths: Result<Vec<PathBuf>, _> = std::fs::read_dir(folder)?.map(|e| Ok(e?.path())).collect();
        let mut paths = paths.map_err(FileError::Io)?;
        paths.retain(|p| p.extension().is_some_and(|e| e == "safetensors"));
        paths.sort();
        let mut tally = Tally::default();
        for path in paths {
            let golden = Golden::load(&path)?;
            if !wanted(golden.op()) {
                continue;
            }
            let result = golden.replay(backend);
            let name = || format!("{}: {result}", path.file_stem().unwrap_or_default().display());
            match result.status {
                Status::Ok => tally.ok += 1,
                Status::Fail => tally.fail.push(name()),
                Status::Error => tally.error.push(name()),
                Status::Unsupported => {
                    let reason = result.reason.as_deref().unwrap_or_default();
                    *tally.unsupported.entry(format!("{}: {reason}", result.op)).or_default() += 1;
                }
            }
        }
        Ok(tally)
    }

    /// Number of correct cases.
    pub fn ok(&self) -> usize {
        self.ok
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ok", self.ok)?;
        writeln!(f, "{} unsupported", self.unsupported.values().sum::<usize>())?;
        self.unsupported.iter().try_for_each(|(reason, count)| writeln!(f, "  {count} {reason}"))?;
        for (word, cases) in [("fail", &self.fail), ("error", &self.error)] {
            writeln!(f, "{} {word}", cases.len())?;
            cases.iter().try_for_each(|case| writeln!(f, "  {case}"))?;
        }
        Ok(())
    }
}
