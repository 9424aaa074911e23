//! Gemma 4: heads of two shapes, values normed and in large models the same as keys, a factor on each layer; in some models experts
//! beside a dense block, in small ones embeddings for each layer and keys shared by the last layers. Gemma Team, 2026.
use super::{Family, PLAIN, gemma3n};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Images, Keys, Split};
use crate::{Experts, HeadShape, Result};
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
        title: "Gemma 4",
        example: "google/gemma-4-E2B-it",
        refused: "images",
        images: Some(Images { model_type: "gemma4", defaults: || json!({}) }),
        partial_rope: Some(1.0),
        proportional_rope: true,
        experts: |options, keys| {
            let width = options.required("moe_intermediate_size", options.count("moe_intermediate_size")?)?;
            keys.set("expert_feed_forward_length", width)
        },
        translate,
        ..gemma3n::FOLDER
    }],
    adjust: |keys, config| {
        gemma3n::layers(keys, config)?;
        config.layer_scales = true;
        if keys.find::<u32>("expert_count")?.unwrap_or(0) > 0 {
            config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
            config.experts_beside = true;
        }
        let head_dim = keys.count("attention.key_length_swa")?;
        let of_kind = |windowed| (0..config.layers).find(|layer| config.is_windowed(*layer) == windowed);
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
        let rope_dim = keys.count_or("rope.dimension_count_swa", head_dim)?;
        if let Some(window) = &mut config.window {
            window.heads = Some(HeadShape { kv_heads: windowed, head_dim, rope_dim });
        }
        Ok(())
    },
    ..PLAIN
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    let (windowed, shared) = gemma3n::translate_layers(options, keys)?;
    heads(options, keys, &windowed)?;
    if options.flag("use_double_wide_mlp")?.unwrap_or(false) {
        let ffn = keys.metadata.arch_u32("feed_forward_length")?;
        let own = windowed.len().saturating_sub(shared as usize);
        let width = |layer| if layer < own { ffn } else { ffn.saturating_mul(2) };
        let widths: Vec<u32> = (0..windowed.len()).map(width).collect();
        keys.set("feed_forward_length", Array::U32(widths.into()))?;
    }
    // Visible in the tensors, or about images.
    for option in ["attention_k_eq_v", "enable_moe_block", "moe_intermediate_size"] {
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
