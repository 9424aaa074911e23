//! Writes GGUF files, version 3.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use bytemuck::Pod;

pub use atomic::AtomicFile;
use encode::Encoder;

use crate::error::{Error, Result};
use crate::ggml_type::GgmlType;
use crate::metadata::{Metadata, Value, check_pair};
use crate::parse::{self, ALIGNMENT_KEY};
use crate::tensor::MAX_RANK;

mod atomic;
mod encode;

/// Maximum length of a tensor name in bytes: the C library stores names in 64 bytes with a closing NUL.
const MAX_NAME: usize = 63;

/// Maximum alignment that is written; larger ones would only add padding.
const MAX_ALIGNMENT: usize = 1 << 16;

/// Plans a GGUF file: its metadata and its tensors. [`Writer::create`] then writes everything before the
/// tensor data and returns a [`Body`], which takes the data of one tensor after another without holding it in
/// memory.
///
/// ```
/// use rocm_ops::gguf::{Gguf, GgmlType, Writer};
///
/// let mut writer = Writer::new();
/// writer.set("general.architecture", "llama")?;
/// writer.tensor("token_embd.weight", GgmlType::F32, &[2, 3])?; // two rows of three
/// let mut body = writer.write_to(Vec::new())?;
/// body.write("token_embd.weight", &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let bytes = body.finish()?;
///
/// let gguf = Gguf::from_bytes(bytes)?;
/// let tensor = gguf.tensor("token_embd.weight")?;
/// assert_eq!(tensor.dims(), [2, 3]);
/// assert_eq!(tensor.view::<f32>()?[4], 5.0);
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Writer {
    metadata: Metadata,
    tensors: Vec<Planned>,
    names: HashSet<Box<str>>,
}

#[derive(Clone, Debug)]
struct Planned {
    name: Box<str>,
    ty: GgmlType,
    dims: Vec<usize>,
    len: usize,
}

impl Writer {
    /// Creates a plan without metadata or tensors.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a plan with existing metadata.
    pub fn with_metadata(metadata: Metadata) -> Self {
        Self { metadata, ..Self::default() }
    }

    /// Sets a metadata key; see [`Metadata::set`].
    pub fn set(&mut self, key: impl AsRef<str>, value: impl Into<Value>) -> Result<&mut Self> {
        self.metadata.set(key, value)?;
        Ok(self)
    }

    /// Sets the alignment of tensor data: a power of two up to 65536, 32 by default. This sets the metadata key
    /// `general.alignment`.
    ///
    /// # Errors
    /// [`Error::Write`] for any other number.
    pub fn alignment(&mut self, alignment: u32) -> Result<&mut Self> {
        check_alignment(alignment as usize)?;
        self.set(ALIGNMENT_KEY, alignment)
    }

    /// Adds a tensor to the plan: its name, type and dimensions in elements, outermost first.
    ///
    /// # Errors
    /// [`Error::Write`] if the name is empty, longer than 63 bytes or already used, if there are more than 4 dimensions, if
    /// the type is unknown, or if a row is not a whole number of blocks.
    pub fn tensor(&mut self, name: impl AsRef<str>, ty: GgmlType, dims: &[usize]) -> Result<&mut Self> {
        let name = name.as_ref();
        let wrong =
            |got: String, wanted: &str| Err(Error::write(format_args!("tensor `{name:.80}`"), got, wanted));
        if name.is_empty() || name.len() > MAX_NAME {
            return wrong(format!("a name of {} bytes", name.len()), &format!("1 to {MAX_NAME} bytes"));
        }
        if self.names.contains(name) {
            return wrong("a second tensor of this name".to_owned(), "unique names");
        }
        if dims.len() > MAX_RANK {
            return wrong(format!("{} dimensions", dims.len()), &format!("at most {MAX_RANK}"));
        }
        let len = match parse::data_len(ty, dims, name, 0) {
            Ok(Some(len)) => len,
            Ok(None) => return wrong(ty.to_string(), "a type whose block size is known"),
            Err(Error::Malformed { got, wanted, .. }) => return wrong(got, &wanted),
            Err(other) => return Err(other),
        };
        self.names.insert(name.into());
        self.tensors.push(Planned { name: name.into(), ty, dims: dims.to_vec(), len });
        Ok(self)
    }

    /// Starts a file. [`Body::commit`] makes it appear under `path` and replaces an existing file atomically. Until then it
    /// is a temporary file in the same folder, which is removed if anything fails.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be written; see also [`Writer::write_to`].
    pub fn create(self, path: impl AsRef<Path>) -> Result<Body<AtomicFile>> {
        let path = path.as_ref();
        let front = self.front()?;
        let sink = AtomicFile::create(path)?;
        Body::start(self.tensors, front, sink, path.to_owned())
    }

    /// Starts a file in any writer, such as a buffer or a socket.
    ///
    /// # Errors
    /// [`Error::Write`] if `general.alignment` was set to something other than a power of two up to 65536, [`Error::Io`] if
    /// the writer fails.
    pub fn write_to<W: Write>(self, sink: W) -> Result<Body<W>> {
        let front = self.front()?;
        Body::start(self.tensors, front, sink, PathBuf::from("<stream>"))
    }

    /// Encodes everything before the tensor data.
    fn front(&self) -> Result<Front> {
        let alignment = parse::alignment(&self.metadata)?;
        check_alignment(alignment)?;
        let mut out = Encoder::default();
        out.raw(b"GGUF");
        out.u32(3);
        out.u64(self.tensors.len() as u64);
        out.u64(self.metadata.len() as u64);
        for (key, value) in self.metadata.iter() {
            // Metadata read from a file may have keys that the format does not allow; do not write them.
            check_pair(key, value)?;
            out.string(key);
            out.value(value);
        }
        let mut offset = 0_u64;
        for tensor in &self.tensors {
            out.string(&tensor.name);
            out.u32(tensor.dims.len() as u32);
            tensor.dims.iter().rev().for_each(|&d| out.u64(d as u64));
            out.u32(tensor.ty.0);
            out.u64(offset);
            offset = end_of(offset, tensor, alignment)?;
        }
        out.bytes.resize(out.bytes.len().next_multiple_of(alignment), 0);
        Ok(Front { bytes: out.bytes, alignment })
    }
}

struct Front {
    bytes: Vec<u8>,
    alignment: usize,
}

/// The offset of the tensor after `tensor`.
fn end_of(offset: u64, tensor: &Planned, alignment: usize) -> Result<u64> {
    let end =
        offset.checked_add(tensor.len as u64).and_then(|end| end.checked_next_multiple_of(alignment as u64));
    end.ok_or_else(|| {
        Error::write(format_args!("tensor `{}`", tensor.name), "more than 2^64 bytes", "a smaller file")
    })
}

fn check_alignment(alignment: usize) -> Result<()> {
    if alignment.is_power_of_two() && alignment <= MAX_ALIGNMENT {
        return Ok(());
    }
    Err(Error::write(ALIGNMENT_KEY, alignment, format_args!("a power of two up to {MAX_ALIGNMENT}")))
}

/// A file that expects the tensors' data in the order in which they were planned.
pub struct Body<W: Write> {
    sink: W,
    path: PathBuf,
    tensors: std::vec::IntoIter<Planned>,
    alignment: usize,
    /// Set if a write failed midway: later data would be misplaced.
    broken: bool,
}

impl<W: Write> Body<W> {
    fn start(tensors: Vec<Planned>, front: Front, mut sink: W, path: PathBuf) -> Result<Self> {
        sink.write_all(&front.bytes).map_err(|e| Error::io("write", &path, e))?;
        Ok(Self { sink, path, tensors: tensors.into_iter(), alignment: front.alignment, broken: false })
    }

    /// The tensor whose data is expected next; `None` if all are written.
    pub fn due(&self) -> Option<&str> {
        self.tensors.as_slice().first().map(|t| &*t.name)
    }

    /// Writes a tensor's data from memory, as bytes, elements or blocks.
    ///
    /// # Errors
    /// [`Error::Write`] if another tensor is expected or the size differs from the plan, [`Error::Io`] if the writer fails.
    pub fn write<T: Pod>(&mut self, name: &str, data: &[T]) -> Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let wanted = self.planned_len(name)?;
        if bytes.len() != wanted {
            return Err(Error::write(
                format_args!("tensor `{name}`"),
                format_args!("{} bytes", bytes.len()),
                format_args!("{wanted}"),
            ));
        }
        self.copy_from(name, bytes)
    }

    /// Writes a tensor's data from a reader, which must have exactly the planned number of bytes.
    ///
    /// # Errors
    /// As [`Body::write`]. After a reader that fails or has another length, the file cannot be finished.
    pub fn copy_from(&mut self, name: &str, reader: impl Read) -> Result<()> {
        let len = self.planned_len(name)?;
        self.broken = true;
        let mut reader = reader.take(len as u64 + 1);
        let copied =
            std::io::copy(&mut reader, &mut self.sink).map_err(|e| Error::io("write", &self.path, e))?;
        if copied != len as u64 {
            let got = if copied > len as u64 { "more bytes".to_owned() } else { format!("{copied} bytes") };
            return Err(Error::write(format_args!("tensor `{name}`"), got, len));
        }
        self.pad(len)?;
        self.tensors.next();
        self.broken = false;
        Ok(())
    }

    /// Writes a tensor's data in parts, which must add up to the planned number of bytes.
    ///
    /// # Errors
    /// The first error among the parts; otherwise as [`Body::copy_from`].
    pub fn write_parts<P: AsRef<[u8]>>(
        &mut self,
        name: &str,
        parts: impl IntoIterator<Item = Result<P>>,
    ) -> Result<()> {
        let len = self.planned_len(name)?;
        self.broken = true;
        let mut written = 0_usize;
        for part in parts {
            let part = part?;
            let part = part.as_ref();
            written = written.saturating_add(part.len());
            if written > len {
                return Err(Error::write(format_args!("tensor `{name}`"), "more bytes", len));
            }
            self.sink.write_all(part).map_err(|e| Error::io("write", &self.path, e))?;
        }
        if written < len {
            return Err(Error::write(format_args!("tensor `{name}`"), format_args!("{written} bytes"), len));
        }
        self.pad(len)?;
        self.tensors.next();
        self.broken = false;
        Ok(())
    }

    /// Finishes the file and returns the writer.
    ///
    /// # Errors
    /// [`Error::Write`] if a tensor's data is missing, [`Error::Io`] if the writer fails.
    pub fn finish(mut self) -> Result<W> {
        self.check_whole()?;
        self.sink.flush().map_err(|e| Error::io("write", &self.path, e))?;
        Ok(self.sink)
    }

    fn check_whole(&self) -> Result<()> {
        match self.due() {
            Some(name) => {
                Err(Error::write(format_args!("tensor `{name}`"), "the end of the file", "the tensor's data"))
            }
            None => Ok(()),
        }
    }

    fn planned_len(&self, name: &str) -> Result<usize> {
        let wrong = |wanted| Err(Error::write(format_args!("tensor `{name:.80}`"), "its data", wanted));
        match self.tensors.as_slice().first() {
            _ if self.broken => wrong("a file whose last write did not fail".to_owned()),
            Some(due) if *due.name == *name => Ok(due.len),
            Some(due) => wrong(format!("those of `{}`, planned before it", due.name)),
            None => wrong("the end of the file: all planned tensors are written".to_owned()),
        }
    }

    fn pad(&mut self, len: usize) -> Result<()> {
        let zeros = [0_u8; 256];
        let mut left = len.next_multiple_of(self.alignment) - len;
        while left > 0 {
            let n = left.min(zeros.len());
            self.sink.write_all(&zeros[..n]).map_err(|e| Error::io("write", &self.path, e))?;
            left -= n;
        }
        Ok(())
    }
}

impl Body<AtomicFile> {
    /// Finishes the file and renames it to its destination.
    ///
    /// # Errors
    /// As [`Body::finish`]. An existing file of that name then remains untouched.
    pub fn commit(self) -> Result<()> {
        self.finish()?.commit()
    }
}
