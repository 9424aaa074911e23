//! What can be wrong with a call.

use std::fmt;

/// A call whose slices do not fit together. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An operand has another length than the rest of the call asks for.
    Length {
        /// Its name.
        operand: &'static str,
        /// Its length.
        got: usize,
        /// What it should be.
        want: usize,
    },
    /// A length that should be a multiple of another is not.
    Multiple {
        /// The operand or dimension.
        operand: &'static str,
        /// Its length.
        got: usize,
        /// What it should be a multiple of.
        of: usize,
    },
    /// A matrix reaches beyond its slice.
    Bounds {
        /// The operand.
        operand: &'static str,
        /// Elements in the slice.
        len: usize,
        /// Elements that its dimensions and strides reach, saturated.
        need: usize,
    },
    /// A task's rows or columns lie outside the matrix, or do not begin on a tile.
    Range {
        /// The dimension.
        operand: &'static str,
        /// First index.
        start: usize,
        /// One past the last index.
        end: usize,
        /// The dimension's length.
        len: usize,
    },
    /// Memory for repacked weights is too small, or does not begin on a cache line.
    Memory {
        /// Its bytes.
        got: usize,
        /// Bytes needed.
        want: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { operand, got, want } => write!(f, "{operand} has {got} elements, wanted {want}"),
            Self::Multiple { operand, got, of } => {
                write!(f, "{operand} has {got} elements, wanted a multiple of {of}")
            }
            Self::Bounds { operand, len, need } => {
                write!(f, "{operand} has {len} elements, its dimensions and strides reach {need}")
            }
            Self::Range { operand, start, end, len } => {
                write!(f, "{operand} {start}..{end} is not a range of tiles within {len}")
            }
            Self::Memory { got, want } => {
                write!(f, "memory of {got} bytes, wanted {want} that begin on a line of 64")
            }
        }
    }
}

impl std::error::Error for Error {}

pub(crate) fn same_len(operand: &'static str, got: usize, want: usize) -> Result<(), Error> {
    if got == want { Ok(()) } else { Err(Error::Length { operand, got, want }) }
}

/// The number of rows of `n` in `len`; none when `n` is 0.
pub(crate) fn rows(operand: &'static str, len: usize, n: usize) -> Result<usize, Error> {
    match len.checked_rem(n) {
        Some(0) => Ok(len / n),
        None if len == 0 => Ok(0),
        _ => Err(Error::Multiple { operand, got: len, of: n }),
    }
}
