//! Models in folders as on the Hugging Face Hub: `config.json`, safetensors files, `tokenizer.json`.
//!
//! A folder is converted to the equivalent of a GGUF file of the same model: the configuration as its keys,
//! and the tensors under its names and in their own memory. Families are therefore written once, and
//! everything that reads a [`Gguf`] reads folders.
use crate::{Config, EncoderConfig, Result, families};
use ops_gguf::{Assembly, Bytes, Gguf, Metadata, Outline};
use options::Notes;
use std::path::{Path, PathBuf};

pub use encoder::encoder_families;

mod config;
pub(crate) mod encoder;
mod images;
mod names;
mod neutral;
pub(crate) mod options;
pub(crate) mod origin;
pub(crate) mod parts;
pub(crate) mod rope;
pub(crate) mod tensors;
mod tokenizer;

/// The kinds of decoder that folders may hold, as `model_type` in `config.json` names them.
///
/// ```
/// assert!(rocm_ops::models::folder_families().any(|name| name == "qwen3_moe"));
/// ```
pub fn folder_families() -> impl Iterator<Item = &'static str> {
    model_kinds().flat_map(|kind| kind.folders)
}

/// Decoders of one kind: a row of the table in `docs/run-your-model.md`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModelKind {
    /// What they are called.
    pub name: &'static str,
    /// The `general.architecture` of their GGUF files.
    pub architecture: &'static str,
    /// The `model_type` of their folders.
    pub folders: Vec<&'static str>,
    /// One of them, by its name on the Hugging Face Hub.
    pub example: &'static str,
    /// Which variants are refused, in Markdown.
    pub refused: &'static str,
}

/// The kinds of decoder that this crate runs.
///
/// ```
/// let kind = rocm_ops::models::model_kinds().find(|kind| kind.architecture == "gemma3n").unwrap();
/// assert_eq!(kind.folders, ["gemma3n_text", "gemma3n"]);
/// ```
pub fn model_kinds() -> impl Iterator<Item = ModelKind> {
    families::folders().map(|(architecture, folder)| ModelKind {
        name: folder.title,
        architecture,
        folders: std::iter::once(folder.model_type)
            .chain(folder.images.as_ref().map(|images| images.model_type))
            .collect(),
        example: folder.example,
        refused: folder.refused,
    })
}

/// Opens a model: a GGUF file, the first of split ones, or a folder with `config.json`, safetensors files and
/// `tokenizer.json`. Files are read into memory.
///
/// ```no_run
/// use rocm_ops::models::Decoder;
///
/// let (cpu, model) = (rocm_ops::Cpu::new(), rocm_ops::models::open("Qwen3-0.6B")?);
/// let decoder = Decoder::<f32, _>::load(&cpu, &model, 512)?;
/// # Ok::<(), rocm_ops::models::Error>(())
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

/// The metadata about a model's tokenizer, and the rows of its embeddings (0 if unknown), without reading weights. A folder needs no
/// `config.json`.
///
/// # Errors
/// [`Error::File`](crate::Error::File) and [`Error::Folder`](crate::Error::Folder) for files that are missing or cannot be read.
pub fn tokenizer_metadata(path: impl AsRef<Path>) -> Result<(Metadata, usize)> {
    let path = path.as_ref();
    if !path.is_dir() {
        let outline = Outline::open(path)?;
        let rows = outline.tensors().find(|tensor| tensor.name() == "token_embd.weight");
        let rows = rows.and_then(|tensor| tensor.dims().first().copied());
        return Ok((outline.metadata().clone(), rows.unwrap_or(0)));
    }
    let mut metadata = Metadata::new();
    tokenizer::add(&mut metadata, path)?;
    if metadata.value("tokenizer.huggingface.json").is_none() {
        return Err(options::wrong(path, "tokenizer.json", "no such file", "the tokenizer"));
    }
    let config = options::Options::read(&path.join("config.json"))?;
    let rows = config.map(|config| config.count("vocab_size")).transpose()?.flatten();
    Ok((metadata, rows.unwrap_or(0) as usize))
}

/// [`open`], with the weight files opened by `read`, which may for example map them.
///
/// # Errors
/// As [`open`], and errors of `read`.
pub fn open_with(
    path: impl AsRef<Path>,
    read: &mut dyn FnMut(&Path) -> ops_gguf::Result<Bytes>,
) -> Result<Gguf> {
    OpenOptions::new().open_with(path, read)
}

/// How a model is opened, for callers that need more than [`open`].
///
/// ```no_run
/// let model = rocm_ops::models::OpenOptions::new().allow_unknown_options(true).open("Qwen3-0.6B")?;
/// rocm_ops::models::warnings(&model).iter().for_each(|warning| eprintln!("{warning}"));
/// # Ok::<(), rocm_ops::models::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    allow_unknown: bool,
}

impl OpenOptions {
    /// Those of [`open`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether an option of `config.json` that this crate does not know is a warning instead of an error. Results are wrong if
    /// the option has an effect.
    #[must_use]
    pub fn allow_unknown_options(mut self, allow: bool) -> Self {
        self.allow_unknown = allow;
        self
    }

    /// [`open`] with these options.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Gguf> {
        self.open_with(path, &mut |file| Bytes::read(file))
    }

    /// [`open_with`] with these options.
    ///
    /// # Errors
    /// As [`open_with`].
    pub fn open_with(
        &self,
        path: impl AsRef<Path>,
        read: &mut dyn FnMut(&Path) -> ops_gguf::Result<Bytes>,
    ) -> Result<Gguf> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Ok(Gguf::open_with(path, read)?);
        }
        let notes = Notes::new(self.allow_unknown);
        let mut translated = config::translate(&path.join("config.json"), notes)?;
        let mut metadata = std::mem::take(&mut translated.metadata);
        origin::set_folder(&mut metadata, path)?;
        if let Some(names) = translated.folder.encoder {
            origin::set_names(&mut metadata, names)?;
            EncoderConfig::new(&metadata)?;
        } else {
            Config::new(&metadata)?;
        }
        tokenizer::add(&mut metadata, path)?;
        if translated.folder.encoder.is_none() && path.join("modules.json").is_file() {
            translated.notes.warn(format!(
                "{}: {}",
                path.join("modules.json").display(),
                crate::warnings::EMBEDDING
            ));
        }
        let mut model = Assembly::new(metadata);
        tensors::add(&mut model, path, &translated, read)?;
        origin::set_warnings(model.metadata(), &translated.notes.warnings())?;
        Ok(model.finish()?)
    }
}
