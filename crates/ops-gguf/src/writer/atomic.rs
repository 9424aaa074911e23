//! A file that appears complete or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

/// A file with a temporary name next to its destination. It is renamed when complete and removed otherwise.
pub struct AtomicFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    destination: PathBuf,
    committed: bool,
}

/// Distinguishes the temporary files of one process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

impl AtomicFile {
    /// Starts a file that appears as `destination` once it is [committed](Self::commit).
    ///
    /// # Errors
    /// The path has no file name, or no file can be created beside it.
    pub fn create(destination: &Path) -> Result<Self> {
        let Some(name) = destination.file_name() else {
            let source = io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name");
            return Err(Error::io("create", destination, source));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{}.tmp", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
        let temporary = destination.with_file_name(hidden);
        // Create a new file only, so that an unrelated file with this name is not overwritten.
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        let file = file.map_err(|e| Error::io("create", &temporary, e))?;
        Ok(Self {
            file: BufWriter::new(file),
            temporary,
            destination: destination.to_owned(),
            committed: false,
        })
    }

    /// Makes the file appear, replacing an existing one.
    ///
    /// # Errors
    /// The file cannot be written or renamed. Then no file appears.
    pub fn commit(mut self) -> Result<()> {
        let failed = |e| Error::io("write", &self.destination, e);
        self.file.flush().map_err(failed)?;
        // Sync before renaming: after a crash, either the old file or the complete new one exists.
        self.file.get_ref().sync_all().map_err(failed)?;
        fs::rename(&self.temporary, &self.destination).map_err(failed)?;
        self.committed = true;
        sync_folder(&self.destination);
        Ok(())
    }
}

/// Makes the new name durable if the system supports it. The file is complete either way.
fn sync_folder(path: &Path) {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    if let Ok(folder) = File::open(folder) {
        let _ = folder.sync_all();
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.committed {
            // A failure here can be ignored: the destination is untouched.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
