//! Recognises files of other kinds by how they begin, so that an error can say what a file is.

use std::path::Path;

use crate::error::{Error, Result};

/// A kind of file that holds no GGUF model.
///
/// ```
/// let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
/// assert!(rocm_ops::gguf::ForeignFile::of(pointer).unwrap().name.contains("Git LFS"));
/// assert!(rocm_ops::gguf::ForeignFile::of(b"GGUF\x03\0\0\0").is_none());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFile {
    /// What the file is.
    pub name: &'static str,
    /// What the user can do.
    pub remedy: &'static str,
}

const CONVERT: &str = "convert it to GGUF or to a folder with safetensors";
const DOWNLOAD: &str = "download the file again";
const UNPACK: &str = "unpack it first";
const NO_MARK: &str = "save it as UTF-8 without the mark";

const LFS: ForeignFile = ForeignFile {
    name: "a pointer of Git LFS, not the file that it stands for",
    remedy: "get the file with `git lfs pull`, or download it",
};
const SAFETENSORS: ForeignFile = ForeignFile {
    name: "a safetensors file",
    remedy: "give the folder that holds it, config.json and tokenizer.json",
};
const JSON: ForeignFile =
    ForeignFile { name: "JSON", remedy: "give a GGUF file, or the folder that holds config.json" };
const WEB_PAGE: ForeignFile = ForeignFile { name: "a page of HTML or XML", remedy: DOWNLOAD };
const EMPTY: ForeignFile = ForeignFile { name: "an empty file", remedy: DOWNLOAD };

/// Kinds by their first bytes.
const BEGINNINGS: [(&[u8], ForeignFile); 14] = [
    (b"version https://git-lfs", LFS),
    (b"\xef\xbb\xbf", ForeignFile { name: "text with a byte order mark (UTF-8)", remedy: NO_MARK }),
    (b"\xff\xfe", ForeignFile { name: "text with a byte order mark (UTF-16)", remedy: NO_MARK }),
    (b"\xfe\xff", ForeignFile { name: "text with a byte order mark (UTF-16)", remedy: NO_MARK }),
    (b"PK\x03\x04", ForeignFile { name: "a ZIP archive, as PyTorch writes them", remedy: CONVERT }),
    (b"\x80\x02", ForeignFile { name: "a Python pickle", remedy: CONVERT }),
    (b"\x89HDF", ForeignFile { name: "an HDF5 file", remedy: CONVERT }),
    (b"lmgg", ForeignFile { name: "a GGML file, older than GGUF", remedy: CONVERT }),
    (b"fmgg", ForeignFile { name: "a GGML file, older than GGUF", remedy: CONVERT }),
    (b"tjgg", ForeignFile { name: "a GGML file, older than GGUF", remedy: CONVERT }),
    (b"algg", ForeignFile { name: "an adapter (LoRA) for GGML", remedy: "merge it into its model" }),
    (b"\x1f\x8b", ForeignFile { name: "a gzip archive", remedy: UNPACK }),
    (b"\x28\xb5\x2f\xfd", ForeignFile { name: "a Zstandard archive", remedy: UNPACK }),
    (b"7z\xbc\xaf", ForeignFile { name: "a 7z archive", remedy: UNPACK }),
];

impl ForeignFile {
    /// The kind of a file that begins with these bytes, if it is a known one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(EMPTY);
        }
        if let Some((_, kind)) = BEGINNINGS.iter().find(|(start, _)| bytes.starts_with(start)) {
            return Some(*kind);
        }
        // The length of the header, and the header.
        if bytes.get(6..9) == Some(b"\0\0{") {
            return Some(SAFETENSORS);
        }
        match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Some(JSON),
            Some(b'<') => Some(WEB_PAGE),
            _ => None,
        }
    }

    /// Whether this is a file of JSON.
    pub fn is_json(&self) -> bool {
        *self == JSON
    }

    /// Whether this is a safetensors file.
    pub fn is_safetensors(&self) -> bool {
        *self == SAFETENSORS
    }
}

/// Refuses a file that does not begin as GGUF does, and says what it is.
pub(crate) fn check(path: &Path, bytes: &[u8]) -> Result<()> {
    if bytes.starts_with(b"GGUF") || bytes.starts_with(b"FUGG") {
        return Ok(());
    }
    let (got, remedy) = match ForeignFile::of(bytes) {
        Some(ForeignFile { name, remedy }) => (name.to_owned(), remedy),
        None => {
            let start = bytes[..bytes.len().min(4)].escape_ascii();
            (format!("a file of an unknown kind, which begins with \"{start}\""), CONVERT)
        }
    };
    Err(Error::Foreign { path: path.to_owned(), got, wanted: "a GGUF file", remedy })
}
