//! Files that are read.
use std::fs::{self, File, Metadata};
use std::io;
use std::path::Path;

/// Opens a regular file. Opening a pipe may wait forever, and a device may have no end.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let check = |meta: Metadata| match meta.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    };
    check(fs::metadata(path)?)?;
    let file = File::open(path)?;
    // Again, because the path may lead elsewhere by now.
    check(file.metadata()?)?;
    Ok(file)
}
