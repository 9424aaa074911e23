//! Reads the configuration of an encoder.
use super::config::{ACTIVATIONS, COMMON, EncoderConfig, Pooling, key};
use super::families;
use crate::folder::origin;
use crate::keys::Keys;
use crate::{Activation, Config, Error, Result};
use ops_gguf::Metadata;

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
        let Some(family) = families::find(keys.architecture()) else {
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
        let known = families::names().chain(crate::families::encoders());
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

fn max_tokens(keys: &Keys<'_>, context: usize) -> Result<usize> {
    let max_tokens = keys.count_or(key::MAX_TOKENS, context)?.min(context);
    // A text has a token before and one after it.
    if max_tokens < 2 { Err(keys.wrong(key::MAX_TOKENS, max_tokens, "at least 2")) } else { Ok(max_tokens) }
}

/// Folders say. Programs that embed with GGUF files, which rarely do, normalize.
fn normalize(keys: &Keys<'_>) -> Result<bool> {
    Ok(keys.find::<bool>(key::NORMALIZE)?.unwrap_or(true))
}

fn lower_case(keys: &Keys<'_>) -> Result<bool> {
    Ok(keys.find::<bool>(key::LOWER_CASE)?.unwrap_or(false))
}

fn prompts(metadata: &Metadata, keys: &Keys<'_>) -> Result<Vec<(String, String)>> {
    let name = format!("{}.{}", keys.architecture(), key::PROMPTS);
    if metadata.value(&name).is_none() {
        return Ok(Vec::new());
    }
    let all: Vec<&str> = metadata.strings(&name)?.iter().collect();
    Ok(all.chunks_exact(2).map(|one| (one[0].to_owned(), one[1].to_owned())).collect())
}

fn default_prompt(keys: &Keys<'_>) -> Result<Option<String>> {
    Ok(keys.find::<&str>(key::DEFAULT_PROMPT)?.map(str::to_owned))
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
    let known = [Pooling::Mean, Pooling::First, Pooling::Last];
    let found = known.into_iter().find(|pooling| pooling.code() == code);
    found.ok_or_else(|| keys.wrong(key::POOLING, code, "1 (mean), 2 (the first token) or 3 (the last)"))
}
