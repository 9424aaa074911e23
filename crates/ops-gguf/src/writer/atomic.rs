//! A file that appears complete or not at all.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::{Error, Result};

/// A file with a temporary name next to its destination. It is renamed when complete and removed otherwise.
///
/// Symbolic links are followed: the file that they lead to is replaced, and keeps its mode. A destination that exists and is
/// not a regular file is refused. Temporary files that ended processes left for this destination are removed.
///
/// A signal that ends the process drops nothing. A program that handles signals calls [`AtomicFile::remove_all`] first.
pub struct AtomicFile {
    file: BufWriter<File>,
    temporary: PathBuf,
    destination: PathBuf,
    committed: bool,
}

/// Distinguishes the temporary files of one process.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// The temporary files of this process.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn temporary_files() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is valid after any panic.
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AtomicFile {
    /// Starts a file that appears as `destination` once it is [committed](Self::commit).
    ///
    /// # Errors
    /// The path has no file name, it exists and is not a regular file that can be written, or no file can be created beside it.
    pub fn create(destination: impl AsRef<Path>) -> Result<Self> {
        let named = destination.as_ref();
        let failed = |e| Error::io("create", named, e);
        let (destination, replaced) = resolve(named).map_err(failed)?;
        let Some(prefix) = prefix(&destination) else {
            return Err(failed(io::Error::new(ErrorKind::InvalidInput, "the path has no file name")));
        };
        remove_leftovers(&destination, &prefix);
        let mut options = OpenOptions::new();
        // Create a new file only, so that an unrelated file with this name is not overwritten.
        options.write(true).create_new(true);
        #[cfg(unix)]
        if replaced.is_some() {
            // Nobody else may read a private file before it has its mode.
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        let (temporary, file) = loop {
            let mut name = prefix.clone();
            name.push(format!("{}-{}{SUFFIX}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed)));
            let temporary = destination.with_file_name(name);
            // Locked, so that `remove_all` misses no file.
            let mut files = temporary_files();
            match options.open(&temporary) {
                Ok(file) => {
                    files.push(temporary.clone());
                    break (temporary, file);
                }
                // Left by an earlier process with the same number.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(failed(e)),
            }
        };
        // Tells other processes that the file is in use. Not every file system has locks.
        let _ = file.try_lock();
        let created = Self { file: BufWriter::new(file), temporary, destination, committed: false };
        if let Some(replaced) = replaced {
            created.take_over(&replaced).map_err(failed)?;
        }
        Ok(created)
    }

    /// Writes a whole file, which appears complete or not at all.
    ///
    /// # Errors
    /// As [`create`](Self::create) and [`commit`](Self::commit).
    pub fn save(destination: impl AsRef<Path>, contents: &[u8]) -> Result<()> {
        let destination = destination.as_ref();
        let mut file = Self::create(destination)?;
        file.file.write_all(contents).map_err(|e| Error::io("write", destination, e))?;
        file.commit()
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
        sync_folder(folder(&self.destination));
        Ok(())
    }

    /// Removes the temporary files of this process, and blocks threads that would create another. Call it only just before the
    /// process ends, as after a signal.
    pub fn remove_all() {
        let files = temporary_files();
        for file in &*files {
            // Committed in this moment, or already removed.
            let _ = fs::remove_file(file);
        }
        std::mem::forget(files);
    }

    /// Gives the new file the mode of the old one, and its owner where the system permits it.
    fn take_over(&self, replaced: &Metadata) -> io::Result<()> {
        let file = self.file.get_ref();
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (replaced.uid(), replaced.gid()) {
                let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
            }
        }
        // After the owner, because a change of owner clears some bits.
        file.set_permissions(replaced.permissions())
    }
}

const SUFFIX: &str = ".tmp";

/// What the names of a destination's temporary files begin with. Process and number follow.
fn prefix(destination: &Path) -> Option<OsString> {
    let mut prefix = OsString::from(".");
    prefix.push(destination.file_name()?);
    prefix.push(".");
    Some(prefix)
}

/// Where a path leads, and what is there: a regular file that can be written, or nothing.
fn resolve(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    let there = match fs::metadata(path) {
        Ok(meta) if meta.is_file() => Some(meta),
        Ok(_) => {
            let wanted = "it exists and is not a regular file; name a regular file or a new one";
            return Err(io::Error::new(ErrorKind::InvalidInput, wanted));
        }
        Err(e) if e.kind() == ErrorKind::NotFound => None,
        Err(e) => return Err(e),
    };
    let end = follow(path)?;
    if there.is_some() {
        // A rename needs no permission for the file that it replaces.
        OpenOptions::new().write(true).open(&end)?;
    }
    Ok((end, there))
}

/// Follows symbolic links, also one that leads to a file that does not exist yet.
fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    // As many as Linux follows.
    for _ in 0..40 {
        match fs::read_link(&path) {
            Ok(to) => path = folder(&path).join(to),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links"))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Removes temporary files for this destination whose processes have ended.
fn remove_leftovers(destination: &Path, prefix: &OsStr) {
    let Some(prefix) = prefix.to_str() else { return };
    for entry in fs::read_dir(folder(destination)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| process(name, prefix));
        if process.is_some_and(|process| has_ended(process, &entry.path())) {
            // The next run tries again.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The process in the name of a temporary file.
fn process(name: &str, prefix: &str) -> Option<u32> {
    let (process, number) = name.strip_prefix(prefix)?.strip_suffix(SUFFIX)?.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Whether the process that created this file has ended. Its number may be in use again, or may be that of a process in another
/// container, which `/proc` does not show but which holds a lock.
fn has_ended(process: u32, file: &Path) -> bool {
    let processes = Path::new("/proc");
    let runs = match process == std::process::id() {
        true => temporary_files().iter().any(|own| own.file_name() == file.file_name()),
        false => processes.join(process.to_string()).exists(),
    };
    if runs || !fs::symlink_metadata(file).is_ok_and(|meta| meta.is_file()) {
        return false;
    }
    match File::open(file).map(|file| file.try_lock()) {
        Ok(Ok(())) => true,
        Ok(Err(TryLockError::WouldBlock)) => false,
        // Without locks, `/proc` decides.
        Ok(Err(TryLockError::Error(_))) | Err(_) => processes.join("self").exists(),
    }
}

/// Makes the new name durable if the system supports it. The file is complete either way.
fn sync_folder(folder: &Path) {
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
        let mut files = temporary_files();
        files.retain(|file| *file != self.temporary);
        if !self.committed {
            // A failure here can be ignored: the destination is untouched.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
