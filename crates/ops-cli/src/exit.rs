//! How a run of the command ends.
use ops_core::ops::registry::Refused;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// What was found, if everything could be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Nothing to complain of.
    Fine,
    /// A check failed.
    CheckFailed,
    /// Some input could not be read; what could be was done.
    Unreadable,
}

/// Why nothing could be done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line asks for what there is not.
    Usage(String),
    /// Standard output or a report cannot be written.
    Write(String, io::Error),
    /// An op or a transfer failed where it should not.
    Op(ops_core::Error),
}

impl Outcome {
    /// Fine, or a failed check.
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Outcome::Fine } else { Outcome::CheckFailed }
    }
}

impl Failure {
    /// Whether the reader of the output has gone, as `head` does: nothing to tell anyone.
    fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Write(_, e) if e.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) => f.write_str(message),
            Failure::Write(what, e) => write!(f, "cannot write {what}: {e}"),
            Failure::Op(e) => e.fmt(f),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Usage(message)
    }
}
impl From<ops_core::Error> for Failure {
    fn from(e: ops_core::Error) -> Self {
        Failure::Op(e)
    }
}
impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Usage(refused.to_string())
    }
}
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Write("standard output".into(), e)
    }
}

/// 0 fine, 1 a check failed, 2 bad usage or unreadable input.
pub(crate) fn code(result: &Result<Outcome, Failure>) -> ExitCode {
    match result {
        Ok(Outcome::Fine) => ExitCode::SUCCESS,
        Err(e) if e.is_closed_pipe() => ExitCode::SUCCESS,
        Ok(Outcome::CheckFailed) | Err(Failure::Op(_)) => ExitCode::from(1),
        Ok(Outcome::Unreadable) | Err(_) => ExitCode::from(2),
    }
}

/// Says why nothing was done, in one line.
pub(crate) fn tell(result: &Result<Outcome, Failure>) {
    if let Err(e) = result
        && !e.is_closed_pipe()
    {
        eprintln!("ops: {e}");
    }
}
