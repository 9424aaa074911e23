//! Errors in the arguments of a call.

use std::fmt;

/// Operands that do not match. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// An operand's length does not match the rest of the call.
    Length {
        /// The operand's name.
        operand: &'static str,
        /// Its length.
        got: usize,
        /// The length that the call requires.
        want: usize,
    },
    /// A length is not a multiple of the required factor.
    Multiple {
        /// The operand or dimension.
        operand: &'static str,
        /// Its length.
        got: usize,
        /// The required factor.
        of: usize,
    },
    /// A matrix extends beyond its slice.
    Bounds {
        /// The operand.
        operand: &'static str,
        /// Elements in the slice.
        len: usize,
        /// Elements that its dimensions and strides span, saturated.
        need: usize,
    },
    /// A range of rows or columns lies outside the matrix or does not start on a tile.
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
    /// Memory for packed weights is too small or not aligned to a cache line.
    Memory {
        /// Its size in bytes.
        got: usize,
        /// The required size in bytes.
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
                write!(f, "{operand} has {len} elements, but its dimensions and strides reach {need}")
            }
            Self::Range { operand, start, end, len } => {
                write!(f, "{operand} {start}..{end} is not a range of tiles within {len}")
            }
            Self::Memory { got, want } => {
                write!(f, "memory of {got} bytes, wanted {want} bytes aligned to 64")
            }
        }
    }
}

impl std::error::Error for Error {}

pub(crate) fn same_len(operand: &'static str, got: usize, want: usize) -> Result<(), Error> {
    if got == want { Ok(()) } else { Err(Error::Length { operand, got, want }) }
}

/// The number of rows of length `n` in `len` elements; 0 if `n` is 0.
pub(crate) fn rows(operand: &'static str, len: usize, n: usize) -> Result<usize, Error> {
    match len.checked_rem(n) {
        Some(0) => Ok(len / n),
        None if len == 0 => Ok(0),
        _ => Err(Error::Multiple { operand, got: len, of: n }),
    }
}
