//! Compiled kernels on disk: one file for each, found by a hash of its inputs.
//!
//! Files are written under a temporary name and then renamed, so that processes that share a folder see
//! complete files or none. Damaged or unrelated files are ignored and written again.
use super::evict::{self, CacheLimit, KERNEL, PART};
use super::identity;
use crate::fingerprint::Fingerprint;
use crate::hip::{CodeObject, Compiler, Gfx};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where compiled kernels are cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CacheFolder {
    /// `OPS_ROCM_CACHE`, or else `rocm-ops` in `XDG_CACHE_HOME` or in `~/.cache`. An empty `OPS_ROCM_CACHE`
    /// means no cache.
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
}

/// A folder of compiled kernels, for one compiler.
#[derive(Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    compiler: String,
    limit: CacheLimit,
}

/// Identifies a file: the name has the architecture for people, the hash covers the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key(u128);

const MAGIC: &[u8; 8] = b"opsrocm1";
/// Magic, key, length of the code, hash of the code.
const HEADER: usize = 8 + 16 + 8 + 16;

impl Disk {
    pub(super) fn new(folder: &CacheFolder, compiler: &Compiler, limit: CacheLimit) -> Option<Disk> {
        Some(Disk { folder: folder.path()?, compiler: identity::of(compiler), limit })
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

    /// Whether there is a file with this key, damaged or not.
    pub(super) fn holds(&self, key: Key) -> bool {
        self.file(key).is_file()
    }

    /// The code of a file that is undamaged and has this key.
    pub(super) fn read(&self, key: Key) -> Option<CodeObject> {
        let file = self.file(key);
        let bytes = match read_used(&file) {
            Ok(bytes) => bytes,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!("the cached kernel {} cannot be read: {error}", file.display());
                }
                return None;
            }
        };
        let code = unpack(&bytes, key);
        if code.is_none() {
            tracing::warn!("the cached kernel {} is damaged and is compiled again", file.display());
        }
        // SAFETY: the hash proves that these are the bytes a compiler wrote.
        code.map(|code| unsafe { CodeObject::from_bytes(code) })
    }

    /// Stores the code, and removes older kernels beyond the limit. Failures are logged and otherwise
    /// ignored.
    pub(super) fn write(&self, key: Key, code: &CodeObject) {
        let file = self.file(key);
        if let Err(error) = self.try_write(&file, &pack(key, &code.to_bytes())) {
            tracing::warn!(
                "a compiled kernel cannot be stored as {}: {error}; set OPS_ROCM_CACHE to another folder",
                file.display()
            );
        } else if let Err(error) = evict::evict(&self.folder, self.limit, &file) {
            tracing::warn!("old kernels in {} cannot be removed: {error}", self.folder.display());
        }
    }

    fn try_write(&self, file: &Path, bytes: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        create_folder(&self.folder)?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let part = self.folder.join(format!("{PART}{}-{number}", std::process::id()));
        let written = File::create(&part)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&part, file));
        if written.is_err() {
            let _ = fs::remove_file(&part);
        }
        written
    }
}

/// Reads a complete file and updates its time of last use.
fn read_used(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    evict::used(&file);
    Ok(bytes)
}

/// The folder holds code that will be executed, so only its owner may write to it.
fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
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
        let folder = std::env::temp_dir().join(format!("ops-rocm-disk-{}", std::process::id()));
        let limit = CacheLimit::default();
        let disk = Disk { folder: folder.join("made/on/demand"), compiler: String::new(), limit };
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
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_key_tells_every_part_apart() {
        let limit = CacheLimit::default();
        let disk = |compiler: &str| Disk { folder: PathBuf::new(), compiler: compiler.to_string(), limit };
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
