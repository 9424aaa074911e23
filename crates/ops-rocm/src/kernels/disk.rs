//! Compiled kernels on disk: one file for each, found by a hash of its inputs.
//!
//! Files are written under a temporary name and then renamed, so that processes that share a folder see
//! complete files or none. Damaged or unrelated files are ignored and written again, and so are those that another user
//! may have written: the hash in a file shows that it is complete, not who wrote it.
use super::evict::{self, CacheLimit, KERNEL};
use super::identity;
use crate::fingerprint::Fingerprint;
use crate::hip::{CodeObject, Compiler, Gfx};
use crate::own_files;
use crate::sync::Mutex;
use std::io;
use std::path::PathBuf;

/// Where compiled kernels are cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheFolder {
    /// `OPS_ROCM_CACHE`, or else `rocm-ops` in `XDG_CACHE_HOME` or in `~/.cache`. An empty `OPS_ROCM_CACHE`
    /// means no cache.
    ///
    /// As any other, the folder is not used if it belongs to another user or if others can write to it, and neither is
    /// such a file, because the kernels in it are executed.
    #[default]
    Standard,
    /// This folder.
    At(PathBuf),
    /// Nowhere: every process compiles what it uses.
    Nowhere,
}

impl CacheFolder {
    /// The folder, if there is one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            CacheFolder::At(path) => Some(path.clone()),
            CacheFolder::Nowhere => None,
            CacheFolder::Standard => match std::env::var_os("OPS_ROCM_CACHE") {
                Some(path) => Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty()),
                None => {
                    let folder = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
                    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
                    Some(cache.join("rocm-ops"))
                }
            },
        }
    }

    /// The folder if it can be used.
    ///
    /// # Errors
    /// Why there is none, or why it is not used: other users may have written its files.
    pub fn usable(&self) -> Result<PathBuf, String> {
        let folder = self.path().ok_or_else(|| match self {
            CacheFolder::Nowhere => "this program uses no cache".to_owned(),
            _ if std::env::var_os("OPS_ROCM_CACHE").is_some() => "OPS_ROCM_CACHE is empty".to_owned(),
            _ => "there is no home folder; set OPS_ROCM_CACHE to a folder".to_owned(),
        })?;
        match own_files::folder_problem(&folder) {
            None => Ok(folder),
            Some(why) => Err(format!("{why}; set OPS_ROCM_CACHE to another folder")),
        }
    }
}

/// A folder of compiled kernels, for one compiler.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    compiler: String,
    limit: CacheLimit,
    /// Why a kernel could not be stored.
    failure: Mutex<Option<String>>,
}

/// Maximum size of a file; the largest unit has a few MiB.
const MAX_BYTES: u64 = 1 << 28;

/// Identifies a file: the name has the architecture for people, the hash covers the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

const MAGIC: &[u8; 8] = b"opsrocm1";
/// Magic, key, length of the code, hash of the code.
const HEADER: usize = 8 + 16 + 8 + 16;

impl Disk {
    /// # Errors
    /// As [`CacheFolder::usable`].
    pub(super) fn new(folder: &CacheFolder, compiler: &Compiler, limit: CacheLimit) -> Result<Disk, String> {
        Ok(Disk {
            folder: folder.usable()?,
            compiler: identity::of(compiler),
            limit,
            failure: Mutex::default(),
        })
    }

    pub(super) fn key(&self, gfx: &Gfx, options: &[String], text: &str) -> Key {
        let mut hash = Fingerprint::new();
        for part in [self.compiler.as_str(), gfx.full(), &options.join("\n"), text] {
            hash.text(part);
        }
        Key(hash.value())
    }

    fn file(&self, Key(hash): Key) -> PathBuf {
        self.folder.join(format!("{hash:032x}.{KERNEL}"))
    }

    /// Whether there is a file with this key, damaged or not, that would be read.
    pub(super) fn holds(&self, key: Key) -> bool {
        own_files::open(&self.file(key)).is_ok_and(|(_, meta)| meta.len() <= MAX_BYTES)
    }

    /// The folder if it has files with all these keys, or else why some were not stored.
    pub(super) fn holds_all(&self, keys: impl IntoIterator<Item = Key>) -> Result<PathBuf, String> {
        if keys.into_iter().all(|key| self.holds(key)) {
            return Ok(self.folder.clone());
        }
        Err(self.failure.lock().clone().unwrap_or_else(|| {
            let (folder, mib) = (self.folder.display(), self.limit.mib());
            format!("{folder} keeps at most {mib} MiB, less than these kernels; raise OPS_ROCM_CACHE_MIB")
        }))
    }

    /// The code of a file that is undamaged and has this key.
    pub(super) fn read(&self, key: Key) -> Option<CodeObject> {
        let file = self.file(key);
        let bytes = match own_files::read(&file, MAX_BYTES) {
            Ok((opened, bytes)) => {
                evict::used(&opened);
                bytes
            }
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("the cached kernel {} is not used: {error}", file.display());
                }
                return None;
            }
        };
        let code = unpack(&bytes, key);
        if code.is_none() {
            tracing::warn!("the cached kernel {} is damaged and is compiled again", file.display());
        }
        // SAFETY: the file is complete, and only this user can have written it.
        code.map(|code| unsafe { CodeObject::from_bytes(code) })
    }

    /// Stores the code, and removes older kernels beyond the limit. Failures are logged and otherwise
    /// ignored.
    pub(super) fn write(&self, key: Key, code: &CodeObject) {
        let file = self.file(key);
        let bytes = pack(key, &code.to_bytes());
        let written = match bytes.len() as u64 {
            ..=MAX_BYTES => own_files::write(&file, &bytes),
            bytes => Err(io::Error::other(format!("it has {bytes} bytes; at most {MAX_BYTES} are stored"))),
        };
        if let Err(error) = written {
            let why = format!(
                "a compiled kernel cannot be stored as {}: {error}; set OPS_ROCM_CACHE to another folder",
                file.display()
            );
            tracing::warn!("{why}");
            self.failure.lock().get_or_insert(why);
        } else if let Err(error) = evict::evict(&self.folder, self.limit, &file) {
            tracing::warn!("old kernels in {} cannot be removed: {error}", self.folder.display());
        }
    }
}

fn pack(Key(key): Key, code: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + code.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&key.to_le_bytes());
    bytes.extend_from_slice(&(code.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&Fingerprint::of(code).to_le_bytes());
    bytes.extend_from_slice(code);
    bytes
}

fn unpack(bytes: &[u8], Key(key): Key) -> Option<&[u8]> {
    let (magic, rest) = bytes.split_first_chunk::<8>()?;
    let (of, rest) = rest.split_first_chunk::<16>()?;
    let (length, rest) = rest.split_first_chunk::<8>()?;
    let (hash, code) = rest.split_first_chunk::<16>()?;
    let whole = magic == MAGIC
        && u128::from_le_bytes(*of) == key
        && u64::from_le_bytes(*length) == code.len() as u64
        && u128::from_le_bytes(*hash) == Fingerprint::of(code);
    whole.then_some(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    impl Disk {
        fn of(folder: PathBuf, compiler: &str) -> Disk {
            let (compiler, limit) = (compiler.to_owned(), CacheLimit::default());
            Disk { folder, compiler, limit, failure: Mutex::default() }
        }
    }

    #[test]
    fn a_damaged_or_foreign_file_is_not_taken() {
        let (code, key) = (b"code that was compiled", Key(7));
        let whole = pack(key, code);
        assert_eq!(unpack(&whole, key), Some(&code[..]));
        assert_eq!(unpack(&whole, Key(8)), None, "another key");
        for length in 0..whole.len() {
            assert_eq!(unpack(&whole[..length], key), None, "cut to {length} bytes");
        }
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 1;
            assert_eq!(unpack(&damaged, key), None, "byte {byte}");
        }
        assert_eq!(unpack(&[whole.as_slice(), b"x"].concat(), key), None, "with a tail");
    }

    #[test]
    fn writers_of_one_file_leave_a_whole_one_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::of(folder.path().join("made/on/demand"), "");
        let key = disk.key(&Gfx::parse("gfx1100").unwrap(), &[], "text");
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        // SAFETY: it is never loaded.
                        disk.write(key, &unsafe { CodeObject::from_bytes(&[3; 100_000]) });
                        assert_eq!(disk.read(key).unwrap().to_bytes(), vec![3; 100_000]);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(&disk.folder).unwrap().count(), 1);
    }

    #[test]
    fn a_key_tells_every_part_apart() {
        let disk = |compiler: &str| Disk::of(PathBuf::new(), compiler);
        let key = |compiler, gfx, option: &str, text| {
            disk(compiler).key(&Gfx::parse(gfx).unwrap(), &[option.to_string()], text)
        };
        let one = key("a", "gfx90a", "-O3", "text");
        assert_eq!(one, key("a", "gfx90a", "-O3", "text"));
        for other in [
            key("b", "gfx90a", "-O3", "text"),
            key("a", "gfx90a:xnack-", "-O3", "text"),
            key("a", "gfx90a", "-O2", "text"),
            key("a", "gfx90a", "-O3", "text "),
        ] {
            assert_ne!(one, other);
        }
    }
}
