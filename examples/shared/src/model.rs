//! Opening models.
use crate::Result;
use crate::backend::On;
use crate::command::memory::{self, Copies};
use crate::command::stderr;
use rocm_ops::gguf::{self, Bytes, Gguf, Tokenizer};
use rocm_ops::models;
use std::path::Path;

/// How a model is opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Map the files instead of reading them.
    pub map: bool,
    /// Warn about options of `config.json` that are not known instead of refusing them.
    pub allow_unknown_options: bool,
    /// The backend that it will run on.
    pub on: On,
}

/// Opens a model. One that does not fit the memory is refused first. Warnings go to standard error.
pub fn open(path: &Path, opening: Opening) -> Result<Gguf> {
    let Opening { map, allow_unknown_options, on } = opening;
    // If this fails, opening fails too and says more.
    if let Ok(files) = models::files(path) {
        memory::check(&files, Copies { read: !map, packed: on.packs() })?;
        memory::check_device(&files, on.device_memory())?;
    }
    let options = models::OpenOptions::new().allow_unknown_options(allow_unknown_options);
    let model = options.open_with(path, &mut |file| read(file, map))?;
    for warning in models::warnings(&model) {
        writeln!(stderr(), "warning: {warning}");
    }
    Ok(model)
}

/// The tokenizer of the model at `path`.
pub fn tokenizer(path: &Path, model: &Gguf) -> Result<Tokenizer> {
    if path.is_dir() && !path.join("tokenizer.json").is_file() {
        return Err(format!("{} has no tokenizer.json", path.display()).into());
    }
    Ok(model.tokenizer()?)
}

fn read(file: &Path, map: bool) -> gguf::Result<Bytes> {
    if map {
        // SAFETY: the user requested it with `--mmap`, whose help says that the files must not change.
        return unsafe { Bytes::map(file) };
    }
    let gigabytes = std::fs::metadata(file).map_or(0, |about| about.len() >> 30);
    if gigabytes > 0 {
        writeln!(stderr(), "reading {gigabytes} GiB of {}", file.display());
    }
    Bytes::read(file)
}
