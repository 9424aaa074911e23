//! `config.json` as the metadata that a GGUF file of the same model has, so that a model is described in only
//! one way.
use super::encoder::Sentences;
use super::neutral::{self, HARMLESS};
use super::options::{Notes, Options, wrong};
use super::parts::{Folder, Keys, Translated, Windows};
use super::{encoder, encoder_families, folder_families, images, rope};
use crate::{Error, Result, families};
use std::path::Path;
use std::rc::Rc;

pub(super) fn translate(path: &Path, notes: Notes) -> Result<Translated> {
    let options = Options::read(path)?;
    let options = options.ok_or_else(|| wrong(path, "file", "no such file", "a file"))?;
    let options = options.with_notes(notes);
    if let Some(encoder) = encoder::translate(&options, path)? {
        return Ok(encoder);
    }
    let text = images::text_config(&options, &HARMLESS)?;
    let has_images = text.is_some();
    let whole = text.is_some().then_some(&options);
    let options = text.as_ref().unwrap_or(&options);
    let parent = path.parent().unwrap_or(Path::new(""));
    let embeds = encoder::embeds(parent);
    let (architecture, folder) = find(options, embeds)?;
    if let Some(whole) = whole {
        neutral::check(whole, folder)?;
        whole.finish(&[&HARMLESS[..], &images::OF_IMAGES].concat())?;
    }
    let mut keys = Keys::new(architecture)?;
    extents(options, folder, &mut keys)?;
    experts(options, folder, &mut keys)?;
    windows(options, folder, &mut keys)?;
    let long_factors = rope::translate(options, folder, &mut keys)?;
    choices(options, folder)?;
    let split = (folder.translate)(options, &mut keys)?;
    if !embeds {
        let wanted = "false, or a folder with modules.json, as encoders have";
        options.only("use_bidirectional_attention", wanted, |value| value.as_bool() == Some(false))?;
    }
    // A model that embeds needs no output matrix.
    let tied = options.flag("tie_word_embeddings")?.unwrap_or(folder.tied) || embeds;
    let further_layers = options.count("num_nextn_predict_layers")?.unwrap_or(0) as usize;
    neutral::check(options, folder)?;
    options.finish(&HARMLESS)?;
    let sentences = if embeds { encoder::sentences(parent, &mut keys)? } else { Sentences::default() };
    let layers = keys.metadata.arch_u32("block_count")? as usize;
    let vocab_size = keys.metadata.arch_u32("vocab_size")? as usize;
    let notes = Rc::clone(&options.notes);
    let metadata = keys.metadata;
    Ok(Translated {
        folder,
        has_images,
        embeds,
        metadata,
        tied,
        layers,
        further_layers,
        vocab_size,
        split,
        long_factors,
        dense: sentences.dense,
        notes,
    })
}

/// The family's name in GGUF, and what it says about folders of this kind.
fn find(options: &Options, embeds: bool) -> Result<(&'static str, &'static Folder)> {
    let model_type = options.required("model_type", options.text("model_type")?)?;
    let known = || folder_families().chain(encoder_families()).collect();
    let found = families::folders().find(|(_, folder)| folder.model_type == model_type);
    let found = found.ok_or_else(|| Error::Family { got: model_type.to_owned(), known: known() })?;
    options.only("architectures", "a class for text generation, ..ForCausalLM", |value| {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        // Of a model that embeds, the output matrix may be left out.
        let fits = |name: &str| name.ends_with("ForCausalLM") || embeds && name.ends_with("Model");
        names.iter().all(|name| name.as_str().is_some_and(fits))
    })?;
    Ok(found)
}

fn extents(options: &Options, folder: &Folder, keys: &mut Keys) -> Result<()> {
    let mut count = |option: &str, key: &str| -> Result<u32> {
        let n = options.required(option, options.count(option)?)?;
        keys.set(key, n)?;
        Ok(n)
    };
    let dim = count("hidden_size", "embedding_length")?;
    let heads = count("num_attention_heads", "attention.head_count")?;
    count("num_hidden_layers", "block_count")?;
    if folder.dense {
        count("intermediate_size", "feed_forward_length")?;
    }
    count("max_position_embeddings", "context_length")?;
    count("vocab_size", "vocab_size")?;
    if heads == 0 {
        return Err(options.wrong("num_attention_heads", 0, "a positive number"));
    }
    let kv_heads = options.count("num_key_value_heads")?;
    let kv_heads = kv_heads.or(folder.as_many_kv_heads.then_some(heads));
    keys.set("attention.head_count_kv", options.required("num_key_value_heads", kv_heads)?)?;
    let head_dim = options.count("head_dim")?.or((!folder.own_head_dim).then_some(dim / heads));
    let head_dim = options.required("head_dim", head_dim)?;
    keys.set("attention.key_length", head_dim)?;
    keys.set("attention.value_length", head_dim)?;
    let eps = options.required(folder.eps, options.number(folder.eps)?)? as f32;
    let kind = if folder.eps == "rms_norm_eps" { "rms_" } else { "" };
    keys.set(&format!("attention.layer_norm_{kind}epsilon"), eps)
}

fn experts(options: &Options, folder: &Folder, keys: &mut Keys) -> Result<()> {
    let Some(option) = options.any(&["num_local_experts", "num_experts"])? else { return Ok(()) };
    keys.set_if("expert_count", options.count(option)?)?;
    let option = options.any(&["num_experts_per_tok", "top_k_experts"])?.unwrap_or("num_experts_per_tok");
    keys.set("expert_used_count", options.required(option, options.count(option)?)?)?;
    (folder.experts)(options, keys)
}

fn windows(options: &Options, folder: &Folder, keys: &mut Keys) -> Result<()> {
    let full: fn(usize, usize) -> bool = match folder.windows {
        Windows::None => |_, _| true,
        Windows::Off => {
            options.only("use_sliding_window", "false", |value| value.as_bool() == Some(false))?;
            options.get("sliding_window");
            |_, _| true
        }
        Windows::All => {
            let size = options.count("sliding_window")?;
            keys.set_if("attention.sliding_window", size)?;
            if size.is_some() { |_, _| false } else { |_, _| true }
        }
        Windows::ButEvery(period) => {
            let size = options.count("sliding_window")?;
            keys.set("attention.sliding_window", options.required("sliding_window", size)?)?;
            for option in ["sliding_window_pattern", "_sliding_window_pattern"] {
                options.only(option, &period.to_string(), |value| value.as_u64() == Some(period as u64))?;
            }
            |layer, period| (layer + 1).is_multiple_of(period)
        }
    };
    if folder.own_layer_types {
        return Ok(());
    }
    let period = if let Windows::ButEvery(period) = folder.windows { period } else { 1 };
    let name = |layer: usize| if full(layer, period) { "full_attention" } else { "sliding_attention" };
    options.only("layer_types", "the pattern of windowed layers in this family", |value| {
        let layers = value.as_array().map(Vec::as_slice).unwrap_or_default();
        layers.iter().enumerate().all(|(layer, kind)| kind.as_str() == Some(name(layer)))
    })
}

fn choices(options: &Options, folder: &Folder) -> Result<()> {
    for option in ["hidden_act", "hidden_activation"] {
        options.only(option, folder.activation, |value| value.as_str() == Some(folder.activation))?;
    }
    Ok(())
}
