//! An open file and its contents.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::foreign;
use crate::metadata::Metadata;
use crate::parse::{self, Front};
use crate::source::{Bytes, Source};
use crate::split;
use crate::tensor::{Tensor, TensorInfo};

/// A GGUF file: its metadata, and its tensors by name, with their data used in place.
///
/// Opening checks the whole structure: every length, count, offset and string against the file's size, and every tensor's
/// data range against all others. It does not access the tensors' data.
///
/// ```no_run
/// use rocm_ops::gguf::Gguf;
///
/// let gguf = Gguf::open("model.gguf")?;
/// println!("{} with {} blocks", gguf.metadata().architecture()?, gguf.metadata().arch_u32("block_count")?);
/// for tensor in gguf.tensors() {
///     println!("{:40} {:6} {:?}", tensor.name(), tensor.ggml_type().to_string(), tensor.dims());
/// }
/// let norm = gguf.tensor("output_norm.weight")?.data::<f32>()?; // shares the memory
/// drop(gguf);
/// println!("{}", norm[0]);
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
pub struct Gguf {
    front: Front,
    /// The files; a model that is not split has one.
    sources: Vec<Arc<Source>>,
    /// The first file, if the model was opened as one.
    #[cfg_attr(not(feature = "tokenizer"), allow(dead_code))]
    path: Option<PathBuf>,
}

impl Gguf {
    /// Opens a file by reading all of it into memory. Later changes to the file have no effect.
    ///
    /// If the file is the first part of a split model, `NAME-00001-of-0000N.gguf`, the other parts are opened
    /// as well, and the result is as if the model were in one file.
    ///
    /// [`Gguf::map`] reads only the pages that are used, and shares memory between processes.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be opened or read, [`Error::Foreign`] if it is no GGUF file, [`Error::Unsupported`] for other
    /// versions and byte orders,
    /// [`Error::Malformed`] if the file violates the format, [`Error::Part`] and [`Error::Split`] for a part that is missing or
    /// wrong.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, &mut |path| Bytes::read(path))
    }

    /// Opens a file by mapping it into memory. Nothing is copied, pages are read on first access, and processes that map the
    /// same file share its memory.
    ///
    /// To replace a model, write the new file to another name in the same folder and rename it over the old one, as this
    /// crate's [`Writer`](crate::Writer) and package managers do. The mapping then keeps the old file.
    ///
    /// # Safety
    /// While the `Gguf` or anything taken from it is alive, the file must not be changed in place. If another program
    /// truncates it, accessing the lost pages ends this process with a bus error. If another program writes to it, bytes
    /// change that the compiler assumes constant, which is undefined behaviour. If you cannot rule that out, as on a network
    /// share or in an upload folder, use [`Gguf::open`].
    ///
    /// # Errors
    /// As [`Gguf::open`].
    ///
    /// ```compile_fail,E0133
    /// let gguf = rocm_ops::gguf::Gguf::map("model.gguf")?; // `unsafe` is missing
    /// # Ok::<(), rocm_ops::gguf::Error>(())
    /// ```
    /// ```no_run
    /// // SAFETY: the file is installed with the program, and updates rename a new one over it.
    /// let gguf = unsafe { rocm_ops::gguf::Gguf::map("/usr/share/models/model.gguf")? };
    /// # Ok::<(), rocm_ops::gguf::Error>(())
    /// ```
    pub unsafe fn map(path: impl AsRef<Path>) -> Result<Self> {
        // SAFETY: the caller upholds the contract.
        Self::open_with(path, &mut |path| unsafe { Bytes::map(path) })
    }

    /// Opens a file, or all parts of a split one, whose bytes `read` provides.
    ///
    /// # Errors
    /// As [`Gguf::open`], and errors of `read`.
    pub fn open_with(path: impl AsRef<Path>, read: &mut dyn FnMut(&Path) -> Result<Bytes>) -> Result<Self> {
        let path = path.as_ref();
        let (front, sources) = split::load(path, |path| {
            let bytes = read(path)?;
            foreign::check(path, &bytes)?;
            Ok((parse::front(&bytes, bytes.len())?, bytes.0))
        })?;
        Ok(Self { front, sources, path: Some(path.to_owned()) })
    }

    /// Parses a file that is already in memory.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn from_bytes(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let source = Source::Given(bytes.into());
        let front = parse::front(source.bytes(), source.bytes().len())?;
        Ok(Self { front, sources: vec![Arc::new(source)], path: None })
    }

    /// A model whose tensors lie in these sources.
    pub(crate) fn assembled(front: Front, sources: Vec<Arc<Source>>) -> Self {
        Self { front, sources, path: None }
    }

    /// The version of the format: 2 or 3.
    pub fn version(&self) -> u32 {
        self.front.version
    }

    /// The alignment of tensor data in the file.
    pub fn alignment(&self) -> usize {
        self.front.alignment
    }

    /// The size of all files in bytes.
    pub fn file_len(&self) -> u64 {
        self.sources.iter().map(|source| source.len() as u64).sum()
    }

    /// The key-value pairs.
    pub fn metadata(&self) -> &Metadata {
        &self.front.metadata
    }

    /// All tensors, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = Tensor<'_>> {
        self.front.tensors.iter().map(|info| self.with_data(info))
    }

    /// The tensor with this name, if it exists.
    pub fn find(&self, name: &str) -> Option<Tensor<'_>> {
        let Front { tensors, by_name, .. } = &self.front;
        let i = by_name.binary_search_by(|&i| (*tensors[i as usize].name).cmp(name)).ok()?;
        Some(self.with_data(&tensors[by_name[i] as usize]))
    }

    /// The tensor with this name.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], which says so if the file is one part of a split model.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        self.find(name).ok_or_else(|| {
            let parts = self.metadata().find::<u64>("split.count").ok().flatten().unwrap_or(1);
            let hint = if parts > 1 {
                format!("; the file is one of {parts} parts of a model")
            } else {
                String::new()
            };
            Error::MissingTensor { name: name.to_owned(), count: self.front.tensors.len(), hint }
        })
    }

    /// The tokenizer that the metadata describes.
    ///
    /// # Errors
    /// As [`Tokenizer::from_metadata`](crate::Tokenizer::from_metadata).
    #[cfg(feature = "tokenizer")]
    pub fn tokenizer(&self) -> Result<crate::Tokenizer> {
        let rows = self.find("token_embd.weight").and_then(|tensor| tensor.dims().first().copied());
        Ok(crate::Tokenizer::of_file(self.metadata(), self.path.as_deref())?.with_rows(rows.unwrap_or(0)))
    }

    fn with_data<'a>(&'a self, info: &'a TensorInfo) -> Tensor<'a> {
        Tensor { info, source: &self.sources[info.file] }
    }
}

impl fmt::Debug for Gguf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gguf")
            .field("version", &self.version())
            .field("alignment", &self.alignment())
            .field("metadata", self.metadata())
            .field("tensors", &self.tensors().collect::<Vec<_>>())
            .finish()
    }
}
