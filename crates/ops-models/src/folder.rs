//! Models in folders as on the Hugging Face Hub: `config.json`, safetensors files, `tokenizer.json`.
//!
//! A folder is converted to the equivalent of a GGUF file of the same model: the configuration as its keys,
//! and the tensors under its names and in their own memory. Families are therefore written once, and
//! everything that reads a [`Gguf`] reads folders.
use crate::Result;
use ops_gguf::{Assembly, Bytes, Gguf, Outline};
use std::path::{Path, PathBuf};

pub use encoder::encoder_families;
pub use families::folder_families;

mod config;
mod deepseek;
mod encoder;
mod families;
mod gpt_oss;
mod images;
mod names;
mod options;
mod parts;
mod qwen3_next;
mod rope;
mod tensors;
mod tokenizer;

/// Opens a model: a GGUF file, the first of split ones, or a folder with `config.json`, safetensors files and
/// `tokenizer.json`. Files are read into memory.
///
/// ```no_run
/// use ops_models::Decoder;
///
/// let (cpu, model) = (ops_cpu::Cpu::new(), ops_models::open("Qwen3-0.6B")?);
/// let decoder = Decoder::<f32, _>::load(&cpu, &model, 512)?;
/// # Ok::<(), ops_models::Error>(())
/// ```
///
/// # Errors
/// [`Error::File`](crate::Error::File) for files that cannot be read; for folders [`Error::Folder`](crate::Error::Folder), which
/// names the option or tensor that this crate does not support, and [`Error::Family`](crate::Error::Family).
pub fn open(path: impl AsRef<Path>) -> Result<Gguf> {
    open_with(path, &mut |file| Bytes::read(file))
}

/// The files with a model's weights, without reading the weights: that of [`open`], all parts of a split one, or those in the folder.
///
/// # Errors
/// As [`open`].
pub fn files(path: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    let path = path.as_ref();
    Ok(match path.is_dir() {
        true => tensors::files(path)?.into_keys().collect(),
        false => Outline::open(path)?.files().to_vec(),
    })
}

/// [`open`], with the weight files opened by `read`, which may for example map them.
///
/// # Errors
/// As [`open`], and errors of `read`.
pub fn open_with(
    path: impl AsRef<Path>,
    read: &mut dyn FnMut(&Path) -> ops_gguf::Result<Bytes>,
) -> Result<Gguf> {
    let path = path.as_ref();
    if !path.is_dir() {
        return Ok(Gguf::open_with(path, read)?);
    }
    let mut translated = config::translate(&path.join("config.json"))?;
    let mut metadata = std::mem::take(&mut translated.metadata);
    tokenizer::add(&mut metadata, path)?;
    let mut model = Assembly::new(metadata);
    tensors::add(&mut model, path, &translated, read)?;
    Ok(model.finish()?)
}
