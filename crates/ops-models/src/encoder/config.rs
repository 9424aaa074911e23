//! The configuration of an encoder.
use crate::folder::origin;
use crate::keys::Keys;
use crate::{Activation, Error, Result};
use ops_gguf::Metadata;

/// Keys of the metadata, after the name of the architecture. Extents have the same keys as for decoders.
pub(crate) mod key {
    /// Name of the function of the feed-forward block; `gelu` if the key is missing.
    pub(crate) const ACTIVATION: &str = "activation";
    /// Whether texts are converted to lower case before tokenization.
    pub(crate) const LOWER_CASE: &str = "lower_case";
    /// Maximum number of tokens in a text, if less than the context.
    pub(crate) const MAX_TOKENS: &str = "max_sequence_length";
    /// Whether embeddings have length 1.
    pub(crate) const NORMALIZE: &str = "normalize_embeddings";
    /// The number of a [`Pooling`](super::Pooling).
    pub(crate) const POOLING: &str = "pooling_type";
    /// Rows of the table of token types.
    pub(crate) const TOKEN_TYPES: &str = "token_type_count";
}

/// The architectures that this module runs.
const ARCHITECTURES: [&str; 1] = ["bert"];

/// Functions of the feed-forward block by their names in `config.json`.
pub(crate) const ACTIVATIONS: [(&str, Activation); 4] = [
    ("gelu", Activation::GeluErf),
    ("gelu_new", Activation::Gelu),
    ("gelu_pytorch_tanh", Activation::Gelu),
    ("relu", Activation::Relu),
];

/// How the vectors of a text's tokens are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first token's.
    First,
}

impl Pooling {
    /// The number in the metadata.
    pub(crate) fn code(self) -> u32 {
        match self {
            Pooling::Mean => 1,
            Pooling::First => 2,
        }
    }
}

/// Extents, constants and choices of an [`Encoder`](crate::Encoder).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// The family's name, `general.architecture`.
    pub architecture: String,
    /// Width of the residual stream, and of an embedding.
    pub dim: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of heads.
    pub heads: usize,
    /// Width of the feed-forward block.
    pub ffn: usize,
    /// Number of positions in the model.
    pub context: usize,
    /// Maximum number of tokens in a text, including those added before and after it.
    pub max_tokens: usize,
    /// The `eps` of every norm.
    pub norm_eps: f64,
    /// The function of the feed-forward block.
    pub activation: Activation,
    /// How the vectors of a text's tokens are combined.
    pub pooling: Pooling,
    /// Whether embeddings have length 1.
    pub normalize: bool,
    /// Whether texts must be converted to lower case before tokenization.
    pub lower_case: bool,
    /// Rows of the table of token types.
    pub(super) token_types: usize,
}

impl EncoderConfig {
    /// Reads the configuration from a model's metadata.
    ///
    /// # Errors
    /// [`Error::Family`] for an unknown architecture, [`Error::Key`] for a value that cannot be honoured, [`Error::File`] for a
    /// missing key.
    pub fn new(metadata: &Metadata) -> Result<Self> {
        Self::read(metadata).map_err(|error| origin::named(error, metadata))
    }

    fn read(metadata: &Metadata) -> Result<Self> {
        let keys = Keys::new(metadata)?;
        let architecture = keys.architecture().to_owned();
        if !ARCHITECTURES.contains(&&*architecture) {
            return Err(Error::Family { got: architecture, known: ARCHITECTURES.to_vec() });
        }
        let (dim, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
        if dim % heads != 0 {
            return Err(keys.wrong("attention.head_count", heads, format!("a divisor of the width, {dim}")));
        }
        keys.refuse("attention.causal")?;
        let context = keys.count("context_length")?;
        let max_tokens = keys.count_or(key::MAX_TOKENS, context)?.min(context);
        if max_tokens < 2 {
            // A text has a token before and one after it.
            return Err(keys.wrong(key::MAX_TOKENS, max_tokens, "at least 2"));
        }
        Ok(EncoderConfig {
            architecture,
            dim,
            layers: keys.count("block_count")?,
            heads,
            ffn: keys.count("feed_forward_length")?,
            context,
            max_tokens,
            norm_eps: metadata.arch_f32("attention.layer_norm_epsilon")?.into(),
            activation: activation(&keys)?,
            pooling: pooling(&keys)?,
            // Folders say. Programs that embed with GGUF files, which rarely do, normalize.
            normalize: keys.find::<bool>(key::NORMALIZE)?.unwrap_or(true),
            lower_case: keys.find::<bool>(key::LOWER_CASE)?.unwrap_or(false),
            token_types: keys.count_or(key::TOKEN_TYPES, token_types(metadata)?)?,
        })
    }
}

/// The rows of the table of token types that a GGUF file has.
fn token_types(metadata: &Metadata) -> Result<usize> {
    Ok(metadata.find::<u32>("tokenizer.ggml.token_type_count")?.map_or(2, |count| count as usize))
}

fn activation(keys: &Keys<'_>) -> Result<Activation> {
    let name = keys.find::<&str>(key::ACTIVATION)?.unwrap_or("gelu");
    let known = || ACTIVATIONS.map(|(name, _)| name).join(", ");
    let found = ACTIVATIONS.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation);
    found.ok_or_else(|| keys.wrong(key::ACTIVATION, name, format!("one of {}", known())))
}

fn pooling(keys: &Keys<'_>) -> Result<Pooling> {
    let code = keys.find::<u32>(key::POOLING)?.unwrap_or(Pooling::Mean.code());
    let known = [Pooling::Mean, Pooling::First];
    let found = known.into_iter().find(|pooling| pooling.code() == code);
    found.ok_or_else(|| keys.wrong(key::POOLING, code, "1 (mean) or 2 (the first token)"))
}
