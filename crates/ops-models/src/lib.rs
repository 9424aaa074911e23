//! Decoder models of many families, and encoders of text, read from GGUF files or folders of safetensors and run on any backend.
//!
//! [`Decoder`] is one program for all of them, written over [`Transformer`](ops_core::model::Transformer). A [`Config`], read from
//! the file's metadata, describes a model: norms, rotation, windows, experts. A family is a file in
//! `families/`: its name and what its metadata does not say.
//!
//! A text has its own [`State`]. For many texts at once there are [`Pages`]: a budget of blocks that texts
//! take as they grow, and share if they have a common beginning.
//!
//! [`Encoder`] makes one vector of a text: models in the style of BERT, as `sentence-transformers` uses them.
//!
//! [`open`] reads GGUF files, split ones, and folders as the Hugging Face Hub has them, all with the same result.
//!
//! A file with anything that this crate does not know is refused, with the name of the key or tensor: a model
//! never runs without a part of it.
//!
//! ```no_run
//! use ops_gguf::Gguf;
//! use ops_models::Decoder;
//!
//! let (cpu, gguf) = (ops_cpu::Cpu::new(), Gguf::open("model.gguf")?);
//! let model = Decoder::<f32, _>::load(&cpu, &gguf, 512)?;
//! let mut state = model.state(&cpu, 512)?;
//! let logits = model.forward(&cpu, &mut state, &[1, 2, 3])?; // for the token after these
//! # Ok::<(), ops_models::Error>(())
//! ```
#![forbid(unsafe_code)]

mod config;
mod decoder;
mod encoder;
mod error;
mod families;
mod folder;
mod keys;

pub use config::{Activation, Config, Experts, Latent, NormKind, Recurrent, Window};
pub use decoder::{Continuation, Continues, Decoder, PagedRow, PagedStep, Pages, Row, State};
pub use encoder::{Encoder, EncoderConfig, Pooling, batches, truncate};
pub use error::{Error, Result};
pub use families::families;
pub use folder::{encoder_families, folder_families, open, open_with};
