//! Models in several files: `NAME-00001-of-00003.gguf` and so on.
//!
//! The first part has the model's metadata; every part has `split.no`, `split.count` and its own tensors.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::metadata::Metadata;
use crate::parse::{Front, sort_by_name};
use crate::tensor::TensorInfo;

const NO: &str = "split.no";
const COUNT: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// Reads a model and all its parts: `path`, and the other parts if `path` is the first of several.
///
/// The result looks as if the model were in one file: it has no `split` keys, and each tensor has the index
/// of its file in the list of second values returned by `read`.
pub(crate) fn load<X>(
    path: &Path,
    mut read: impl FnMut(&Path) -> Result<(Front, X)>,
) -> Result<(Front, Vec<X>)> {
    let (mut front, first) = read(path)?;
    let mut files = vec![first];
    let count = front.metadata.find::<u64>(COUNT)?.unwrap_or(1);
    if count <= 1 {
        return Ok((front, files));
    }
    let no = front.metadata.get::<u64>(NO).map_err(|e| Error::part(path, e))?;
    if no != 0 {
        let first = sibling(path, no, count, 0)?;
        let wanted = format!("0: open the first part, {}", first.display());
        return Err(Error::split(path, format_args!("`{NO}`"), no, wanted));
    }
    for no in 1..count {
        let part = sibling(path, 0, count, no)?;
        let (other, file) = read(&part).map_err(|e| Error::part(&part, e))?;
        check(&part, &front.metadata, &other.metadata, no, count)?;
        let index = files.len();
        front.tensors.extend(other.tensors.into_iter().map(|info| TensorInfo { file: index, ..info }));
        files.push(file);
    }
    finish(path, &mut front)?;
    Ok((front, files))
}

/// The path of part `wanted`, given that of part `no`; both count from 0.
fn sibling(path: &Path, no: u64, count: u64, wanted: u64) -> Result<PathBuf> {
    let ending = |no: u64| format!("-{:05}-of-{count:05}.gguf", no.saturating_add(1));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_suffix(&ending(no)) {
        Some(stem) => Ok(path.with_file_name(format!("{stem}{}", ending(wanted)))),
        None => {
            let wanted =
                format!("a name that ends in {}, which is needed to find the other parts", ending(no));
            Err(Error::split(path, "file name", format_args!("{name:?}"), wanted))
        }
    }
}

/// Checks that a part belongs to the model of the first one.
fn check(part: &Path, model: &Metadata, other: &Metadata, no: u64, count: u64) -> Result<()> {
    for (key, wanted) in [(NO, no), (COUNT, count)] {
        let got = other.get::<u64>(key).map_err(|e| Error::part(part, e))?;
        if got != wanted {
            return Err(Error::split(part, format_args!("`{key}`"), got, wanted));
        }
    }
    for (key, value) in other.iter().filter(|(key, _)| *key != NO && *key != "general.alignment") {
        match model.value(key) {
            Some(wanted) if wanted == value => {}
            Some(wanted) => {
                let wanted = format!("{wanted} as in the first part; it belongs to another model");
                return Err(Error::split(part, format_args!("metadata key `{key}`"), value, wanted));
            }
            None => {
                return Err(Error::split(
                    part,
                    format_args!("metadata key `{key}`"),
                    value,
                    "the same key in the first part",
                ));
            }
        }
    }
    Ok(())
}

/// Sorts all tensors, checks their count, and removes the `split` keys.
fn finish(path: &Path, front: &mut Front) -> Result<()> {
    let tensors = &front.tensors;
    front.by_name = sort_by_name(tensors.iter().map(|tensor| &*tensor.name), |first, second| {
        let (first, second) = (&tensors[first], &tensors[second]);
        let got = format!("tensor `{}` in both", first.name);
        let what = format!("parts {} and {}", first.file + 1, second.file + 1);
        Error::split(path, what, got, "it in only one of them; they belong to different models")
    })?;
    if let Some(wanted) = front.metadata.find::<u64>(TENSORS)?
        && wanted != front.tensors.len() as u64
    {
        let got = format!("{} in all parts together", front.tensors.len());
        return Err(Error::split(path, format_args!("`{TENSORS}` of {wanted}"), got, wanted));
    }
    [NO, COUNT, TENSORS].iter().for_each(|key| drop(front.metadata.remove(key)));
    Ok(())
}
