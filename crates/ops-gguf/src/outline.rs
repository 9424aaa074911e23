//! The front of a file: metadata and tensor descriptions, without data.
use crate::error::{Error, Result};
use crate::foreign;
use crate::ggml_type::GgmlType;
use crate::metadata::Metadata;
use crate::parse::{self, Front};
use crate::source::open;
use crate::split;
use crate::tensor::TensorInfo;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How much of a file is read first. Vocabularies take a few megabytes.
const FIRST_READ: u64 = 1 << 20;

/// A file's metadata and the descriptions of its tensors. Opening reads only the front of the file and no
/// tensor data, so the file may be larger than this machine's memory.
///
/// ```no_run
/// let outline = rocm_ops::gguf::Outline::open("model.gguf")?;
/// for tensor in outline.tensors() {
///     println!("{:40} {:6} {:?}", tensor.name(), tensor.ggml_type().to_string(), tensor.dims());
/// }
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
pub struct Outline {
    front: Front,
    /// The model's files; one if it is not split.
    pub(crate) files: Vec<PathBuf>,
}

/// The description of one tensor.
#[derive(Clone, Copy)]
pub struct TensorOutline<'a> {
    pub(crate) info: &'a TensorInfo,
}

impl Outline {
    /// Reads and checks the front of a file, including the ranges of the tensors' data; if the file is the
    /// first part of a split model, does so for all parts.
    ///
    /// # Errors
    /// As [`Gguf::open`](crate::Gguf::open).
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let (front, files) = split::load(path.as_ref(), |path| Ok((Self::front(path)?, path.to_owned())))?;
        Ok(Outline { front, files })
    }

    fn front(path: &Path) -> Result<Front> {
        let (mut file, len) = open(path)?;
        let (mut bytes, mut wanted) = (Vec::new(), FIRST_READ);
        loop {
            let more = wanted.min(len) - bytes.len() as u64;
            let read = file.by_ref().take(more).read_to_end(&mut bytes);
            let read = read.map_err(|e| Error::io("read", path, e))?;
            foreign::check(path, &bytes)?;
            // A front longer than the part read so far looks truncated.
            match parse::front(&bytes, usize::try_from(len).unwrap_or(usize::MAX)) {
                Err(_) if read > 0 && (bytes.len() as u64) < len => wanted = wanted.saturating_mul(4),
                parsed => return parsed,
            }
        }
    }

    /// The model's files; one if it is not split.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The key-value pairs.
    pub fn metadata(&self) -> &Metadata {
        &self.front.metadata
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorOutline<'_>> {
        self.front.tensors.iter().map(|info| TensorOutline { info })
    }

    /// The tensor with this name, if it exists.
    pub fn find(&self, name: &str) -> Option<TensorOutline<'_>> {
        self.tensors().find(|tensor| tensor.name() == name)
    }
}

impl<'a> TensorOutline<'a> {
    /// The name.
    pub fn name(&self) -> &'a str {
        &self.info.name
    }
    /// The type of the elements or blocks.
    pub fn ggml_type(&self) -> GgmlType {
        self.info.ty
    }
    /// Extents in row-major order, in values.
    pub fn dims(&self) -> &'a [usize] {
        &self.info.dims[..self.info.rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Gguf, Writer};

    #[test]
    fn it_says_what_the_whole_file_says_however_long_the_front_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        for padding in [0, 3 << 20] {
            let mut writer = Writer::new();
            writer.set("general.architecture", "llama").unwrap();
            writer.set("general.description", "x".repeat(padding)).unwrap();
            writer.tensor("output_norm.weight", GgmlType::F32, &[4]).unwrap();
            writer.tensor("output.weight", GgmlType::F32, &[2, 4]).unwrap();
            let mut body = writer.create(&path).unwrap();
            body.write("output_norm.weight", &[1.0_f32; 4]).unwrap();
            body.write("output.weight", &[1.0_f32; 8]).unwrap();
            body.commit().unwrap();
            let (whole, outline) = (Gguf::open(&path).unwrap(), Outline::open(&path).unwrap());
            assert_eq!(outline.metadata().architecture().unwrap(), "llama");
            assert_eq!(outline.tensors().len(), 2);
            for (a, b) in whole.tensors().zip(outline.tensors()) {
                assert_eq!((a.name(), a.ggml_type(), a.dims()), (b.name(), b.ggml_type(), b.dims()));
            }
            // Truncated within its data, and within its front.
            let bytes = std::fs::read(&path).unwrap();
            for len in [bytes.len() - 1, 40, 0] {
                std::fs::write(&path, &bytes[..len]).unwrap();
                assert!(Outline::open(&path).is_err(), "{len} bytes");
            }
        }
    }
}
