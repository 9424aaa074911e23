//! Limits the size of a folder of compiled kernels: the least recently used ones are removed first.
//!
//! A file's modification time is the time of its last use. Processes that share a folder need no lock. Each
//! lists the folder again; a file that another process has removed counts as removed, and one used after the
//! listing stays. A process that misses a file compiles it again.
use crate::error::failed;
use crate::own_files::PART;
use ops_core::Result;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Bytes of compiled kernels that a folder keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheLimit(u64);

impl CacheLimit {
    const VARIABLE: &str = "OPS_ROCM_CACHE_MIB";
    const DEFAULT_MIB: u64 = 1024;

    /// The value of `OPS_ROCM_CACHE_MIB`, in MiB; 1024 if unset.
    pub(crate) fn from_env() -> Result<Self> {
        match std::env::var(Self::VARIABLE) {
            Ok(text) if !text.is_empty() => {
                let mib = text.trim().parse::<u64>().ok().and_then(|mib| mib.checked_mul(1 << 20));
                let why = || format!("{text:?} is not a number of MiB; unset it for {}", Self::DEFAULT_MIB);
                mib.map(CacheLimit).ok_or_else(|| failed("reading OPS_ROCM_CACHE_MIB", why()))
            }
            _ => Ok(CacheLimit::default()),
        }
    }

    pub(super) fn mib(self) -> u64 {
        self.0 >> 20
    }

    #[cfg(test)]
    pub(super) fn bytes(bytes: u64) -> Self {
        CacheLimit(bytes)
    }
}

impl Default for CacheLimit {
    fn default() -> Self {
        CacheLimit(Self::DEFAULT_MIB << 20)
    }
}

/// The extension of compiled kernel files.
pub(super) const KERNEL: &str = "co";
/// A partial file older than this was left by a process that died.
const PART_AGE: Duration = Duration::from_secs(3600);

/// Marks a file as used now. If the process does not own the file, its time stays unchanged.
pub(super) fn used(file: &File) {
    let _ = file.set_modified(SystemTime::now());
}

struct CachedKernel {
    path: PathBuf,
    used: SystemTime,
    bytes: u64,
}

/// Removes the least recently used kernels until the rest is within the limit, and files left by dead
/// processes. `keep` stays, even if it alone exceeds the limit.
///
/// # Errors
/// The folder cannot be listed, or a file cannot be removed.
pub(super) fn evict(folder: &Path, CacheLimit(limit): CacheLimit, keep: &Path) -> io::Result<()> {
    let mut kernels = list(folder)?;
    let mut total: u64 = kernels.iter().map(|kernel| kernel.bytes).sum();
    kernels.sort_by(|a, b| (a.used, &a.path).cmp(&(b.used, &b.path)));
    for CachedKernel { path, used, bytes } in kernels {
        if total <= limit {
            break;
        }
        let used_since =
            fs::symlink_metadata(&path).and_then(|meta| meta.modified()).is_ok_and(|now| now != used);
        if path == keep || used_since {
            continue;
        }
        remove(&path)?;
        total -= bytes;
    }
    Ok(())
}

/// The kernels in a folder. Removes partial files that no process is writing any more.
fn list(folder: &Path) -> io::Result<Vec<CachedKernel>> {
    let mut kernels = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        // Another process may have removed it since. What is not a regular file is not ours.
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if !meta.is_file() {
            continue;
        }
        let Ok(used) = meta.modified() else { continue };
        if path.extension().is_some_and(|extension| extension == KERNEL) {
            kernels.push(CachedKernel { path, used, bytes: meta.len() });
        } else if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PART))
            && used.elapsed().is_ok_and(|age| age > PART_AGE)
        {
            remove(&path)?;
        }
    }
    Ok(kernels)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this size, last used `age` seconds ago.
    fn put(folder: &Path, name: &str, bytes: usize, age: u64) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, vec![1; bytes]).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        path
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_longest_unused_go_first_and_other_files_stay() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        for (name, age) in [("a.co", 30), ("b.co", 50), ("c.co", 40), ("d.co", 0)] {
            put(folder, name, 100, age);
        }
        let tuning = "tuning-gfx1100-96.toml";
        put(folder, tuning, 1000, 1_000_000);
        put(folder, "part-1-0", 1000, 10);
        put(folder, "part-1-1", 1000, 10_000);
        let all = ["a.co", "b.co", "c.co", "d.co", "part-1-0", tuning];
        let keep = folder.join("d.co");
        evict(folder, CacheLimit::bytes(400), &keep).unwrap();
        assert_eq!(names(folder), all, "within the limit");
        used(&File::open(folder.join("b.co")).unwrap());
        evict(folder, CacheLimit::bytes(250), &keep).unwrap();
        assert_eq!(names(folder), ["b.co", "d.co", "part-1-0", tuning]);
        evict(folder, CacheLimit::bytes(1), &keep).unwrap();
        assert_eq!(names(folder), ["d.co", "part-1-0", tuning], "the file just written stays");
    }

    #[test]
    fn several_at_once_remove_no_more_than_one_would() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        for round in 0..20 {
            for file in 0..20 {
                put(folder, &format!("{file:02}.co"), 10, 100 - file);
            }
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| evict(folder, CacheLimit::bytes(100), &folder.join("19.co")).unwrap());
                }
            });
            let left: Vec<_> = (10..20).map(|file| format!("{file}.co")).collect();
            assert_eq!(names(folder), left, "round {round}");
        }
    }
}
