//! Shared by several test files.
#![allow(dead_code, unreachable_pub)] // each test file uses only some of these

use std::path::PathBuf;

/// The bundled model.
pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/tiny-llama-kjv-q8_0.gguf");

/// A JSON file from tests/data.
pub fn fixture(name: &str) -> serde_json::Value {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data")).join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A path for a file that only this test uses.
pub fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// A GGUF file assembled by hand, so that it can be invalid.
#[derive(Clone, Default)]
pub struct Raw(pub Vec<u8>);

impl Raw {
    /// The header of a version 3 file with these counts.
    pub fn v3(tensors: u64, pairs: u64) -> Self {
        Self::default().bytes(b"GGUF").u32(3).u64(tensors).u64(pairs)
    }

    pub fn bytes(mut self, b: &[u8]) -> Self {
        self.0.extend_from_slice(b);
        self
    }

    pub fn u32(self, n: u32) -> Self {
        self.bytes(&n.to_le_bytes())
    }

    pub fn u64(self, n: u64) -> Self {
        self.bytes(&n.to_le_bytes())
    }

    pub fn str(self, s: &str) -> Self {
        self.u64(s.len() as u64).bytes(s.as_bytes())
    }

    /// A key with a u32 value.
    pub fn pair(self, key: &str, value: u32) -> Self {
        self.str(key).u32(4).u32(value)
    }

    /// A tensor description; dimensions in the file's order, innermost first.
    pub fn tensor(self, name: &str, dims: &[u64], ty: u32, offset: u64) -> Self {
        let head = self.str(name).u32(dims.len() as u32);
        dims.iter().fold(head, |raw, &d| raw.u64(d)).u32(ty).u64(offset)
    }

    /// Pads to the alignment and appends `len` bytes of data.
    pub fn data(mut self, alignment: usize, len: usize) -> Self {
        self.0.resize(self.0.len().next_multiple_of(alignment) + len, 0);
        self
    }
}
