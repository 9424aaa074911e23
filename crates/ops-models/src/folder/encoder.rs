//! An encoder's `config.json`, and the files of `sentence-transformers` about its embeddings, as metadata.
use super::neutral::{self, HARMLESS};
use super::options::{Options, parsed, read_text, wrong};
use super::parts::{COMMON, Folder, Keys, Translated};
use crate::Result;
use crate::encoder::{ACTIVATIONS, MOST_DENSE, Pooling, folders, key};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::rc::Rc;

pub(crate) use names::Names;

mod names;

/// What most encoders have.
pub(crate) const CLASSIC: Folder = Folder { tied: true, ..COMMON };

/// The kinds of encoder that folders may hold, as `model_type` in `config.json` names them.
///
/// ```
/// assert!(rocm_ops::models::encoder_families().any(|name| name == "bert"));
/// ```
pub fn encoder_families() -> impl Iterator<Item = &'static str> {
    folders().map(|(_, folder)| folder.model_type)
}

/// Options of encoders without an effect on results. Those of decoders are harmless here too.
const ALSO_HARMLESS: [&str; 4] =
    ["attention_probs_dropout_prob", "classifier_dropout", "hidden_dropout_prob", "tie_word_embeddings"];

/// Translates the configuration at `path`; `None` if it is not an encoder's.
pub(super) fn translate(options: &Options, path: &Path) -> Result<Option<Translated>> {
    let model_type = options.text("model_type")?;
    let found = folders().find(|(_, folder)| Some(folder.model_type) == model_type);
    let Some((architecture, folder)) = found else { return Ok(None) };
    let Some(names) = folder.encoder else { return Ok(None) };
    let wanted = format!("one of {}", names.classes.join(", "));
    options.only("architectures", &wanted, |value| {
        let classes = value.as_array().map(Vec::as_slice).unwrap_or_default();
        classes.iter().all(|class| class.as_str().is_some_and(|class| names.classes.contains(&class)))
    })?;
    let mut keys = Keys::new(architecture)?;
    let split = (folder.translate)(options, &mut keys)?;
    neutral::check(options, folder)?;
    options.finish(&[&HARMLESS[..], &ALSO_HARMLESS, names.harmless].concat())?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let sentences = sentences(parent, &mut keys)?;
    let layers = keys.metadata.arch_u32("block_count")? as usize;
    let vocab_size = keys.metadata.arch_u32("vocab_size")? as usize;
    Ok(Some(Translated {
        folder,
        has_images: false,
        embeds: embeds(parent),
        metadata: keys.metadata,
        tied: true,
        layers,
        further_layers: 0,
        vocab_size,
        split,
        long_factors: None,
        dense: sentences.dense,
        notes: Rc::clone(&options.notes),
    }))
}

/// Extents of any encoder, and that its attention is not causal.
pub(crate) fn extents(options: &Options, keys: &mut Keys) -> Result<()> {
    for (names, key) in [
        (["hidden_size", "n_embd"], "embedding_length"),
        (["num_attention_heads", "n_head"], "attention.head_count"),
        (["num_hidden_layers", "n_layer"], "block_count"),
        (["intermediate_size", "n_inner"], "feed_forward_length"),
        (["vocab_size", "vocab_size"], "vocab_size"),
    ] {
        let option = options.any(&names)?.unwrap_or(names[0]);
        keys.set(key, options.required(option, options.count(option)?)?)?;
    }
    // If a file has both, the second is the longest text of its family.
    let context = options.count("max_position_embeddings")?.or(options.count("n_positions")?);
    keys.set("context_length", options.required("max_position_embeddings", context)?)?;
    let option =
        options.any(&["layer_norm_eps", "layer_norm_epsilon", "norm_eps"])?.unwrap_or("layer_norm_eps");
    let eps = options.required(option, options.number(option)?)?;
    keys.set("attention.layer_norm_epsilon", eps as f32)?;
    for option in ["is_decoder", "add_cross_attention"] {
        options.only(option, "false", |value| value.as_bool() == Some(false))?;
    }
    keys.set("attention.causal", false)
}

/// Rows of the table of token types.
pub(crate) fn token_types(options: &Options, keys: &mut Keys) -> Result<()> {
    keys.set(key::TOKEN_TYPES, options.required("type_vocab_size", options.count("type_vocab_size")?)?)
}

/// The function of a feed-forward block without a gate.
pub(crate) fn activation(options: &Options, keys: &mut Keys) -> Result<()> {
    let activation = options.required("hidden_act", options.text("hidden_act")?)?;
    if !ACTIVATIONS.iter().any(|(name, _)| *name == activation) {
        let known = ACTIVATIONS.map(|(name, _)| name).join(", ");
        return Err(options.wrong("hidden_act", activation, format!("one of {known}")));
    }
    keys.set(key::ACTIVATION, activation)
}

/// That the feed-forward block has gated silu, which has several names.
pub(crate) fn silu(options: &Options) -> Result<()> {
    options.only("hidden_act", "silu", |value| value.as_str() == Some("silu"))?;
    options.only("activation_function", "swiglu", |value| value.as_str() == Some("swiglu"))?;
    if options.get("hidden_act").or(options.get("activation_function")).is_some() {
        return Ok(());
    }
    Err(options.wrong("activation_function", "no such option", "swiglu"))
}

/// That heads divide the width.
pub(crate) fn whole_heads(options: &Options, keys: &Keys) -> Result<()> {
    let (dim, heads) =
        (keys.metadata.arch_u32("embedding_length")?, keys.metadata.arch_u32("attention.head_count")?);
    let features = dim / heads.max(1);
    options.only("head_dim", &format!("{features}, the width divided by the number of heads"), |value| {
        value.as_u64() == Some(features.into())
    })
}

/// Whether a folder's files say how the states of a text's tokens become one vector.
pub(super) fn embeds(folder: &Path) -> bool {
    folder.join("modules.json").is_file()
}

/// What `sentence-transformers` does after the encoder and pooling, except normalisation.
#[derive(Default)]
pub(super) struct Sentences {
    /// The folders of matrices, in order.
    pub(super) dense: Vec<PathBuf>,
}

/// Reads what `sentence-transformers` does before and after the encoder.
pub(super) fn sentences(folder: &Path, keys: &mut Keys) -> Result<Sentences> {
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
        prompts(&options, keys)?;
    }
    let path = folder.join("modules.json");
    let Some(text) = read_text(&path)? else {
        keys.set(key::POOLING, Pooling::Mean.code())?;
        keys.set(key::NORMALIZE, false)?;
        return Ok(Sentences::default());
    };
    modules(folder, &path, &text, keys)
}

/// Texts that are put before what is embedded, by their names.
fn prompts(options: &Options, keys: &mut Keys) -> Result<()> {
    let mut all = Vec::new();
    for (name, text) in options.get("prompts").and_then(Value::as_object).into_iter().flatten() {
        let text = text.as_str().ok_or_else(|| options.wrong("prompts", text, "a string for each name"))?;
        all.extend([name.clone(), text.to_owned()]);
    }
    if let Some(default) = options.text("default_prompt_name")? {
        if !all.iter().step_by(2).any(|name| name == default) {
            return Err(options.wrong("default_prompt_name", default, "a name in `prompts`"));
        }
        keys.set(key::DEFAULT_PROMPT, default)?;
    }
    if all.is_empty() { Ok(()) } else { keys.set(key::PROMPTS, all.as_slice()) }
}

/// How the states of tokens become one vector, according to `modules.json`.
fn modules(folder: &Path, path: &Path, text: &str, keys: &mut Keys) -> Result<Sentences> {
    let modules = parsed(path, text)?;
    let modules = modules.as_array().map(Vec::as_slice).unwrap_or_default();
    let kinds: Vec<&str> = modules.iter().map(kind).collect();
    let normalize = kinds.last() == Some(&"Normalize");
    let after = kinds.get(2..kinds.len() - usize::from(normalize)).unwrap_or_default();
    let dense = after.len();
    if kinds.get(..2) != Some(&["Transformer", "Pooling"][..]) || after.iter().any(|kind| *kind != "Dense") {
        let wanted = "Transformer and Pooling, then any Dense, and Normalize or nothing";
        return Err(wrong(path, "modules", format!("{kinds:?}"), wanted));
    }
    if dense > MOST_DENSE {
        return Err(wrong(path, "modules", format!("{dense} Dense"), format!("at most {MOST_DENSE}")));
    }
    let own = path_of(&modules[0]);
    if !own.is_empty() {
        let wanted = "the folder itself: give the folder with the encoder's config.json";
        return Err(wrong(path, "path of the encoder", own, wanted));
    }
    keys.set(key::POOLING, pooling(folder, path_of(&modules[1]), keys)?.code())?;
    keys.set(key::NORMALIZE, normalize)?;
    let mut sentences = Sentences::default();
    for module in &modules[2..2 + dense] {
        let (path, options) = options_of(folder, path_of(module), "the options of a matrix")?;
        let wanted = "Identity: no function follows the matrix";
        options.only("activation_function", wanted, |value| {
            value.as_str().is_some_and(|name| name.rsplit('.').next() == Some("Identity"))
        })?;
        // Extents and biases are visible in the tensors.
        options.finish(&["in_features", "out_features", "bias"])?;
        sentences.dense.push(path);
    }
    Ok(sentences)
}

/// The folder of a module, and its options.
fn options_of(folder: &Path, name: &str, what: &str) -> Result<(PathBuf, Options)> {
    let own = folder.join(name);
    let path = own.join("config.json");
    // Must be a plain name, not a path to somewhere else.
    let inside = Path::new(name).file_name().is_some_and(|last| last == name);
    let options = if inside { Options::read(&path)? } else { None };
    Ok((own, options.ok_or_else(|| wrong(&path, "file", "no such file", what))?))
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

/// The kinds of pooling, by the options that choose them.
const MODES: [(&str, Pooling); 3] = [
    ("pooling_mode_mean_tokens", Pooling::Mean),
    ("pooling_mode_cls_token", Pooling::First),
    ("pooling_mode_lasttoken", Pooling::Last),
];

/// The kind of pooling that the folder `name` describes.
fn pooling(folder: &Path, name: &str, keys: &Keys) -> Result<Pooling> {
    let (own, options) = options_of(folder, name, "the options of pooling")?;
    let path = own.join("config.json");
    let dim = keys.metadata.arch_u32("embedding_length")?;
    options.only("word_embedding_dimension", &format!("{dim}, as hidden_size"), |value| {
        value.as_u64() == Some(dim.into())
    })?;
    let chosen = |option: &str| -> Result<bool> { Ok(options.flag(option)?.unwrap_or(false)) };
    let mut modes = Vec::new();
    for (option, pooling) in MODES {
        if chosen(option)? {
            modes.push((option, pooling));
        }
    }
    let &[(_, pooling)] = &modes[..] else {
        let names: Vec<_> = modes.iter().map(|(option, _)| *option).collect();
        let got = if names.is_empty() { "none".to_owned() } else { names.join(" and ") };
        let wanted = format!("one of {}", MODES.map(|(option, _)| option).join(", "));
        return Err(wrong(&path, "pooling", got, wanted));
    };
    for option in
        ["pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens"]
    {
        options.only(option, "false", |value| value.as_bool() == Some(false))?;
    }
    options.only("include_prompt", "true", |value| value.as_bool() == Some(true))?;
    options.finish(&[])?;
    Ok(pooling)
}
