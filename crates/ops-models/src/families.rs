//! The families. Each family is a file: its name, what its metadata does not say, and what differs in folders.
use crate::folder::origin;
use crate::folder::parts::Folder;
use crate::keys::Keys;
use crate::{Config, Error, NormKind, Result};
use ops_core::ops::RopeForm;
use ops_gguf::{Gguf, Metadata};

pub(crate) mod deepseek2;
mod gemma;
mod gemma2;
mod gemma3;
pub(crate) mod gemma3n;
pub(crate) mod gemma4;
mod glm4;
mod gpt_oss;
mod llama;
mod mistral3;
mod phi3;
mod qwen2;
mod qwen3;
mod qwen35;
mod qwen3moe;
mod qwen3next;
mod seed_oss;
mod smollm3;
mod stablelm;
mod starcoder2;

/// A family of models.
struct Family {
    /// Its `general.architecture`.
    name: &'static str,
    /// Changes what differs from the common configuration: root mean square norms, rotation of halves,
    /// swiglu.
    adjust: fn(&Keys<'_>, &mut Config) -> Result<()>,
    /// Whether its models generate texts; others are encoders that share the decoder's layers.
    generates: bool,
    /// The kinds of folder that hold such models.
    folders: &'static [Folder],
    /// The models of which converters drop the window, so that a file looks as if it had none, if this may be one.
    lost_window: fn(&Gguf, &Keys<'_>) -> Option<&'static str>,
}

/// What most families have.
const PLAIN: Family =
    Family { name: "", adjust: |_, _| Ok(()), generates: true, folders: &[], lost_window: |_, _| None };

/// This is the only list of families.
static LIST: [Family; 23] = [
    llama::FAMILY,
    qwen2::FAMILY,
    qwen3::FAMILY,
    qwen3moe::FAMILY,
    qwen3next::FAMILY,
    qwen35::FAMILY,
    qwen35::WITH_EXPERTS,
    gemma::FAMILY,
    gemma2::FAMILY,
    gemma3::FAMILY,
    gemma3::EMBEDDING,
    gemma3n::FAMILY,
    gemma4::FAMILY,
    phi3::FAMILY,
    starcoder2::FAMILY,
    stablelm::FAMILY,
    gpt_oss::FAMILY,
    deepseek2::FAMILY,
    mistral3::FAMILY,
    smollm3::FAMILY,
    seed_oss::FAMILY,
    glm4::FAMILY,
    glm4::WITH_EXPERTS,
];

/// The architectures supported by this crate, as GGUF files name them.
///
/// ```
/// assert!(rocm_ops::models::families().any(|name| name == "qwen3"));
/// ```
pub fn families() -> impl Iterator<Item = &'static str> {
    LIST.iter().filter(|family| family.generates).map(|family| family.name)
}

/// The architectures of encoders that share the decoder's layers.
pub(crate) fn encoders() -> impl Iterator<Item = &'static str> {
    LIST.iter().filter(|family| !family.generates).map(|family| family.name)
}

fn find(architecture: &str) -> Result<&'static Family> {
    LIST.iter()
        .find(|family| family.name == architecture)
        .ok_or_else(|| Error::Family { got: architecture.to_owned(), known: families().collect() })
}

/// GGUF files of some families have the rows of queries and keys in pairs; folders have them in halves, and a key says so.
fn rows_in_pairs(keys: &Keys<'_>, config: &mut Config) -> Result<()> {
    if !keys.find::<bool>("rope.halves")?.unwrap_or(false) {
        config.rope = RopeForm::Interleaved;
    }
    Ok(())
}

/// All kinds of folder, each with the name of its family in GGUF.
pub(crate) fn folders() -> impl Iterator<Item = (&'static str, &'static Folder)> {
    LIST.iter().flat_map(|family| family.folders.iter().map(|folder| (family.name, folder)))
}

/// The models of which converters drop the window, if this may be one.
pub(crate) fn lost_window(model: &Gguf, keys: &Keys<'_>) -> Option<&'static str> {
    (find(keys.architecture()).ok()?.lost_window)(model, keys)
}

impl Config {
    /// Refuses a model whose tokens see those after them.
    pub(crate) fn check_generates(&self, model: &Gguf) -> Result<()> {
        if self.causal {
            return Ok(());
        }
        let keys = Keys::new(model.metadata())?;
        Err(keys.wrong(
            "attention.causal",
            false,
            "true to generate text: this is an encoder, which `Encoder` and `embed` run",
        ))
    }

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
