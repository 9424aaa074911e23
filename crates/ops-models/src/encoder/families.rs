//! The families of encoders. Each family is a file: its name, what its metadata does not say, and what differs in folders.
use super::EncoderConfig;
use crate::Result;
use crate::folder::parts::Folder;
use crate::keys::Keys;

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
