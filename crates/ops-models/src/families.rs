//! The families. Each family is a file: its name, and what its metadata does not say.
use crate::folder::origin;
use crate::keys::Keys;
use crate::{Config, Error, NormKind, Result};
use ops_gguf::Metadata;

mod deepseek2;
mod gemma2;
mod gemma3;
mod gpt_oss;
mod llama;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen3moe;
mod qwen3next;
mod stablelm;
mod starcoder2;

/// A family of models.
struct Family {
    /// Its `general.architecture`.
    name: &'static str,
    /// Changes what differs from the common configuration: root mean square norms, rotation of halves,
    /// swiglu.
    adjust: fn(&Keys<'_>, &mut Config) -> Result<()>,
}

/// This is the only list of families.
const LIST: [Family; 12] = [
    llama::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3moe::FAMILY,
    qwen3next::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    phi3::FAMILY,
    starcoder2::FAMILY,
    stablelm::FAMILY,
    gpt_oss::FAMILY,
    deepseek2::FAMILY,
];

/// The architectures supported by this crate, as GGUF files name them.
///
/// ```
/// assert!(ops_models::families().any(|name| name == "qwen3"));
/// ```
pub fn families() -> impl Iterator<Item = &'static str> {
    LIST.iter().map(|family| family.name)
}

fn find(architecture: &str) -> Result<&'static Family> {
    const { assert!(!LIST.is_empty()) }
    static FAMILIES: [Family; 12] = LIST;
    FAMILIES
        .iter()
        .find(|family| family.name == architecture)
        .ok_or_else(|| Error::Family { got: architecture.to_owned(), known: families().collect() })
}

impl Config {
    /// Reads the configuration from a file's metadata.
    ///
    /// # Errors
    /// [`Error::Family`] for an unknown architecture, [`Error::Key`] for a value that cannot be honoured, [`Error::File`] for a
    /// missing key.
    pub fn new(metadata: &Metadata) -> Result<Self> {
        Self::read(metadata).map_err(|error| origin::named(error, metadata))
    }

    fn read(metadata: &Metadata) -> Result<Self> {
        let keys = Keys::new(metadata)?;
        let family = find(keys.architecture())?;
        let mut config = Self::common(&keys)?;
        (family.adjust)(&keys, &mut config)?;
        config.norm_eps = match config.norm {
            NormKind::Rms => metadata.arch_f32("attention.layer_norm_rms_epsilon")?.into(),
            NormKind::Layer => metadata.arch_f32("attention.layer_norm_epsilon")?.into(),
        };
        config.check(&keys)?;
        Ok(config)
    }
}
