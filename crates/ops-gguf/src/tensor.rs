//! Tensors: name, type, dimensions and data range.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use bytemuck::Pod;

use crate::error::{Error, Result};
use crate::ggml_type::GgmlType;
use crate::source::Source;

/// Maximum number of dimensions of a tensor.
pub(crate) const MAX_RANK: usize = 4;

/// A checked tensor description.
pub(crate) struct TensorInfo {
    pub(crate) name: Box<str>,
    pub(crate) ty: GgmlType,
    pub(crate) rank: usize,
    /// Outermost first; the last `MAX_RANK - rank` are unused.
    pub(crate) dims: [usize; MAX_RANK],
    /// Position of the data in the file.
    pub(crate) start: usize,
    /// Bytes of data, if the type is known.
    pub(crate) len: Option<usize>,
    /// Which of the model's files has the data.
    pub(crate) file: usize,
}

/// A tensor of a [`Gguf`](crate::Gguf): its description, and its data in place.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    pub(crate) info: &'a TensorInfo,
    pub(crate) source: &'a Arc<Source>,
}

impl<'a> Tensor<'a> {
    /// The tensor's name.
    pub fn name(&self) -> &'a str {
        &self.info.name
    }

    /// The type of its elements.
    pub fn ggml_type(&self) -> GgmlType {
        self.info.ty
    }

    /// The dimensions in elements, row-major: outermost first. (The file stores the innermost first.)
    pub fn dims(&self) -> &'a [usize] {
        &self.info.dims[..self.info.rank]
    }

    /// The dimensions in blocks: like [`Tensor::dims`], with the innermost divided by the block length.
    ///
    /// # Errors
    /// [`Error::TensorType`] if the type is unknown.
    pub fn block_dims(&self) -> Result<Vec<usize>> {
        let block = self.info.ty.block().ok_or_else(|| self.unknown_type())?;
        let mut dims = self.dims().to_vec();
        if let Some(inner) = dims.last_mut() {
            *inner /= block.len;
        }
        Ok(dims)
    }

    /// Number of elements: the product of the dimensions.
    pub fn elements(&self) -> usize {
        self.dims().iter().product() // checked when the file was opened
    }

    /// Position of the data in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.info.start as u64
    }

    /// The data as bytes, borrowed.
    ///
    /// # Errors
    /// [`Error::TensorType`] if the type, and therefore the length, is unknown.
    pub fn bytes(&self) -> Result<&'a [u8]> {
        Ok(&self.source.bytes()[self.range()?])
    }

    /// The data as elements or blocks: borrowed if the alignment allows, otherwise copied.
    ///
    /// `T` is the Rust type of the tensor's elements, or a `#[repr(C)]` struct with the layout of its blocks. GGUF files
    /// align tensors to 32 bytes by default, so data of a mapped file is borrowed for every usual `T`.
    ///
    /// # Errors
    /// [`Error::TensorType`] if the size of `T` differs from the tensor's block size, if `T` is a plain type other than the
    /// tensor's (f16 for a bf16 tensor), or if the tensor's type is unknown.
    pub fn view<T: Pod>(&self) -> Result<Cow<'a, [T]>> {
        self.check::<T>()?;
        let bytes = self.bytes()?;
        Ok(match bytemuck::try_cast_slice(bytes) {
            Ok(elements) => Cow::Borrowed(elements),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(bytes)),
        })
    }

    /// The data as a handle that may outlive the [`Gguf`](crate::Gguf); it keeps the file's memory alive.
    ///
    /// A backend that can use host memory in place adopts this handle without a copy. If the alignment does not allow it, the
    /// handle owns a copy.
    ///
    /// # Errors
    /// As [`Tensor::view`].
    pub fn data<T: Pod>(&self) -> Result<TensorData<T>> {
        let held = match self.view::<T>()? {
            Cow::Borrowed(_) => Storage::Shared { source: Arc::clone(self.source), range: self.range()? },
            Cow::Owned(copy) => Storage::Copied(copy.into()),
        };
        Ok(TensorData { held, of: PhantomData })
    }

    /// Like [`data`](Tensor::data), but as bytes at any alignment, for programs that know the element type
    /// only as a value.
    ///
    /// # Errors
    /// [`Error::TensorType`] if the tensor's type is unknown.
    pub fn raw_data(&self) -> Result<TensorData<u8>> {
        Ok(TensorData {
            held: Storage::Shared { source: Arc::clone(self.source), range: self.range()? },
            of: PhantomData,
        })
    }

    /// Part of the data; `part` must lie within it.
    pub(crate) fn raw_part(&self, part: Range<usize>) -> Result<TensorData<u8>> {
        let whole = self.range()?;
        let range = whole.start + part.start..whole.start + part.end;
        debug_assert!(range.end <= whole.end);
        let (source, range) = Source::narrowed(self.source, range);
        Ok(TensorData { held: Storage::Shared { source, range }, of: PhantomData })
    }

    fn range(&self) -> Result<Range<usize>> {
        let len = self.info.len.ok_or_else(|| self.unknown_type())?;
        Ok(self.info.start..self.info.start + len) // inside the file: checked when it was opened
    }

    fn check<T: Pod>(&self) -> Result<()> {
        let ty = self.info.ty;
        let block = ty.block().ok_or_else(|| self.unknown_type())?;
        let other = GgmlType::of::<T>().is_some_and(|of| of != ty);
        if size_of::<T>() != block.bytes || other {
            let got = format!("{ty}, {} bytes a block", block.bytes);
            return Err(
                self.wrong(got, format!("{} of {} bytes", std::any::type_name::<T>(), size_of::<T>()))
            );
        }
        Ok(())
    }

    fn unknown_type(&self) -> Error {
        self.wrong(self.info.ty.to_string(), "a type whose block size is known".to_owned())
    }

    pub(crate) fn wrong(&self, got: String, wanted: String) -> Error {
        Error::TensorType { name: self.info.name.to_string(), at: self.offset(), got, wanted }
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?} at {}", self.name(), self.ggml_type(), self.dims(), self.offset())
    }
}

/// A tensor's data, which can be kept and sent to other threads.
///
/// Clones share the memory, which is the file's mapping or the buffer it was read into. It is released when the last handle
/// and the [`Gguf`](crate::Gguf) are dropped.
pub struct TensorData<T> {
    held: Storage<T>,
    of: PhantomData<fn() -> T>,
}

enum Storage<T> {
    Shared { source: Arc<Source>, range: Range<usize> },
    Copied(Arc<[T]>),
}

impl<T> TensorData<T> {
    /// Whether this is the file's memory rather than a copy.
    pub fn is_shared(&self) -> bool {
        matches!(self.held, Storage::Shared { .. })
    }
}

impl<T: Pod> AsRef<[T]> for TensorData<T> {
    fn as_ref(&self) -> &[T] {
        match &self.held {
            // The cast succeeded when the handle was created, and the memory has not moved since.
            Storage::Shared { source, range } => bytemuck::cast_slice(&source.bytes()[range.clone()]),
            Storage::Copied(elements) => elements,
        }
    }
}

impl<T: Pod> Deref for TensorData<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        self.as_ref()
    }
}

impl<T> Clone for TensorData<T> {
    fn clone(&self) -> Self {
        let held = match &self.held {
            Storage::Shared { source, range } => {
                Storage::Shared { source: Arc::clone(source), range: range.clone() }
            }
            Storage::Copied(elements) => Storage::Copied(Arc::clone(elements)),
        };
        Self { held, of: PhantomData }
    }
}

impl<T: Pod> fmt::Debug for TensorData<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = std::any::type_name::<T>();
        write!(f, "{} × {name}{}", self.len(), if self.is_shared() { ", shared" } else { ", copied" })
    }
}
