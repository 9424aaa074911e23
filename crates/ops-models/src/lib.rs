//! Decoders of many families, and sentence encoders, read from GGUF files or Hugging Face folders and run on any backend.
//!
//! [`Decoder`] is one program for all families, written over [`Transformer`](ops_core::model::Transformer). A [`Config`], read from
//! the file's metadata, describes a model: norms, rotation, windows, experts. A family is a file in
//! `families/`: its name, what its metadata does not say, and what differs in folders. A part that no other kind of model has is in a
//! folder beside it. What decoders, encoders and these parts are made of is in `pieces/`.
//!
//! Each text has its own [`State`]. Many texts at once can share [`Pages`]: blocks of a cache that texts
//! take as they grow, and share if they have a common beginning.
//!
//! [`Encoder`] turns a text into one vector: BERT and its relatives, whose families are files in `encoder/families/`, and decoders
//! whose files say how to pool.
//!
//! [`open`] reads GGUF files, split ones, and Hugging Face folders, all with the same result.
//!
//! A model never runs without a part of it: a key with an effect that this crate does not have, or a tensor that nothing reads, is an
//! error that names it.
//!
//! `TextModel` is a decoder with its tokenizer, and continues texts (feature `tokenizer`); `Chat` turns a conversation into a prompt, by
//! the model's template (feature `chat`). Both features are on by default. [`SafeTensors`] reads weights of your own.
//!
//! ```no_run
//! use rocm_ops::gguf::Gguf;
//! use rocm_ops::models::Decoder;
//!
//! let (cpu, gguf) = (rocm_ops::Cpu::new(), Gguf::open("model.gguf")?);
//! let model = Decoder::<f32, _>::load(&cpu, &gguf, 512)?;
//! let mut state = model.state(&cpu, 512)?;
//! let logits = model.forward(&cpu, &mut state, &[1, 2, 3])?; // for the token after these
//! # Ok::<(), rocm_ops::models::Error>(())
//! ```
//!
//! # Decoder
//!
//! Loading finds optional pieces by name: biases, norms of heads, norms after a block, fused matrices, experts. Query, key and value
//! become one matrix if they have one type. Keys are rotated as they are written to the cache. Experts are routed on the backend
//! (`router_topk`, `linear_experts`, `combine_experts`), so a step never waits for the router's logits. On a GPU, a few rows are
//! multiplied by quantized matrices as bytes; many rows are sorted by expert on the device, and the host knows only an upper bound of
//! the number of tiles. `sample_batch` draws tokens there too, so only their ids reach the host.
//!
//! *Latent attention* caches one compressed row per token. Keys and values are never expanded: a head's query is multiplied into the
//! space of these rows, and its result out of it, by `linear_experts` with one matrix per head. So these matrices may be quantized, and
//! values are a view of the keys.
//!
//! *Linear attention* keeps a state of fixed size per text and layer, from `conv1d_update` and `gated_delta_rule`. A [`State`] with such
//! layers cannot be truncated to an earlier token. After a failed step, caches are unchanged but a recurrent state may be ahead, so the
//! next step is refused. Texts of a batch are concatenated without padding: projections run over all of them, convolution and
//! rule over each text's rows. Matrices that hold several parts head by head (queries with gates, `ssm_ba`, `ssm_in`) are split when
//! they are loaded.
//!
//! Gemma 3n carries several residual streams beside the one that its layers compute: at the *end* of a layer they are corrected by its
//! result, and predicted for the next layer, whose input is the first of them.
//!
//! The layer of Qwen's models that predicts the token after the next one ([`Decoder::further`]) is loaded if [`Config::with_further`]
//! asks for it. It has keys and values of its own, in a [`FurtherState`], whose position `p` is that of token `p`, read with token `p + 1`.
//! Folders always have its tensors, as the last layer of a GGUF file.
//!
//! # Ranks
//!
//! A [`Share`] says which part of a model one rank of a group computes, and adds up what the ranks have. The loader cuts each matrix by it: by rows, or
//! by columns where a product's result is a sum over ranks (`pieces/summed.rs`). A rank's configuration has the rank's numbers of heads, so
//! states, pages and attention are those of a smaller model, and the decoder has no second form. A part without anything takes a copy of what is nearest, and adds nothing.
//! [`on_ranks`] runs a program on several ranks; all make the same calls.
//!
//! # Pages
//!
//! The host tracks which sequence holds which block; the cache of each layer has the memory, and all layers use the same blocks. A step
//! takes all the blocks that it needs, or none. A block with several holders is never written: the writer takes a copy, unless it is
//! the last holder. So forking a sequence copies nothing. A [`PagedStep`] keeps token ids, positions, slots, lengths and the block table
//! in the backend's memory, and its layers read nothing else that changes from step to step. Prefills and single tokens are rows of one
//! step: projections run over all of them, `rope_cache_write` writes keys and values to their slots, and `attention_paged` reads blocks
//! in place. Models with recurrent layers are refused, because their state is not in blocks.
//!
//! # Generation
//!
//! `generate/text.rs` turns ids into text and decides when a text ends, `generate/options.rs` says how a token is drawn. A `Generation`
//! adds a state of its own, and a `Batch` pages and a schedule: which texts take part in a step, and which gives up its blocks when they
//! run out. The schedule knows numbers of tokens only, so it is tested without a model. What `sample` cannot do (penalties, bias,
//! `min_p`) changes the logits on the host before it: one definition of drawing, for the price of a copy.
//!
//! # Encoder
//!
//! Texts of a batch are concatenated without padding: `attention_varlen` keeps them apart, or `attention` if all have one length. The
//! mean over a text's tokens is attention by a query of zeros, which weights all of them equally. The embedding of token type 0 is added
//! to those of positions when they are loaded. Families without a table of positions rotate queries and keys, which are one view of the
//! fused product, in place. Pooling, normalisation and prompts are metadata too, from the files of `sentence-transformers`.
//! Decoder and encoder share the loader, the norms and the feed-forward block. Of a decoder that embeds, the states after its last norm
//! are pooled; each text gets a state of its length for the call. EmbeddingGemma is a decoder whose attention is not causal, which
//! [`Decoder::load`] refuses.
//!
//! # Folders
//!
//! A folder with `config.json` and safetensors becomes a `Gguf` (`folder/`, through `ops_gguf::Assembly`): options become metadata keys,
//! tensors get their GGUF names and stay in the memory of their files, and experts stored one by one count as one tensor in pieces. So
//! families, the loader and tokenizers know one kind of model. Every option of `config.json` is read, known to be harmless, or an error.
//! Keys under `folder.` keep names and files, so that errors speak of the folder (`folder/origin.rs`), and warnings ([`warnings()`]).
//! Two more keys do not exist in GGUF: `rope.halves`, because GGUF stores rows of a llama's queries and keys in another order, and
//! `rope.scaling.truncate`. Tensors of another form than in GGUF are split or transposed by their family. For multimodal
//! models, `folder/images.rs` extracts the text model.
#![forbid(unsafe_code)]

#[cfg(feature = "chat")]
mod chat;
mod config;
mod decoder;
mod encoder;
mod error;
mod families;
mod folder;
#[cfg(feature = "tokenizer")]
mod generate;
mod keys;
mod pieces;
mod ranks;
mod safe_tensors;
mod share;
mod warnings;

#[cfg(feature = "chat")]
pub use chat::Chat;
pub use config::{Activation, Config, Experts, HeadShape, Latent, NormKind, QueryGrowth, Recurrent, Window};
pub use decoder::{
    Continuation, Continues, Decoder, Drawn, FurtherState, PagedRow, PagedStep, Pages, Row, Snapshot, State,
    most_likely,
};
pub use encoder::{Encoder, EncoderConfig, Pooling, batches, truncate};
pub use error::{Error, NanLogit, Result};
pub use families::families;
pub use folder::{
    ModelKind, OpenOptions, encoder_families, files, folder_families, model_kinds, open, open_with,
    tokenizer_metadata,
};
#[cfg(feature = "tokenizer")]
pub use generate::{
    Batch, BatchEvent, BatchOptions, BatchStats, Finish, GenerateOptions, Generation, Overflow, Prompt,
    TextModel, Token,
};
pub use ranks::{Rank, on_ranks};
pub use safe_tensors::{SafeTensor, SafeTensors};
pub use share::Share;
pub use warnings::warnings;
