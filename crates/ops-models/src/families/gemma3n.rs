//! Gemma 3n: several residual streams of which layers compute one, a second way past attention, embeddings for each layer, keys
//! shared by the last layers, and in the first layers a feed-forward block that drops most of its gates. Gemma Team, 2025.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Images, Keys, Split, Windows};
use crate::{Activation, Config, Result, Window};
use ops_gguf::Array;
use serde_json::{Value, json};

mod per_layer;
mod streams;

pub(crate) use per_layer::{Aside, End, PerLayer};
pub(crate) use streams::Laurel;

const SPARSITY: &str = "activation_sparsity_scale";

/// Folders of Gemma 3n, and of Gemma 4 as far as they are alike.
pub(super) const FOLDER: Folder = Folder {
    activation: "gelu_pytorch_tanh",
    own_head_dim: true,
    head_norms: true,
    tied: true,
    post_attention_norm: true,
    windows: Windows::All,
    own_layer_types: true,
    ..COMMON
};

pub(super) const FAMILY: Family = Family {
    name: "gemma3n",
    folders: &[Folder {
        model_type: "gemma3n_text",
        title: "Gemma 3n",
        example: "google/gemma-3n-E2B-it",
        refused: "images, sounds",
        images: Some(Images { model_type: "gemma3n", defaults: || json!({}) }),
        dense: false,
        translate,
        ..FOLDER
    }],
    adjust: |keys, config| {
        layers(keys, config)?;
        let streams = keys.count("altup.num_inputs")?;
        if streams < 2 {
            return Err(keys.wrong("altup.num_inputs", streams, "at least 2"));
        }
        if config.per_layer.is_none() {
            return Err(keys.wrong("embedding_length_per_layer_input", 0, "a positive number"));
        }
        config.streams = Some(streams);
        let active = keys.find::<u32>("altup.active_idx")?.unwrap_or(0);
        if active != 0 {
            return Err(keys.wrong("altup.active_idx", active, "0, the first stream"));
        }
        let scales = keys.find::<&[f32]>(SPARSITY)?.unwrap_or_default();
        let is_scale = |scale: &f32| scale.is_finite() || *scale == f32::NEG_INFINITY;
        if ![0, config.layers].contains(&scales.len()) || !scales.iter().all(is_scale) {
            let wanted = format!("a number or -inf for each of {} layers", config.layers);
            return Err(keys.wrong(SPARSITY, format!("{scales:?}"), wanted));
        }
        let of_layer = |scale: &f32| match scale.is_finite() {
            true => Activation::GegluSparse { deviations: f64::from(*scale) },
            false => Activation::Geglu,
        };
        config.activation_by_layer = scales.iter().map(of_layer).collect();
        Ok(())
    },
    ..PLAIN
};

/// What Gemma 4 has as well: kinds of layer, embeddings for each layer, and shared keys.
pub(super) fn layers(keys: &crate::keys::Keys<'_>, config: &mut Config) -> Result<()> {
    config.activation = Activation::Geglu;
    config.embedding_scale = (config.dim as f64).sqrt();
    config.logit_softcap = keys.float("final_logit_softcapping")?.filter(|cap| *cap != 0.0);
    config.score_scale = Some(1.0);
    config.post_norms = true;
    config.value_norms = true;
    let found = |key: &str| -> Result<usize> { Ok(keys.find::<u32>(key)?.unwrap_or(0) as usize) };
    config.per_layer = Some(found("embedding_length_per_layer_input")?).filter(|width| *width > 0);
    config.shared_kv = found("attention.shared_kv_layers")?;
    let pattern = "attention.sliding_window_pattern";
    let layers = keys.find::<&[bool]>(pattern)?.unwrap_or_default();
    let own = config.layers.saturating_sub(config.shared_kv);
    let alike = |layer: usize| layers[..own].contains(&layers[layer]);
    if layers.len() != config.layers || !(own..layers.len()).all(alike) {
        let wanted =
            format!("one for each of {} layers, with both kinds among the first {own}", config.layers);
        return Err(keys.wrong(pattern, format!("{} values", layers.len()), wanted));
    }
    config.window = Some(Window {
        rope_base: Some(keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0)),
        layers: Some(layers.to_vec()),
        ..Window::but_every(usize::MAX, keys.count("attention.sliding_window")?)
    });
    Ok(())
}

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    translate_layers(options, keys)?;
    keys.set(
        "feed_forward_length",
        Array::U32(by_layer(options, "intermediate_size", Value::as_u64)?.into()),
    )?;
    for (option, key) in [("altup_num_inputs", "altup.num_inputs"), ("altup_active_idx", "altup.active_idx")]
    {
        keys.set(key, options.required(option, options.count(option)?)?)?;
    }
    options.only("altup_correct_scale", "true", |value| value.as_bool() == Some(true))?;
    if options.get("activation_sparsity_pattern").is_some() {
        let shares: Vec<f64> = by_layer(options, "activation_sparsity_pattern", Value::as_f64)?;
        let scales: Vec<f32> = shares.into_iter().map(|share| deviations(share) as f32).collect();
        keys.set(SPARSITY, Array::F32(scales.into()))?;
    }
    // Visible in the tensors, without an effect, or about training.
    for option in ["laurel_rank", "query_pre_attn_scalar", "altup_coef_clip", "altup_lr_multiplier"] {
        options.get(option);
    }
    Ok(Split::None)
}

/// The options about what [`layers`] reads. Returns which layers have a window, and how many share keys.
pub(super) fn translate_layers(options: &Options, keys: &mut Keys) -> Result<(Vec<bool>, u32)> {
    let windowed = options.layers_of("layer_types", ["sliding_attention", "full_attention"])?;
    let windowed = options.required("layer_types", windowed)?;
    keys.set("attention.sliding_window_pattern", Array::Bool(windowed.clone().into()))?;
    keys.set_if("final_logit_softcapping", options.number("final_logit_softcapping")?.map(|cap| cap as f32))?;
    let shared = options.count("num_kv_shared_layers")?.unwrap_or(0);
    keys.set("attention.shared_kv_layers", shared)?;
    keys.set("embedding_length_per_layer_input", options.count("hidden_size_per_layer_input")?.unwrap_or(0))?;
    // Visible in the tensors.
    options.get("vocab_size_per_layer_input");
    Ok((windowed, shared))
}

/// An option with a number for each layer, or one for all.
fn by_layer<N, T: Copy + TryFrom<N>>(
    options: &Options,
    option: &str,
    read: fn(&Value) -> Option<N>,
) -> Result<Vec<T>> {
    let value = options.required(option, options.get(option))?;
    let layers = options.required("num_hidden_layers", options.count("num_hidden_layers")?)?;
    let one = |value: &Value| T::try_from(read(value)?).ok();
    let all = match value.as_array() {
        Some(all) => all.iter().map(one).collect::<Option<Vec<T>>>(),
        None => one(value).map(|one| vec![one; layers as usize]),
    };
    all.ok_or_else(|| options.wrong(option, value, "a number, or one for each layer"))
}

/// How many standard deviations above the mean are exceeded by all but this share of normally distributed numbers; -∞ for a
/// share of 0.
fn deviations(share: f64) -> f64 {
    if share <= 0.0 {
        return f64::NEG_INFINITY;
    }
    // The share below `z` by its power series, `φ(z) · (z + z³/3 + z⁵/15 + ..)` above one half.
    let below = |z: f64| {
        let (mut term, mut sum) = (z, z);
        for n in 1..200 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
        }
        0.5 + sum * (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
    };
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if below(middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::deviations;

    #[test]
    fn shares_of_normal_numbers_are_those_of_tables() {
        assert_eq!(deviations(0.0), f64::NEG_INFINITY);
        for (share, z) in
            [(0.5, 0.0), (0.9, 1.281_551_565_545), (0.95, 1.644_853_626_951), (0.025, -1.959_963_984_540)]
        {
            assert!((deviations(share) - z).abs() < 1e-9, "{share}: {}", deviations(share));
        }
    }
}
