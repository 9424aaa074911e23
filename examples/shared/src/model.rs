//! Opening models.
use crate::Result;
use crate::backend::On;
use crate::command::memory::{self, Copies};
use crate::command::stderr;
use rocm_ops::gguf::{self, Bytes, Gguf};
use rocm_ops::models;
use std::path::Path;

/// Opens a model for this backend, reading its files into memory or, with `map`, mapping them. A model that does not fit the memory
/// is refused first.
pub fn open(path: &Path, map: bool, on: On) -> Result<Gguf> {
    if path.is_dir() && !path.join("tokenizer.json").is_file() {
        return Err(format!("{} has no tokenizer.json", path.display()).into());
    }
    // If this fails, opening fails too and says more.
    if let Ok(files) = models::files(path) {
        memory::check(&files, Copies { read: !map, packed: on.packs() })?;
        memory::check_device(&files, on.device_memory())?;
    }
    Ok(models::open_with(path, &mut |file| read(file, map))?)
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
