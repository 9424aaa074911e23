//! Where a model that was read from a folder comes from, so that errors name options and tensors of the folder instead of the
//! GGUF keys and tensors that stand for them.
use super::encoder::Names;
use super::names;
use super::options::wrong;
use crate::{Error, Result};
use ops_gguf::{Gguf, Metadata};
use std::path::{Path, PathBuf};

const FOLDER: &str = "folder.path";
const WARNINGS: &str = "folder.warnings";
/// Three strings for each tensor: its name in GGUF, its name in the folder, and its file.
const TENSORS: &str = "folder.tensors";
const NAMES: &str = "folder.names";
const FURTHER: &str = "folder.further";
const IN_LAYER: &str = "blk.";

/// Keys, after the name of the architecture, and the options that they stand for.
const OPTIONS: [(&str, &str); 35] = [
    ("embedding_length", "hidden_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("attention.value_length", "head_dim"),
    ("attention.key_length_mla", "qk_nope_head_dim"),
    ("attention.value_length_mla", "v_head_dim"),
    ("attention.kv_lora_rank", "kv_lora_rank"),
    ("attention.q_lora_rank", "q_lora_rank"),
    ("attention.sliding_window", "sliding_window"),
    ("attention.recurrent_layers", "layer_types"),
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("attention.scale", "query_pre_attn_scalar"),
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("feed_forward_length", "intermediate_size"),
    ("vocab_size", "vocab_size"),
    ("expert_count", "num_experts"),
    ("expert_used_count", "num_experts_per_tok"),
    ("expert_feed_forward_length", "moe_intermediate_size"),
    ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    ("expert_shared_count", "n_shared_experts"),
    ("expert_group_count", "n_group"),
    ("expert_group_used_count", "topk_group"),
    ("leading_dense_block_count", "first_k_dense_replace"),
    ("full_attention_interval", "full_attention_interval"),
    ("rope.dimension_count", "partial_rotary_factor"),
    ("rope.freq_base", "rope_theta"),
    ("rope.scaling.type", "rope_scaling.rope_type"),
    ("rope.scaling.factor", "rope_scaling.factor"),
    ("rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"),
    ("ssm.group_count", "linear_num_key_heads"),
    ("ssm.state_size", "linear_key_head_dim"),
    ("ssm.conv_kernel", "linear_conv_kernel_dim"),
];

pub(super) fn set_folder(metadata: &mut Metadata, folder: &Path) -> Result<()> {
    metadata.set(FOLDER, folder.display().to_string())?;
    Ok(())
}

pub(super) fn set_warnings(metadata: &mut Metadata, warnings: &[String]) -> Result<()> {
    if !warnings.is_empty() {
        metadata.set(WARNINGS, warnings)?;
    }
    Ok(())
}

/// Remembers the names of an encoder's tensors: what comes before the number of a layer, then pairs of theirs and ours.
pub(super) fn set_names(metadata: &mut Metadata, names: &Names) -> Result<()> {
    let in_layers =
        names.layer.iter().map(|(theirs, ours)| [(*theirs).to_owned(), format!("{IN_LAYER}{ours}")]);
    let whole = names.whole.iter().map(|(theirs, ours)| [(*theirs).to_owned(), (*ours).to_owned()]);
    let all: Vec<String> =
        std::iter::once(names.layers.to_owned()).chain(in_layers.chain(whole).flatten()).collect();
    metadata.set(NAMES, all.as_slice())?;
    Ok(())
}

/// The name that a GGUF tensor has in the folder of an encoder; `None` if no name is known, or if it is not an encoder's.
fn theirs_of_encoder(metadata: &Metadata, ours: &str) -> Option<String> {
    let all: Vec<&str> = metadata.strings(NAMES).ok()?.iter().collect();
    let (layers, pairs) = all.split_first()?;
    let (part, kind) = ours.rsplit_once('.')?;
    let find = |ours: &str| pairs.chunks_exact(2).find(|pair| pair[1] == ours).map(|pair| pair[0]);
    let Some(rest) = part.strip_prefix(IN_LAYER) else { return Some(format!("{}.{kind}", find(part)?)) };
    let (layer, part) = rest.split_once('.')?;
    Some(format!("{layers}{layer}.{}.{kind}", find(&format!("{IN_LAYER}{part}"))?))
}

/// Remembers what comes before the names of tensors of layers after the last of this many.
pub(super) fn set_further(metadata: &mut Metadata, prefix: &str, layers: usize) -> Result<()> {
    metadata.set(FURTHER, [prefix.to_owned(), layers.to_string()].as_slice())?;
    Ok(())
}

/// The name that a GGUF tensor of such a layer has in the folder; `None` for another layer's.
fn theirs_of_further(metadata: &Metadata, ours: &str, post_normed: bool) -> Option<String> {
    let all: Vec<&str> = metadata.strings(FURTHER).ok()?.iter().collect();
    let [prefix, layers] = all.as_slice() else { return None };
    let name = names::theirs_of_further(ours, layers.parse().ok()?, post_normed)?;
    Some(format!("{prefix}{name}"))
}

/// Remembers name and file of each tensor, by its name in GGUF.
pub(super) fn set_tensors<'t>(
    metadata: &mut Metadata,
    tensors: impl Iterator<Item = (&'t String, &'t (String, PathBuf))>,
) -> Result<()> {
    let all =
        tensors.flat_map(|(ours, (theirs, file))| [ours.clone(), theirs.clone(), file.display().to_string()]);
    metadata.set(TENSORS, all.collect::<Vec<String>>().as_slice())?;
    Ok(())
}

/// Whether the model was read from a folder.
pub(crate) fn is_folder(metadata: &Metadata) -> bool {
    metadata.value(FOLDER).is_some()
}

/// What was noticed when a folder was opened.
pub(crate) fn warnings(metadata: &Metadata) -> Vec<String> {
    let all = metadata.strings(WARNINGS).ok();
    all.into_iter().flat_map(|all| all.iter()).map(str::to_owned).collect()
}

/// The error in the words of the folder, if the model was read from one.
pub(crate) fn named(error: Error, metadata: &Metadata) -> Error {
    let Ok(folder) = metadata.str(FOLDER).map(PathBuf::from) else { return error };
    match error {
        Error::Key { key, got, wanted } => key_error(&folder, metadata, &key, got, wanted),
        Error::File(ops_gguf::Error::MissingKey { key, wanted }) => {
            key_error(&folder, metadata, &key, "no such option".to_owned(), wanted.to_owned())
        }
        Error::File(ops_gguf::Error::KeyType { key, got, wanted, .. }) => {
            key_error(&folder, metadata, &key, got, wanted)
        }
        Error::Tensor { name, got, wanted }
        | Error::File(ops_gguf::Error::TensorType { name, got, wanted, .. }) => {
            let (name, file) = tensor(metadata, &name, &folder);
            wrong(&file, format!("tensor {name}"), got, wanted)
        }
        Error::File(ops_gguf::Error::MissingTensor { name, .. }) => {
            let (name, file) = tensor(metadata, &name, &folder);
            wrong(&file, format!("tensor {name}"), "no such tensor", "the tensor")
        }
        other => other,
    }
}

/// [`named`] for the results of functions that read a model.
pub(crate) fn in_words_of<T>(gguf: &Gguf, result: Result<T>) -> Result<T> {
    result.map_err(|error| named(error, gguf.metadata()))
}

fn key_error(folder: &Path, metadata: &Metadata, key: &str, got: String, wanted: String) -> Error {
    let architecture = metadata.architecture().unwrap_or_default();
    let own = key.strip_prefix(architecture).and_then(|key| key.strip_prefix('.')).unwrap_or(key);
    match OPTIONS.iter().find(|(ours, _)| *ours == own) {
        Some((_, option)) => wrong(&folder.join("config.json"), format!("option `{option}`"), got, wanted),
        None => wrong(folder, format!("the option for `{key}`"), got, wanted),
    }
}

/// A tensor's name in the folder and its file; of a missing one, the name that it would have, and the folder.
fn tensor(metadata: &Metadata, ours: &str, folder: &Path) -> (String, PathBuf) {
    let known: Vec<&str> = metadata.strings(TENSORS).map(|all| all.iter().collect()).unwrap_or_default();
    match known.chunks_exact(3).find(|one| one[0] == ours) {
        Some(one) => (one[1].to_owned(), PathBuf::from(one[2])),
        None => {
            let post_normed = known.iter().any(|name| name.ends_with("post_attention_norm.weight"));
            let theirs = theirs_of_encoder(metadata, ours)
                .or_else(|| theirs_of_further(metadata, ours, post_normed))
                .or_else(|| names::theirs(ours, post_normed));
            (theirs.unwrap_or_else(|| ours.to_owned()), folder.to_owned())
        }
    }
}
