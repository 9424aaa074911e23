//! Models assembled in memory from files of other formats.

use std::ops::Range;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ggml_type::GgmlType;
use crate::gguf::Gguf;
use crate::metadata::Metadata;
use crate::parse::{DEFAULT_ALIGNMENT, Front, data_len, sort_by_name};
use crate::source::{Bytes, Source};
use crate::tensor::{MAX_RANK, TensorInfo};

/// Builds a [`Gguf`] from metadata and tensors in other files. The result equals that of a GGUF file with
/// these contents, and no data is copied.
///
/// ```
/// use rocm_ops::gguf::{Assembly, Bytes, GgmlType, Metadata};
///
/// let floats: Vec<u8> = [1.0_f32, 2.0, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
/// let bytes = Bytes::from(floats);
/// let mut model = Assembly::new(Metadata::new());
/// model.tensor("w", GgmlType::F32, &[1, 2], &[(bytes.clone(), 4..12)])?;
/// // The third dimension in two pieces, such as experts that were stored one by one.
/// model.tensor("stacked", GgmlType::F32, &[2, 1], &[(bytes.clone(), 8..12), (bytes, 0..4)])?;
/// let gguf = model.finish()?;
/// assert_eq!(gguf.tensor("w")?.view::<f32>()?[..], [2.0, 3.0]);
/// assert_eq!(gguf.tensor("stacked")?.view::<f32>()?[..], [3.0, 1.0]);
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
pub struct Assembly {
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    sources: Vec<Arc<Source>>,
}

impl Assembly {
    /// A model with this metadata and no tensors yet.
    pub fn new(metadata: Metadata) -> Self {
        Assembly { metadata, tensors: Vec::new(), sources: Vec::new() }
    }

    /// The metadata, to read or change.
    pub fn metadata(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Adds a tensor, outermost dimension first. Its bytes are all pieces, concatenated. Using a tensor of
    /// several pieces as a whole copies it; using a single piece does not.
    ///
    /// # Errors
    /// [`Error::Malformed`] for dimensions that `ty` cannot have, [`Error::Write`] if the pieces do not have the tensor's size.
    pub fn tensor(
        &mut self,
        name: &str,
        ty: GgmlType,
        dims: &[usize],
        pieces: &[(Bytes, Range<usize>)],
    ) -> Result<&mut Self> {
        let wrong = |got: String, wanted: String| Error::write(format_args!("tensor `{name}`"), got, wanted);
        let rank = dims.len();
        if rank > MAX_RANK {
            return Err(wrong(format!("{rank} dimensions"), format!("at most {MAX_RANK}")));
        }
        let len = data_len(ty, dims, name, 0)?;
        let lens = pieces.iter().map(|(bytes, part)| bytes.get(part.clone()).map(<[u8]>::len));
        let got = lens.sum::<Option<usize>>();
        if got.is_none() || got != len {
            let got = got.map_or("a piece outside its file".to_owned(), |n| format!("{n} bytes"));
            return Err(wrong(got, format!("{} for {dims:?} of {ty}", len.unwrap_or(0))));
        }
        let (source, start) = match pieces {
            [(bytes, part)] => (Arc::clone(&bytes.0), part.start),
            _ => {
                let pieces = pieces.iter().map(|(bytes, part)| (Arc::clone(&bytes.0), part.clone()));
                (Arc::new(Source::joined(pieces.collect())), 0)
            }
        };
        let file = self.index(source);
        let mut info = TensorInfo { name: name.into(), ty, rank, dims: [0; MAX_RANK], start, len, file };
        info.dims[..rank].copy_from_slice(dims);
        self.tensors.push(info);
        Ok(self)
    }

    /// The index of a file's entry, which all its tensors share.
    fn index(&mut self, source: Arc<Source>) -> usize {
        self.sources.iter().rposition(|known| Arc::ptr_eq(known, &source)).unwrap_or_else(|| {
            self.sources.push(source);
            self.sources.len() - 1
        })
    }

    /// The model.
    ///
    /// # Errors
    /// [`Error::Write`] if two tensors have one name.
    pub fn finish(self) -> Result<Gguf> {
        let Assembly { metadata, tensors, sources } = self;
        let by_name = sort_by_name(tensors.iter().map(|tensor| &*tensor.name), |first, _| {
            let what = format!("tensor `{}`", tensors[first].name);
            Error::write(what, "two tensors of this name", "unique names")
        })?;
        let front = Front { version: 3, alignment: DEFAULT_ALIGNMENT, metadata, tensors, by_name };
        Ok(Gguf::assembled(front, sources))
    }
}
