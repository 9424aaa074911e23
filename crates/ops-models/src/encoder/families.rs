//! The families of encoders. Each family is a file: its name, what its metadata does not say, and what differs in folders.
use super::config::{
    COMMON, EncoderConfig, activation, default_prompt, key, lower_case, max_tokens, normalize, pooling,
    prompts, token_types,
};
use crate::folder::origin;
use crate::folder::parts::Folder;
use crate::keys::Keys;
use crate::{Config, Error, Result, families};
use ops_gguf::Metadata;

mod bert;
mod jina_v3;
mod modern_bert;
mod nomic_bert;

/// A family of encoders.
pub(super) struct Family {
    /// Its `general.architecture`.
    name: &'static str,
    /// Keys of the metadata that only this family has.
    pub(super) keys: &'static [&'static str],
    /// Changes what differs from BERT: a table of positions, two token types, norms after each block, gelu without a gate.
    pub(super) adjust: fn(&Keys<'_>, &mut EncoderConfig) -> Result<()>,
    /// The kinds of folder that hold such models.
    folders: &'static [Folder],
}

/// This is the only list of encoders.
static LIST: [Family; 4] = [bert::FAMILY, nomic_bert::FAMILY, modern_bert::FAMILY, jina_v3::FAMILY];

pub(super) fn find(architecture: &str) -> Option<&'static Family> {
    LIST.iter().find(|family| family.name == architecture)
}

/// The architectures, as GGUF files name them.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    LIST.iter().map(|family| family.name)
}

/// All kinds of folder, each with the name of its family in GGUF.
pub(crate) fn folders() -> impl Iterator<Item = (&'static str, &'static Folder)> {
    LIST.iter().flat_map(|family| family.folders.iter().map(|folder| (family.name, folder)))
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
        let Some(family) = find(keys.architecture()) else {
            return Self::of_decoder(metadata, &keys);
        };
        let (dim, heads) = (keys.count("embedding_length")?, keys.count("attention.head_count")?);
        if dim % heads != 0 {
            return Err(keys.wrong("attention.head_count", heads, format!("a divisor of the width, {dim}")));
        }
        keys.refuse("attention.causal")?;
        keys.only(&[&COMMON, family.keys])?;
        let context = keys.count("context_length")?;
        let mut config = EncoderConfig {
            architecture: keys.architecture().to_owned(),
            dim,
            layers: keys.count("block_count")?,
            heads,
            ffn: keys.count("feed_forward_length")?,
            context,
            max_tokens: max_tokens(&keys, context)?,
            norm_eps: metadata.arch_f32("attention.layer_norm_epsilon")?.into(),
            activation: activation(&keys)?,
            pooling: pooling(&keys)?,
            normalize: normalize(&keys)?,
            lower_case: lower_case(&keys)?,
            prompts: prompts(metadata, &keys)?,
            default_prompt: default_prompt(&keys)?,
            is_decoder: false,
            token_types: Some(keys.count_or(key::TOKEN_TYPES, token_types(metadata)?)?),
            has_positions: true,
            rope_base: keys.float("rope.freq_base")?.unwrap_or(10_000.0),
            window: None,
            pre_norm: false,
        };
        (family.adjust)(&keys, &mut config)?;
        Ok(config)
    }

    /// A decoder is an encoder if its file says how to pool the states of its tokens, or if it can't generate.
    fn of_decoder(metadata: &Metadata, keys: &Keys<'_>) -> Result<Self> {
        let known = names().chain(families::encoders());
        let unknown = || Error::Family { got: keys.architecture().to_owned(), known: known.collect() };
        let pools = keys.find::<u32>(key::POOLING)?.is_some_and(|code| code != 0);
        let config = match Config::new(metadata) {
            Ok(config) if pools || !config.causal => config,
            Ok(_) | Err(Error::Family { .. }) => return Err(unknown()),
            Err(other) => return Err(other),
        };
        Ok(EncoderConfig {
            dim: config.dim,
            layers: config.layers,
            heads: config.heads,
            ffn: config.ffn,
            context: config.context,
            max_tokens: max_tokens(keys, config.context)?,
            norm_eps: config.norm_eps,
            activation: config.activation,
            pooling: pooling(keys)?,
            normalize: normalize(keys)?,
            lower_case: lower_case(keys)?,
            prompts: prompts(metadata, keys)?,
            default_prompt: default_prompt(keys)?,
            is_decoder: true,
            token_types: None,
            has_positions: false,
            rope_base: config.rope_base,
            window: None,
            pre_norm: true,
            architecture: config.architecture,
        })
    }
}
