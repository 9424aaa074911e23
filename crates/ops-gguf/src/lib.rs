//! GGUF model files: reading without copies, writing, and the tokenizers that they contain.
//!
//! - [`Gguf`] opens a file of version 2 or 3, or all parts of a split one, checks its whole structure, and
//!   gives access to
//!   [`Metadata`] and [`Tensor`]s. Tensor data is used in place: [`Tensor::view`] borrows it,
//!   and [`Tensor::data`] shares the file's
//!   memory. A split model is one `Gguf` over several files; each tensor knows its own.
//! - [`Writer`] streams files of version 3. A file appears complete or not at all.
//! - [`Tokenizer`] converts text to token ids and back, with the vocabulary in the metadata (feature `tokenizer`, enabled by
//!   default).
//! - [`Weights`] reads tensors into a backend's memory, and [`Quantizer`] writes a model in other types.
//!
//! [`Gguf::open`] reads the file. `Gguf::map` maps it and is an `unsafe fn`, because other programs can truncate a mapped file; it is
//! the one way in which safe code could otherwise cause undefined behaviour.
//!
//! `Weights` reads a file's tensors into any backend's memory and checks their extents: matrices of any float type or block format,
//! packed matrices, and vectors widened to f32. A backend on host memory uses the file's memory where alignment allows. Most of the
//! crate's dependencies come from the feature `tokenizer`, so a program that reads only tensors can leave it out.
//!
//! Elements are any [`bytemuck::Pod`] types of the caller. Files are little-endian, and the crate builds only
//! for little-endian machines.
//!
//! ```
//! use rocm_ops::gguf::{Gguf, GgmlType, Writer};
//!
//! # let path = std::env::temp_dir().join(format!("ops-gguf-doc-{}.gguf", std::process::id()));
//! let mut writer = Writer::new();
//! writer.set("general.architecture", "llama")?.set("llama.block_count", 2_u32)?;
//! writer.tensor("output_norm.weight", GgmlType::F32, &[4])?;
//! let mut body = writer.create(&path)?;
//! body.write("output_norm.weight", &[1.0_f32, 2.0, 3.0, 4.0])?;
//! body.commit()?;
//!
//! let gguf = Gguf::open(&path)?;
//! assert_eq!(gguf.metadata().arch_u32("block_count")?, 2);
//! let norm = gguf.tensor("output_norm.weight")?.data::<f32>()?;
//! assert!(norm.is_shared()); // the file's bytes, not a copy
//! drop(gguf);
//! assert_eq!(norm[..], [1.0, 2.0, 3.0, 4.0]);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), rocm_ops::gguf::Error>(())
//! ```

#[cfg(target_endian = "big")]
compile_error!("GGUF tensors are used in place, and files are little-endian: big-endian machines cannot");

pub use assembly::Assembly;
pub use error::{Error, Result};
pub use foreign::ForeignFile;
pub use ggml_type::{Block, GgmlType};
pub use gguf::Gguf;
pub use metadata::{Array, FromValue, Metadata, Strings, Value};
pub use outline::{Outline, TensorOutline};
pub use quantize::{Change, Mixture, QuantizeProgress, Quantizer};
pub use source::Bytes;
pub use tensor::{Tensor, TensorData};
#[cfg(feature = "tokenizer")]
pub use tokenizer::{DecodeOptions, DecodeStream, EncodeOptions, TokenKind, Tokenizer};
pub use weights::{SomeRows, Weights};
pub use writer::{AtomicFile, Body, Writer};

mod assembly;
mod cursor;
mod error;
mod foreign;
mod ggml_type;
mod gguf;
#[allow(unsafe_code)]
mod mapping;
mod metadata;
mod outline;
#[cfg(feature = "tokenizer")]
pub mod panics;
mod parse;
mod quantize;
mod source;
mod split;
mod tensor;
#[cfg(feature = "tokenizer")]
mod tokenizer;
mod weights;
mod writer;
