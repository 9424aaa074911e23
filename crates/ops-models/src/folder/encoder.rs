//! An encoder's `config.json`, and the files of `sentence-transformers` about its embeddings, as metadata.
use super::neutral::{self, HARMLESS};
use super::options::{Options, parsed, read_text, wrong};
use super::parts::{COMMON, Folder, Keys, Split, Translated};
use crate::Result;
use crate::encoder::{ACTIVATIONS, Pooling, key};
use serde_json::Value;
use std::path::Path;
use std::rc::Rc;

pub(super) use names::{LAYERS, place};

pub(super) mod names;

/// This is the only list of encoders that folders may hold.
static FAMILIES: [Folder; 1] = [Folder { model_type: "bert", encoder: true, tied: true, ..COMMON }];

/// Classes of `transformers` in which the encoder is the whole model, or is followed by a head that
/// embeddings do not use.
const CLASSES: [&str; 3] = ["BertModel", "BertForMaskedLM", "BertForPreTraining"];

/// The kinds of encoder that folders may hold, as `model_type` in `config.json` names them.
///
/// ```
/// assert!(ops_models::encoder_families().any(|name| name == "bert"));
/// ```
pub fn encoder_families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|folder| folder.model_type)
}

/// Options of encoders without an effect on results. Those of decoders are harmless here too.
const ALSO_HARMLESS: [&str; 10] = [
    "attention_probs_dropout_prob",
    "classifier_dropout",
    "directionality",
    "hidden_dropout_prob",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "tie_word_embeddings",
];

/// Translates the configuration at `path`; `None` if it is not an encoder's.
pub(super) fn translate(options: &Options, path: &Path) -> Result<Option<Translated>> {
    let model_type = options.text("model_type")?;
    let Some(folder) = FAMILIES.iter().find(|folder| Some(folder.model_type) == model_type) else {
        return Ok(None);
    };
    let wanted = format!("one of {}", CLASSES.join(", "));
    options.only("architectures", &wanted, |value| {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().all(|name| name.as_str().is_some_and(|name| CLASSES.contains(&name)))
    })?;
    let mut keys = Keys::new(folder.model_type)?;
    extents(options, &mut keys)?;
    choices(options, &mut keys)?;
    neutral::check(options, folder)?;
    options.finish(&[&HARMLESS[..], &ALSO_HARMLESS].concat())?;
    sentences(path.parent().unwrap_or(Path::new("")), &mut keys)?;
    let layers = keys.metadata.arch_u32("block_count")? as usize;
    let vocab_size = keys.metadata.arch_u32("vocab_size")? as usize;
    Ok(Some(Translated {
        folder,
        has_images: false,
        metadata: keys.metadata,
        tied: true,
        layers,
        vocab_size,
        split: Split::None,
        long_factors: None,
        notes: Rc::clone(&options.notes),
    }))
}

fn extents(options: &Options, keys: &mut Keys) -> Result<()> {
    for (option, key) in [
        ("hidden_size", "embedding_length"),
        ("num_attention_heads", "attention.head_count"),
        ("num_hidden_layers", "block_count"),
        ("intermediate_size", "feed_forward_length"),
        ("max_position_embeddings", "context_length"),
        ("vocab_size", "vocab_size"),
        ("type_vocab_size", key::TOKEN_TYPES),
    ] {
        keys.set(key, options.required(option, options.count(option)?)?)?;
    }
    let eps = options.required("layer_norm_eps", options.number("layer_norm_eps")?)?;
    keys.set("attention.layer_norm_epsilon", eps as f32)
}

fn choices(options: &Options, keys: &mut Keys) -> Result<()> {
    let activation = options.required("hidden_act", options.text("hidden_act")?)?;
    if !ACTIVATIONS.iter().any(|(name, _)| *name == activation) {
        let known = ACTIVATIONS.map(|(name, _)| name).join(", ");
        return Err(options.wrong("hidden_act", activation, format!("one of {known}")));
    }
    keys.set(key::ACTIVATION, activation)?;
    options.only("position_embedding_type", "absolute", |value| value.as_str() == Some("absolute"))?;
    for option in ["is_decoder", "add_cross_attention"] {
        options.only(option, "false", |value| value.as_bool() == Some(false))?;
    }
    keys.set("attention.causal", false)
}

/// What `sentence-transformers` does before and after the encoder.
fn sentences(folder: &Path, keys: &mut Keys) -> Result<()> {
    if let Some(options) = Options::read(&folder.join("sentence_bert_config.json"))? {
        if let Some(most) = options.count("max_seq_length")? {
            keys.set(key::MAX_TOKENS, most)?;
        }
        if let Some(lower) = options.flag("do_lower_case")? {
            keys.set(key::LOWER_CASE, lower)?;
        }
        options.finish(&[])?;
    }
    if let Some(options) = Options::read(&folder.join("config_sentence_transformers.json"))? {
        let wanted = "none: this program puts no prompt before a text";
        options.only("default_prompt_name", wanted, |_| false)?;
    }
    let path = folder.join("modules.json");
    let (pooling, normalize) = match read_text(&path)? {
        Some(text) => modules(folder, &path, &text, keys)?,
        None => (Pooling::Mean, false),
    };
    keys.set(key::POOLING, pooling.code())?;
    keys.set(key::NORMALIZE, normalize)
}

/// How tokens are combined into one vector, according to `modules.json`, and whether it is normalised.
fn modules(folder: &Path, path: &Path, text: &str, keys: &Keys) -> Result<(Pooling, bool)> {
    let modules = parsed(path, text)?;
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let kinds: Vec<&str> = modules.iter().map(kind).collect();
    let normalize = match kinds[..] {
        ["Transformer", "Pooling"] => false,
        ["Transformer", "Pooling", "Normalize"] => true,
        _ => {
            let wanted = "Transformer and Pooling, and Normalize or nothing";
            return Err(wrong(path, "modules", format!("{kinds:?}"), wanted));
        }
    };
    let own = path_of(&modules[0]);
    if !own.is_empty() {
        let wanted = "the folder itself: give the folder with the encoder's config.json";
        return Err(wrong(path, "path of the encoder", own, wanted));
    }
    Ok((pooling(folder, path_of(&modules[1]), keys)?, normalize))
}

/// The class of a module, without its import path.
fn kind(module: &Value) -> &str {
    let class = module.get("type").and_then(Value::as_str).unwrap_or_default();
    class.rsplit('.').next().unwrap_or_default()
}

/// The folder of a module.
fn path_of(module: &Value) -> &str {
    module.get("path").and_then(Value::as_str).unwrap_or_default()
}

/// The kind of pooling that the folder `name` describes.
fn pooling(folder: &Path, name: &str, keys: &Keys) -> Result<Pooling> {
    let path = folder.join(name).join("config.json");
    // Must be a plain name, not a path to somewhere else.
    let inside = Path::new(name).file_name().is_some_and(|last| last == name);
    let options = if inside { Options::read(&path)? } else { None };
    let options = options.ok_or_else(|| wrong(&path, "file", "no such file", "the options of pooling"))?;
    let dim = keys.metadata.arch_u32("embedding_length")?;
    options.only("word_embedding_dimension", &format!("{dim}, as hidden_size"), |value| {
        value.as_u64() == Some(dim.into())
    })?;
    let chosen = |option: &str| -> Result<bool> { Ok(options.flag(option)?.unwrap_or(false)) };
    let pooling = match (chosen("pooling_mode_mean_tokens")?, chosen("pooling_mode_cls_token")?) {
        (true, false) => Pooling::Mean,
        (false, true) => Pooling::First,
        (mean, _) => {
            let got = if mean { "both" } else { "neither" };
            return Err(wrong(&path, "pooling", got, "pooling_mode_mean_tokens or pooling_mode_cls_token"));
        }
    };
    for option in [
        "pooling_mode_max_tokens",
        "pooling_mode_mean_sqrt_len_tokens",
        "pooling_mode_weightedmean_tokens",
        "pooling_mode_lasttoken",
    ] {
        options.only(option, "false", |value| value.as_bool() == Some(false))?;
    }
    options.finish(&["include_prompt"])?;
    Ok(pooling)
}
