//! Qwen 3 Next: linear attention in all layers but every fourth, gated attention in those; experts, and a
//! shared block with its own gate. Qwen Team, "Qwen3-Next: Towards Ultimate Training & Inference Efficiency",
//! 2025.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{
    COMMON, Folder, Found, Keys, LinearHeads, Piece, Split, Waiting, Windows, widened,
};
use crate::{Config, Experts, Recurrent, Result};
use ops_gguf::{Array, Assembly, GgmlType};

pub(super) const FAMILY: Family = Family {
    name: "qwen3next",
    folders: &[Folder {
        model_type: "qwen3_next",
        title: "Qwen 3 Next",
        example: "Qwen/Qwen3-Next-80B-A3B-Instruct",
        refused: "biases on queries (`attention_bias`), `use_sliding_window`, dense layers between those with experts",
        experts: experts_and_shared,
        ..FOLDER
    }],
    adjust: |keys, config| {
        layers(keys, config)?;
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
    ..PLAIN
};

/// What folders have in common with those of Qwen 3.5.
pub(super) const FOLDER: Folder = Folder {
    own_head_dim: true,
    head_norms: true,
    windows: Windows::Off,
    partial_rope: Some(0.25),
    norms_plus_one: true,
    post_attention_norm: true,
    further: Some("mtp."),
    own_layer_types: true,
    translate,
    add_changed: add,
    ..COMMON
};

/// The layers, which Qwen 3.5 has as well.
pub(super) fn layers(keys: &crate::keys::Keys<'_>, config: &mut Config) -> Result<()> {
    config.feed_norm = "post_attention_norm";
    config.gated = true;
    config.runs_further = true;
    further_layers(keys, config)?;
    config.recurrent = Some(Recurrent::read(keys, (config.layers, config.further_layers))?);
    Ok(())
}

/// Layers that predict further tokens come last.
pub(super) fn further_layers(keys: &crate::keys::Keys<'_>, config: &mut Config) -> Result<()> {
    let key = "nextn_predict_layers";
    config.further_layers = keys.find::<u32>(key)?.unwrap_or(0) as usize;
    let rest = config.layers.checked_sub(config.further_layers).filter(|rest| *rest > 0);
    config.layers = rest.ok_or_else(|| {
        let wanted = format!("less than the {} layers of block_count", config.layers);
        keys.wrong(key, config.further_layers, wanted)
    })?;
    Ok(())
}

/// The options of experts, which Qwen 3 MoE has as well.
pub(super) fn experts(options: &Options, keys: &mut Keys) -> Result<()> {
    width(options, keys, "moe_intermediate_size", "expert_feed_forward_length")?;
    always(options)
}

/// The options of experts and of the one that all tokens share.
fn experts_and_shared(options: &Options, keys: &mut Keys) -> Result<()> {
    widths(options, keys)?;
    always(options)
}

/// The widths of experts and of the one that all tokens share.
pub(super) fn widths(options: &Options, keys: &mut Keys) -> Result<()> {
    width(options, keys, "moe_intermediate_size", "expert_feed_forward_length")?;
    width(options, keys, "shared_expert_intermediate_size", "expert_shared_feed_forward_length")
}

fn width(options: &Options, keys: &mut Keys, option: &str, key: &str) -> Result<()> {
    keys.set(key, options.required(option, options.count(option)?)?)
}

/// Refuses models whose weights of experts are not normalised, or that have layers without experts.
fn always(options: &Options) -> Result<()> {
    options.required("norm_topk_prob", options.flag("norm_topk_prob")?)?;
    options.only("norm_topk_prob", "true", |value| value.as_bool() == Some(true))?;
    let every = "1: experts in every layer";
    options.only("decoder_sparse_step", every, |value| value.as_u64() == Some(1))?;
    options.only("mlp_only_layers", "none", |value| value.as_array().is_some_and(Vec::is_empty))
}

pub(super) fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    let count = |option: &str| options.required(option, options.count(option)?);
    let (heads, values) = (count("linear_num_key_heads")?, count("linear_num_value_heads")?);
    let (key, value) = (count("linear_key_head_dim")?, count("linear_value_head_dim")?);
    if heads == 0 || values % heads != 0 {
        let wanted = format!("a divisor of linear_num_value_heads = {values}");
        return Err(options.wrong("linear_num_key_heads", heads, wanted));
    }
    let width = values.checked_mul(value);
    let width = width.ok_or_else(|| {
        options.wrong("linear_value_head_dim", value, format!("a width that {values} heads can have"))
    })?;
    keys.set("ssm.group_count", heads)?;
    keys.set("ssm.time_step_rank", values)?;
    keys.set("ssm.state_size", key)?;
    keys.set("ssm.inner_size", width)?;
    keys.set("ssm.conv_kernel", count("linear_conv_kernel_dim")?)?;
    keys.set("full_attention_interval", options.count("full_attention_interval")?.unwrap_or(4))?;
    if let Some(linear) = options.layers_of("layer_types", ["linear_attention", "full_attention"])? {
        keys.set("attention.recurrent_layers", Array::Bool(linear.into()))?;
    }
    let value = (width / heads) as usize;
    Ok(Split::Linear(LinearHeads { count: heads as usize, key: key as usize, value }))
}

/// Adds a tensor that has another form in GGUF.
pub(super) fn add(model: &mut Assembly, found: &Found<'_>, by: Split, _: &mut Waiting) -> Result<()> {
    let Split::Linear(heads) = by else { return Err(found.foreign()) };
    if !found.part.starts_with("linear_attn.") {
        return Err(found.foreign());
    }
    let name = |ours: &str| format!("blk.{}.{ours}", found.layer);
    match (found.part, found.dims) {
        ("linear_attn.in_proj_qkvz.weight", &[rows, columns]) => split(model, found, heads, [rows, columns]),
        ("linear_attn.conv1d.weight", &[channels, 1, window]) => {
            let piece = [found.piece.clone()];
            model.tensor(&name("ssm_conv1d.weight"), found.ty()?, &[channels, window], &piece)?;
            Ok(())
        }
        ("linear_attn.A_log", dims) => {
            // GGUF stores the decay rate itself.
            let rates = widened(found.ty()?, found.bytes(), |log| -log.exp());
            let all = 0..rates.len();
            model.tensor(&name("ssm_a"), GgmlType::F32, dims, &[(rates.into(), all)])?;
            Ok(())
        }
        (_, dims) => Err(found.wrong(format!("{dims:?}"), "the tensors of this kind of model")),
    }
}

/// Queries, keys, values and gates are stored head by head; this separates them into one matrix with the
/// first three and one with the gates.
fn split(
    model: &mut Assembly,
    found: &Found<'_>,
    LinearHeads { count, key, value }: LinearHeads,
    [rows, columns]: [usize; 2],
) -> Result<()> {
    let head = 2 * (key + value);
    if Some(rows) != head.checked_mul(count) {
        let wanted = format!("[{count} heads of {key}, {key}, {value} and {value}, hidden_size]");
        return Err(found.wrong(format!("[{rows}, {columns}]"), wanted));
    }
    let ty = found.ty()?;
    let (bytes, range) = &found.piece;
    let row = range.len() / rows.max(1);
    let part = |from: usize, len: usize| {
        (0..count).map(move |at| {
            let start = range.start + (at * head + from) * row;
            (bytes.clone(), start..start + len * row)
        })
    };
    let mixed: Vec<Piece> = part(0, key).chain(part(key, key)).chain(part(2 * key, value)).collect();
    let gate: Vec<Piece> = part(2 * key + value, value).collect();
    let name = |ours: &str| format!("blk.{}.{ours}.weight", found.layer);
    model.tensor(&name("attn_qkv"), ty, &[(2 * key + value) * count, columns], &mixed)?;
    model.tensor(&name("attn_gate"), ty, &[value * count, columns], &gate)?;
    Ok(())
}
