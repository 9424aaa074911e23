//! The configuration of an encoder.
use crate::keys::Keys;
use crate::{Activation, Result};
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
    /// The name of the text that is put before others unless the caller chooses one. Only folders have it.
    pub(crate) const DEFAULT_PROMPT: &str = "default_prompt_name";
    /// Texts to put before others, each after its name. Only folders have them.
    pub(crate) const PROMPTS: &str = "prompts";
    /// The number of a [`Pooling`](super::Pooling).
    pub(crate) const POOLING: &str = "pooling_type";
    /// Rows of the table of token types.
    pub(crate) const TOKEN_TYPES: &str = "token_type_count";
}

/// Keys of every family.
pub(super) const COMMON: [&str; 16] = [
    key::ACTIVATION,
    key::DEFAULT_PROMPT,
    key::PROMPTS,
    key::LOWER_CASE,
    key::MAX_TOKENS,
    key::NORMALIZE,
    key::POOLING,
    key::TOKEN_TYPES,
    "attention.causal",
    "attention.head_count",
    "attention.layer_norm_epsilon",
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
];

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
    /// The last token's.
    Last,
}

impl Pooling {
    /// The number in the metadata.
    pub(crate) fn code(self) -> u32 {
        match self {
            Pooling::Mean => 1,
            Pooling::First => 2,
            Pooling::Last => 3,
        }
    }
}

/// Extents, constants and choices of an [`Encoder`](crate::Encoder).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EncoderConfig {
    /// The family's name, `general.architecture`.
    pub architecture: String,
    /// Width of the residual stream, and of an embedding unless matrices follow pooling.
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
    /// Texts to put before others, such as queries, each with its name. The caller does so.
    pub prompts: Vec<(String, String)>,
    /// The name of the one that is put before all texts unless the caller chooses another.
    pub default_prompt: Option<String>,
    /// Whether the model is a decoder, which [`Config`] describes.
    pub(super) is_decoder: bool,
    /// Rows of the table of token types, if there is one.
    pub(super) token_types: Option<usize>,
    /// Whether there is a table of positions; otherwise queries and keys are rotated.
    pub(super) has_positions: bool,
    /// Base of the rotary frequencies of layers without a window.
    pub(super) rope_base: f64,
    /// Layers with a window.
    pub(super) window: Option<Neighbours>,
    /// Whether norms are before attention and feed-forward, and not after what these add to their input.
    pub(super) pre_norm: bool,
}

/// Layers in which a token sees only the tokens around it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Neighbours {
    /// Tokens to each side.
    pub(super) each_side: usize,
    /// The first layer and every `period`-th after it see the whole text.
    pub(super) period: usize,
    /// Base of the rotary frequencies of layers with a window.
    pub(super) rope_base: f64,
}

impl EncoderConfig {
    /// Changes to queries and keys that are rotated instead of a table of positions.
    pub(super) fn rotates(&mut self, keys: &Keys<'_>) -> Result<()> {
        self.has_positions = false;
        let features = self.dim / self.heads;
        for key in ["attention.key_length", "attention.value_length"] {
            let said = keys.count_or(key, features)?;
            if said != features {
                return Err(keys.wrong(
                    key,
                    said,
                    format!("{features}, the width divided by the number of heads"),
                ));
            }
        }
        if !features.is_multiple_of(2) {
            let wanted = "a number of heads with an even number of features each";
            return Err(keys.wrong("attention.head_count", self.heads, wanted));
        }
        Ok(())
    }

    /// Whether tokens of this layer see only those around them.
    pub(super) fn neighbours(&self, layer: usize) -> Option<Neighbours> {
        self.window.filter(|window| !layer.is_multiple_of(window.period))
    }
}

pub(super) fn max_tokens(keys: &Keys<'_>, context: usize) -> Result<usize> {
    let max_tokens = keys.count_or(key::MAX_TOKENS, context)?.min(context);
    // A text has a token before and one after it.
    if max_tokens < 2 { Err(keys.wrong(key::MAX_TOKENS, max_tokens, "at least 2")) } else { Ok(max_tokens) }
}

/// Folders say. Programs that embed with GGUF files, which rarely do, normalize.
pub(super) fn normalize(keys: &Keys<'_>) -> Result<bool> {
    Ok(keys.find::<bool>(key::NORMALIZE)?.unwrap_or(true))
}

pub(super) fn lower_case(keys: &Keys<'_>) -> Result<bool> {
    Ok(keys.find::<bool>(key::LOWER_CASE)?.unwrap_or(false))
}

pub(super) fn prompts(metadata: &Metadata, keys: &Keys<'_>) -> Result<Vec<(String, String)>> {
    let name = format!("{}.{}", keys.architecture(), key::PROMPTS);
    if metadata.value(&name).is_none() {
        return Ok(Vec::new());
    }
    let all: Vec<&str> = metadata.strings(&name)?.iter().collect();
    Ok(all.chunks_exact(2).map(|one| (one[0].to_owned(), one[1].to_owned())).collect())
}

pub(super) fn default_prompt(keys: &Keys<'_>) -> Result<Option<String>> {
    Ok(keys.find::<&str>(key::DEFAULT_PROMPT)?.map(str::to_owned))
}

/// The rows of the table of token types that a GGUF file has.
pub(super) fn token_types(metadata: &Metadata) -> Result<usize> {
    Ok(metadata.find::<u32>("tokenizer.ggml.token_type_count")?.map_or(2, |count| count as usize))
}

pub(super) fn activation(keys: &Keys<'_>) -> Result<Activation> {
    let name = keys.find::<&str>(key::ACTIVATION)?.unwrap_or("gelu");
    let known = || ACTIVATIONS.map(|(name, _)| name).join(", ");
    let found = ACTIVATIONS.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation);
    found.ok_or_else(|| keys.wrong(key::ACTIVATION, name, format!("one of {}", known())))
}

pub(super) fn pooling(keys: &Keys<'_>) -> Result<Pooling> {
    let code = keys.find::<u32>(key::POOLING)?.unwrap_or(Pooling::Mean.code());
    let known = [Pooling::Mean, Pooling::First, Pooling::Last];
    let found = known.into_iter().find(|pooling| pooling.code() == code);
    found.ok_or_else(|| keys.wrong(key::POOLING, code, "1 (mean), 2 (the first token) or 3 (the last)"))
}
