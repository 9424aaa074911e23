//! Gemma 4: heads of two shapes, values normed and in large models the same as keys, a factor on each layer; in some models experts
//! beside a dense block, in small ones embeddings for each layer and keys shared by the last layers. Gemma Team, 2026.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Images, Keys, Split, Windows};
use crate::{Activation, Experts, HeadShape, Result, Window};
use ops_core::model::RopeScaling;
use ops_gguf::Array;
use serde_json::json;

mod beside;

pub(crate) use beside::Beside;

/// Divides the frequencies of features that are not rotated, as in GGUF files.
const NEVER: f32 = 1e30;
/// Larger heads are not believed.
const MAX_HEAD_DIM: usize = 1 << 16;

pub(super) const FAMILY: Family = Family {
    name: "gemma4",
    folders: &[Folder {
        model_type: "gemma4_text",
        images: Some(Images { model_type: "gemma4", defaults: || json!({}) }),
        activation: "gelu_pytorch_tanh",
        own_head_dim: true,
        head_norms: true,
        tied: true,
        post_attention_norm: true,
        windows: Windows::All,
        own_layer_types: true,
        partial_rope: Some(1.0),
        proportional_rope: true,
        experts: |options, keys| {
            let width = options.required("moe_intermediate_size", options.count("moe_intermediate_size")?)?;
            keys.set("expert_feed_forward_length", width)
        },
        translate,
        ..COMMON
    }],
    adjust: |keys, config| {
        config.activation = Activation::Geglu;
        config.embedding_scale = (config.dim as f64).sqrt();
        config.logit_softcap = keys.float("final_logit_softcapping")?.filter(|cap| *cap != 0.0);
        config.score_scale = Some(1.0);
        config.post_norms = true;
        config.value_norms = true;
        config.layer_scales = true;
        config.per_layer =
            keys.find::<u32>("embedding_length_per_layer_input")?.filter(|n| *n > 0).map(|n| n as usize);
        config.shared_kv = keys.find::<u32>("attention.shared_kv_layers")?.unwrap_or(0) as usize;
        if keys.find::<u32>("expert_count")?.unwrap_or(0) > 0 {
            config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
            config.experts_beside = true;
        }
        let pattern = "attention.sliding_window_pattern";
        let layers = keys.find::<&[bool]>(pattern)?.unwrap_or_default();
        let own = config.layers.saturating_sub(config.shared_kv);
        let alike = |layer: usize| layers[..own].contains(&layers[layer]);
        if layers.len() != config.layers || !(own..layers.len()).all(alike) {
            let wanted =
                format!("one for each of {} layers, with both kinds among the first {own}", config.layers);
            return Err(keys.wrong(pattern, format!("{} values", layers.len()), wanted));
        }
        let head_dim = keys.count("attention.key_length_swa")?;
        let of_kind = |windowed: bool| layers.iter().position(|layer| *layer == windowed);
        let kv_heads = |layer: Option<usize>, otherwise| config.kv_heads_in(layer).unwrap_or(otherwise);
        let (full, windowed) =
            (kv_heads(of_kind(false), config.kv_heads), kv_heads(of_kind(true), config.kv_heads));
        config.kv_heads = full;
        // Only folders say this; files have the frequencies' divisors as a tensor.
        if let Some(part) = keys.float("rope.rotated_part")? {
            if config.head_dim > MAX_HEAD_DIM {
                return Err(keys.wrong(
                    "attention.key_length",
                    config.head_dim,
                    format!("at most {MAX_HEAD_DIM}"),
                ));
            }
            let half = config.head_dim / 2;
            let rotated = (part * half as f64) as usize;
            let divisor = |pair| if pair < rotated { 1.0 } else { NEVER };
            config.rope_scaling = RopeScaling::Factors((0..half).map(divisor).collect());
        }
        config.window = Some(Window {
            rope_base: Some(keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0)),
            layers: Some(layers.to_vec()),
            heads: Some(HeadShape {
                kv_heads: windowed,
                head_dim,
                rope_dim: keys.count_or("rope.dimension_count_swa", head_dim)?,
            }),
            ..Window::but_every(usize::MAX, keys.count("attention.sliding_window")?)
        });
        Ok(())
    },
    ..PLAIN
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    let windowed = options.layers_of("layer_types", ["sliding_attention", "full_attention"])?;
    let windowed = options.required("layer_types", windowed)?;
    heads(options, keys, &windowed)?;
    keys.set("attention.sliding_window_pattern", Array::Bool(windowed.clone().into()))?;

    keys.set_if("final_logit_softcapping", options.number("final_logit_softcapping")?.map(|cap| cap as f32))?;
    let shared = options.count("num_kv_shared_layers")?.unwrap_or(0);
    keys.set("attention.shared_kv_layers", shared)?;
    keys.set("embedding_length_per_layer_input", options.count("hidden_size_per_layer_input")?.unwrap_or(0))?;
    if options.flag("use_double_wide_mlp")?.unwrap_or(false) {
        let ffn = keys.metadata.arch_u32("feed_forward_length")?;
        let own = windowed.len().saturating_sub(shared as usize);
        let width = |layer| if layer < own { ffn } else { ffn.saturating_mul(2) };
        let widths: Vec<u32> = (0..windowed.len()).map(width).collect();
        keys.set("feed_forward_length", Array::U32(widths.into()))?;
    }
    // Visible in the tensors, or about images.
    for option in
        ["attention_k_eq_v", "enable_moe_block", "vocab_size_per_layer_input", "moe_intermediate_size"]
    {
        options.get(option);
    }
    options
        .only("use_bidirectional_attention", "none, or vision", |value| value.as_str() == Some("vision"))?;
    Ok(Split::None)
}

/// The shapes of heads: `head_dim` and `num_key_value_heads` are those of layers with a window. Those of the others are options of
/// their own, or in newer files options of each such layer.
fn heads(options: &Options, keys: &mut Keys, windowed: &[bool]) -> Result<()> {
    let head_dim = keys.metadata.arch_u32("attention.key_length")?;
    let kv_heads = keys.metadata.arch_u32("attention.head_count_kv")?;
    keys.set("attention.key_length_swa", head_dim)?;
    let (mut full_dim, mut full_kv) =
        (options.count("global_head_dim")?, options.count("num_global_key_value_heads")?);
    let by_layer = options.object("per_layer_config")?;
    for (layer, _) in windowed.iter().enumerate().filter(|(_, windowed)| !**windowed) {
        let Some(own) = by_layer.as_ref().map(|all| all.object(&layer.to_string())).transpose()?.flatten()
        else {
            continue;
        };
        for (option, value) in [("head_dim", &mut full_dim), ("num_key_value_heads", &mut full_kv)] {
            let Some(said) = own.count(option)? else { continue };
            if value.is_some_and(|value| value != said) {
                let wanted = format!("{}, as in other layers without a window", value.unwrap_or(said));
                return Err(own.wrong(option, said, wanted));
            }
            *value = Some(said);
        }
        own.finish(&[])?;
    }
    by_layer.map_or(Ok(()), |all| all.finish(&[]))?;
    let (full_dim, full_kv) = (full_dim.unwrap_or(head_dim), full_kv.unwrap_or(kv_heads));
    keys.set("attention.key_length", full_dim)?;
    keys.set("attention.value_length", full_dim)?;
    keys.set("rope.dimension_count", full_dim)?;
    let by_layer: Vec<u32> =
        windowed.iter().map(|windowed| if *windowed { kv_heads } else { full_kv }).collect();
    keys.set("attention.head_count_kv", Array::U32(by_layer.into()))
}
