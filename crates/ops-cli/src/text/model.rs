//! Opening models and conversations.
use super::Result;
use crate::args::{ChatArgs, Choice, ModelArgs};
use crate::program;
use ops_command::memory::{self, Copies};
use ops_command::stderr;
use ops_core::model::Transformer;
use ops_core::{Backend, Float};
use ops_gguf::{Bytes, Gguf, Tokenizer};
use ops_models::{Chat, Decoder, OpenOptions, Rank};
use ops_rocm::Rocm;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A model that comes with this program, by its name in the folder `models`: beside the program, or in the repository.
pub(crate) fn bundled_model(name: &str) -> Option<PathBuf> {
    let name = Path::new("models").join(name);
    let beside = program::folders().into_iter().map(|folder| folder.join(&name));
    beside.chain([name.clone()]).find(|file| file.is_file())
}

/// Opens a model, or else the one that comes with this program, and returns its path, too. One that does not fit the memory is refused
/// first. Warnings go to standard error.
/// On several devices, it is divided.
pub(crate) fn open(
    path: Option<&Path>,
    (backend, devices): (Choice, usize),
    args: &ModelArgs,
) -> Result<(PathBuf, Gguf)> {
    let path = match path {
        Some(path) => path.to_owned(),
        None => {
            bundled_model("tiny-llama-kjv-q8_0.gguf").ok_or("there is no model: give one with --model")?
        }
    };
    // If this fails, opening fails too and says more.
    if let Ok(files) = ops_models::files(&path) {
        // The CPU copies a model's weights to a layout of its own.
        let packed = matches!(backend, Choice::Cpu | Choice::Checked);
        memory::check(&files, Copies { read: !args.mmap, packed })?;
        let memory = device_memory(backend).map(|memory| memory.saturating_mul(devices as u64));
        memory::check_device(&files, memory)?;
    }
    let options = OpenOptions::new().allow_unknown_options(args.allow_unknown_options);
    let model = options.open_with(&path, &mut |file| read(file, args.mmap))?;
    for warning in ops_models::warnings(&model) {
        writeln!(stderr(), "warning: {warning}");
    }
    Ok((path, model))
}

/// [`open`] on rank 0; the other ranks use the same memory.
pub(crate) fn open_once<B: Backend>(
    rank: &Rank<'_, B>,
    path: Option<&Path>,
    backend: Choice,
    args: &ModelArgs,
) -> Result<(PathBuf, Arc<Gguf>)> {
    let mut failed = None;
    let opened = rank.agree(|| match open(path, (backend, rank.share().ranks()), args) {
        Ok((path, model)) => Some((path, Arc::new(model))),
        Err(error) => {
            failed = Some(error);
            None
        }
    })?;
    opened.ok_or_else(|| failed.unwrap_or_else(|| "rank 0 cannot open the model".into()))
}

/// Reports what one of several ranks has read, and the time; then waits for the others.
pub(crate) fn report_load<T: Float, B: Transformer<T>>(
    rank: &Rank<'_, B>,
    model: &Decoder<T, B>,
    begin: Instant,
) -> Result<()> {
    let share = rank.share();
    if share.ranks() > 1 {
        rank.backend().synchronize()?;
        let (seconds, mib) = (begin.elapsed().as_secs_f64(), model.bytes_read() as f64 / f64::from(1 << 20));
        let (number, all) = (share.rank(), share.ranks());
        writeln!(stderr(), "rank {number} of {all}: loaded {mib:.1} MiB in {seconds:.2} s");
        rank.wait_for_all()?;
    }
    Ok(())
}

/// The memory of the largest device; `None` if it is the host's or not known. How much of it is free is checked when the weights
/// are loaded.
fn device_memory(backend: Choice) -> Option<u64> {
    if backend != Choice::Rocm {
        return None;
    }
    let devices = Rocm::devices().ok()?;
    let known = devices.iter().map(|device| (!device.integrated).then_some(device.memory as u64));
    known.collect::<Option<Vec<_>>>()?.into_iter().max()
}

/// The tokenizer of the model at `path`.
pub(crate) fn tokenizer(path: &Path, model: &Gguf) -> Result<Tokenizer> {
    if path.is_dir() && !path.join("tokenizer.json").is_file() {
        return Err(format!("{} has no tokenizer.json", path.display()).into());
    }
    Ok(model.tokenizer()?)
}

// Mapping is the only unsafe call of this crate.
#[allow(unsafe_code)]
fn read(file: &Path, map: bool) -> ops_gguf::Result<Bytes> {
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

/// The conversation of the options, without the prompt; `None` without `--chat`. Errors name the file at fault.
pub(crate) fn chat(args: &ChatArgs) -> Result<Option<Chat>> {
    if !args.chat {
        return Ok(None);
    }
    let text = |file: &Path| {
        std::fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
    };
    let mut chat = match (&args.messages, &args.system) {
        (Some(file), _) => {
            Chat::from_json(&text(file)?).map_err(|error| format!("{}: {error}", file.display()))?
        }
        (None, Some(system)) => Chat::new().message("system", system),
        (None, None) => Chat::new(),
    };
    if let Some(file) = &args.tools {
        chat = chat.tools(&text(file)?).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let variables = args.template_arg.iter();
    Ok(Some(variables.fold(chat, |chat, (name, value)| chat.variable(name, value))))
}
