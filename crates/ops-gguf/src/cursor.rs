//! A bounds-checked forward reader for the file's header.

use std::fmt::Display;

use bytemuck::Pod;

use crate::error::{Error, Result};

/// A position in the file. Every method takes the name of what it reads, for the error if the file ends too early.
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves back to an earlier position.
    pub(crate) fn seek_back(&mut self, at: usize) {
        self.at = self.at.min(at);
    }

    pub(crate) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, len: usize, what: impl Display) -> Result<&'a [u8]> {
        let Some(taken) = self.bytes[self.at..].get(..len) else {
            let wanted = format!("{len} bytes");
            return Err(Error::malformed(
                what,
                self.at,
                format!("end of file after {}", self.left()),
                wanted,
            ));
        };
        self.at += len;
        Ok(taken)
    }

    pub(crate) fn number<T: Pod>(&mut self, what: impl Display) -> Result<T> {
        Ok(bytemuck::pod_read_unaligned(self.take(size_of::<T>(), what)?))
    }

    /// Reads a count of items that take at least `min_bytes` bytes each, and fails if the rest of the file cannot hold that
    /// many.
    pub(crate) fn count(&mut self, min_bytes: usize, what: impl Display + Copy) -> Result<usize> {
        let at = self.at;
        let count: u64 = self.number(what)?;
        let max_count = self.left() / min_bytes.max(1);
        match usize::try_from(count) {
            Ok(count) if count <= max_count => Ok(count),
            _ => {
                let wanted =
                    format!("at most {max_count}, because {} bytes are left in the file", self.left());
                Err(Error::malformed(what, at, count, wanted))
            }
        }
    }

    pub(crate) fn string(&mut self, what: impl Display + Copy) -> Result<&'a str> {
        let len = self.count(1, format_args!("length of {what}"))?;
        let at = self.at;
        let bytes = self.take(len, what)?;
        std::str::from_utf8(bytes).map_err(|e| {
            let bad = bytes[e.valid_up_to()];
            Error::malformed(what, at + e.valid_up_to(), format!("byte 0x{bad:02x}"), "UTF-8 text")
        })
    }
}
