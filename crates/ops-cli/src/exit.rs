//! Exit status and error messages.
use ops_command::{closed_pipe, stderr};
use ops_core::ops::registry::Refused;
use std::fmt;
use std::io;

/// The result of a command that ran to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Exit status 0.
    Fine,
    /// A check failed: exit status 1.
    CheckFailed,
    /// Some input could not be read, the rest was processed: exit status 2.
    Unreadable,
    /// Ctrl-C ended it, in good order: exit status 130.
    Interrupted,
}

/// Why a command stopped.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line names something that does not exist or is not valid.
    Usage(String),
    /// Standard output or a report, which the text names, cannot be written.
    Write(String, io::Error),
    /// An op or a transfer failed unexpectedly.
    Op(ops_core::Error),
    /// Running a model failed, or writing what came of it.
    Model(Box<dyn std::error::Error>),
}

impl Outcome {
    pub(crate) fn of(passed: bool) -> Self {
        if passed { Outcome::Fine } else { Outcome::CheckFailed }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(message) => f.write_str(message),
            Failure::Write(what, e) => write!(f, "cannot write {what}: {e}"),
            Failure::Op(e) => e.fmt(f),
            Failure::Model(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Failure::Write(_, e) => Some(e),
            Failure::Model(e) => Some(&**e),
            Failure::Usage(_) | Failure::Op(_) => None,
        }
    }
}

impl From<Box<dyn std::error::Error>> for Failure {
    fn from(error: Box<dyn std::error::Error>) -> Self {
        match error.downcast::<ops_models::Error>().map(|error| *error) {
            Ok(ops_models::Error::Op(error)) => Failure::Op(error),
            Ok(error) => Failure::Model(error.into()),
            Err(error) => {
                error.downcast::<ops_core::Error>().map_or_else(Failure::Model, |e| Failure::Op(*e))
            }
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

/// The exit status: 0 fine, 1 a check failed, 2 bad usage or unreadable input.
///
/// A failure is written to standard error, in one line. That the reader of the output has exited, as `head` does, is none.
pub(crate) fn end(result: Result<Outcome, Failure>) -> u8 {
    if let Err(e) = &result {
        if let Some(status) = closed_pipe(e) {
            return status;
        }
        writeln!(stderr(), "ops: {e}");
    }
    match result {
        Ok(Outcome::Fine) => 0,
        Ok(Outcome::CheckFailed) | Err(Failure::Op(_)) => 1,
        Ok(Outcome::Interrupted) => 130,
        Ok(Outcome::Unreadable) | Err(_) => 2,
    }
}
