//! Errors of opening a library and of calling its functions.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A library could not be opened. The message is one line that names the library, every place that was searched with the
/// result there, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError(pub(crate) Box<Failure>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) library: &'static str,
    pub(crate) sonames: Vec<String>,
    pub(crate) kind: LoadErrorKind,
    pub(crate) notes: Vec<String>,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) advice: String,
}

/// The kind of a [`LoadError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// The library was not found in any place.
    NotFound,
    /// A file of that name exists, but the system's loader rejects it, or it is not the library.
    Unusable,
    /// The process would have, or has, two majors of the HIP runtime.
    TwoMajors {
        /// The HIP runtime that the process has loaded.
        loaded: PathBuf,
        /// The HIP runtime of the other major version.
        other: PathBuf,
    },
    /// The library would bring a second copy of the HIP runtime into the process.
    TwoCopies {
        /// The HIP runtime that the process has loaded.
        loaded: PathBuf,
        /// The copy that the library would bring.
        other: PathBuf,
    },
    /// ROCm's libraries are opened only on Linux.
    Platform,
}

/// One attempt to open a file, or a name through the system's loader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The file, or the bare soname for the system's loader.
    pub path: PathBuf,
    /// The result of the attempt.
    pub outcome: Outcome,
}

/// The result of an [`Attempt`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The file does not exist.
    Absent,
    /// The file exists and was rejected, for the loader's reason.
    Refused(String),
    /// The file was opened, but lacks this function and so is not the library.
    Lacks(&'static str),
}

impl LoadError {
    /// What was being opened, such as "the HIP runtime".
    pub fn library(&self) -> &'static str {
        self.0.library
    }

    /// The sonames that were searched, preferred first.
    pub fn sonames(&self) -> &[String] {
        &self.0.sonames
    }

    /// Why opening failed.
    pub fn kind(&self) -> &LoadErrorKind {
        &self.0.kind
    }

    /// All attempts, in order.
    pub fn attempts(&self) -> &[Attempt] {
        &self.0.attempts
    }

    /// What the user can do about it.
    pub fn advice(&self) -> &str {
        &self.0.advice
    }

    /// The folders that contain no file with any of the sonames, each listed once.
    fn empty_folders(&self) -> Vec<&Path> {
        let mut folders: Vec<&Path> = Vec::new();
        for attempt in self.0.attempts.iter().filter(|a| a.outcome == Outcome::Absent) {
            if let Some(folder) = attempt.path.parent().filter(|f| !f.as_os_str().is_empty())
                && !folders.contains(&folder)
            {
                folders.push(folder);
            }
        }
        folders
    }

    fn findings(&self) -> Vec<String> {
        let mut findings = self.0.notes.clone();
        let folders: Vec<_> = self.empty_folders().iter().map(|f| f.display().to_string()).collect();
        if !folders.is_empty() {
            findings.push(format!("no such file in {}", folders.join(", ")));
        }
        if self.0.attempts.iter().any(|a| a.outcome == Outcome::Absent && is_bare(&a.path)) {
            findings.push("the system's loader finds none".to_string());
        }
        for attempt in &self.0.attempts {
            let path = attempt.path.display();
            match &attempt.outcome {
                Outcome::Absent => {}
                Outcome::Refused(reason) => findings.push(format!("{path} cannot be loaded ({reason})")),
                Outcome::Lacks(function) => findings.push(format!("{path} does not export {function}")),
            }
        }
        findings
    }
}

/// Whether the path is a bare name, which the system's loader resolves.
pub(crate) fn is_bare(path: &Path) -> bool {
    path.parent().is_some_and(|folder| folder.as_os_str().is_empty())
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot load {} ({}): ", self.0.library, self.0.sonames.join(" or "))?;
        match &self.0.kind {
            LoadErrorKind::TwoMajors { loaded, other } => {
                let (loaded, other) = (loaded.display(), other.display());
                write!(
                    f,
                    "{other} is of another major version than {loaded}, which this process has loaded"
                )?;
            }
            LoadErrorKind::TwoCopies { loaded, other } => {
                let (loaded, other) = (loaded.display(), other.display());
                write!(
                    f,
                    "it would load {other} beside {loaded}, a second copy of the HIP runtime, which this process has"
                )?;
            }
            LoadErrorKind::Platform => write!(f, "this platform is {}", std::env::consts::OS)?,
            LoadErrorKind::NotFound | LoadErrorKind::Unusable => f.write_str(&self.findings().join("; "))?,
        }
        write!(f, "; {}", self.0.advice)
    }
}

impl std::error::Error for LoadError {}

/// A function that was called is missing in the library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingSymbol {
    /// The function's name.
    pub symbol: &'static str,
    /// The library's file.
    pub library: Arc<Path>,
}

impl fmt::Display for MissingSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} does not export {}: a newer or more complete ROCm is needed for it",
            self.library.display(),
            self.symbol
        )
    }
}

impl std::error::Error for MissingSymbol {}
