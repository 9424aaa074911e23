//! DeepSeek V2 and V3: latent attention, dense blocks in the first layers, grouped experts and a shared
//! expert. DeepSeek-AI, "DeepSeek-V2", 2024, and "DeepSeek-V3 Technical Report", 2024.
use super::{Family, PLAIN};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Expansion, Folder, Found, Keys, Piece, Split, Waiting};
use crate::{Experts, Latent as Plan, Result};
use ops_core::model::RopeScaling;
use ops_core::ops::{GroupScore, RopeForm, Scoring};
use ops_gguf::{Assembly, GgmlType};

mod latent;

pub(crate) use latent::Latent;

const DEEPSEEK: Folder = Folder { yarn_mscale: true, add_changed: add, ..COMMON };

pub(super) const FAMILY: Family = Family {
    name: "deepseek2",
    folders: &[
        Folder {
            model_type: "deepseek_v2",
            title: "DeepSeek V2",
            example: "deepseek-ai/DeepSeek-V2",
            refused: "GGUF files without `attn_k_b` and `attn_v_b`, or with MTP layers",
            translate: translate_v2,
            ..DEEPSEEK
        },
        Folder {
            model_type: "deepseek_v3",
            title: "DeepSeek V3",
            example: "deepseek-ai/DeepSeek-V3",
            refused: "GGUF files without `attn_k_b` and `attn_v_b`, or with MTP layers",
            translate: translate_v3,
            ..DEEPSEEK
        },
    ],
    adjust: |keys, config| {
        config.rope = RopeForm::Interleaved;
        let rank = keys.count("attention.kv_lora_rank")?;
        // Older files, whose matrices are not split by head, lack this key.
        let key_length = keys.count("attention.key_length_mla")?;
        if key_length <= config.rope_dim {
            let wanted = format!("more than the {} rotated features", config.rope_dim);
            return Err(keys.wrong("attention.key_length_mla", key_length, wanted));
        }
        if config.head_dim.checked_sub(config.rope_dim) != Some(rank) {
            let wanted = format!("{rank} (kv_lora_rank) and {} rotated features", config.rope_dim);
            return Err(keys.wrong("attention.key_length", config.head_dim, wanted));
        }
        if config.kv_heads != 1 {
            return Err(keys.wrong("attention.head_count_kv", config.kv_heads, "1: one row for all heads"));
        }
        let query_rank = keys.find::<u32>("attention.q_lora_rank")?.filter(|rank| *rank > 0);
        config.latent = Some(Plan {
            rank,
            query_rank: query_rank.map(|rank| rank as usize),
            nope: key_length - config.rope_dim,
            value_dim: keys.count("attention.value_length_mla")?,
        });

        // With YaRN the tables are not scaled; instead the scores grow with the factor.
        let mut growth = 1.0;
        let multiplier = keys.float("rope.scaling.yarn_log_multiplier")?.filter(|n| *n != 0.0);
        if let (RopeScaling::Yarn { factor, attention_factor, .. }, Some(multiplier)) =
            (&mut config.rope_scaling, multiplier)
        {
            *attention_factor = attention_factor.or(Some(1.0));
            growth = if *factor > 1.0 { 1.0 + multiplier * factor.ln() } else { 1.0 };
        }
        let scale = config.score_scale.unwrap_or((key_length as f64).sqrt().recip());
        config.score_scale = Some(scale * growth * growth);

        let mut experts = Experts::read(keys, keys.count("expert_feed_forward_length")?)?;
        experts.renormalize = keys.find::<bool>("expert_weights_norm")?.unwrap_or(false);
        // V2 and V3 score groups differently. No key says which applies, but V2 is the one with softmax.
        if experts.scoring == Scoring::Softmax {
            experts.group_score = GroupScore::Max;
        }
        config.experts = Some(experts);
        Ok(())
    },
    ..PLAIN
};

fn translate_v2(options: &Options, keys: &mut Keys) -> Result<Split> {
    translate(options, false, keys).map(Split::Latent)
}

fn translate_v3(options: &Options, keys: &mut Keys) -> Result<Split> {
    translate(options, true, keys).map(Split::Latent)
}

/// Options that only these two families have. V3 scores with sigmoid, V2 with softmax.
fn translate(options: &Options, is_v3: bool, keys: &mut Keys) -> Result<Expansion> {
    let count = |option: &str| options.required(option, options.count(option)?);
    let sum = |a: u32, b: u32, option: &str| {
        a.checked_add(b).ok_or_else(|| options.wrong(option, a, "a width that a head can have"))
    };
    let (rank, nope) = (count("kv_lora_rank")?, count("qk_nope_head_dim")?);
    let (rope, value) = (count("qk_rope_head_dim")?, count("v_head_dim")?);
    let key = sum(nope, rope, "qk_nope_head_dim")?;
    for (option, width) in [("head_dim", rope), ("qk_head_dim", key)] {
        options.only(option, &width.to_string(), |value| value.as_u64() == Some(width.into()))?;
    }
    keys.set("attention.kv_lora_rank", rank)?;
    if let Some(rank) = options.count("q_lora_rank")? {
        keys.set("attention.q_lora_rank", rank)?;
    }
    keys.set("attention.head_count_kv", 1_u32)?;
    keys.set("attention.key_length", sum(rank, rope, "kv_lora_rank")?)?;
    keys.set("attention.value_length", rank)?;
    keys.set("attention.key_length_mla", key)?;
    keys.set("attention.value_length_mla", value)?;
    keys.set("rope.dimension_count", rope)?;
    options.only("rope_interleave", "true", |value| value.as_bool() == Some(true))?;

    experts(options, keys)?;
    options.only("moe_layer_freq", "1: experts in every layer", |value| value.as_u64() == Some(1))?;
    routing(options, is_v3, keys)?;
    let heads = keys.metadata.arch_u32("attention.head_count")?;
    Ok(Expansion { heads: heads as usize, nope: nope as usize, value: value as usize })
}

/// The numbers of experts, which GLM 4.5 has as well.
pub(super) fn experts(options: &Options, keys: &mut Keys) -> Result<()> {
    for (option, key) in [
        ("n_routed_experts", "expert_count"),
        ("num_experts_per_tok", "expert_used_count"),
        ("moe_intermediate_size", "expert_feed_forward_length"),
        ("n_shared_experts", "expert_shared_count"),
        ("first_k_dense_replace", "leading_dense_block_count"),
    ] {
        keys.set(key, options.required(option, options.count(option)?)?)?;
    }
    let scale = options.number("routed_scaling_factor")?;
    keys.set("expert_weights_scale", options.required("routed_scaling_factor", scale)? as f32)
}

/// How experts are chosen.
fn routing(options: &Options, is_v3: bool, keys: &mut Keys) -> Result<()> {
    let (scoring, number) = if is_v3 { ("sigmoid", 2_u32) } else { ("softmax", 1) };
    options.only("scoring_func", scoring, |value| value.as_str() == Some(scoring))?;
    keys.set("expert_gating_func", number)?;
    let normed = options.flag("norm_topk_prob")?;
    if is_v3 {
        keys.set("expert_weights_norm", options.required("norm_topk_prob", normed)?)?;
    } else if normed == Some(true) {
        return Err(options.wrong("norm_topk_prob", true, "false in this family"));
    }
    let method = match (options.text("topk_method")?, is_v3) {
        (None, true) => "noaux_tc",
        (None, false) => "greedy",
        (Some(method), _) => method,
    };
    let wanted = if is_v3 { &["noaux_tc"][..] } else { &["greedy", "group_limited_greedy"] };
    if !wanted.contains(&method) {
        return Err(options.wrong("topk_method", method, wanted.join(" or ")));
    }
    let (groups, kept) = (options.count("n_group")?, options.count("topk_group")?);
    if method != "greedy" {
        keys.set("expert_group_count", options.required("n_group", groups)?)?;
        keys.set("expert_group_used_count", options.required("topk_group", kept)?)?;
    }
    Ok(())
}

/// Adds a tensor that has another form in GGUF.
fn add(model: &mut Assembly, found: &Found<'_>, by: Split, _: &mut Waiting) -> Result<()> {
    match (found.part, by) {
        ("self_attn.kv_b_proj.weight", Split::Latent(extents)) => expand(model, found, extents),
        _ => Err(found.foreign()),
    }
}

/// Splits `[heads · (nope + value), rank]` into the matrices of keys, transposed, and those of values, by head.
fn expand(
    model: &mut Assembly,
    found: &Found<'_>,
    Expansion { heads, nope, value }: Expansion,
) -> Result<()> {
    let ty = found.ty()?;
    let (layer, (bytes, range)) = (found.layer, &found.piece);
    let rows = (nope + value).checked_mul(heads);
    let &[n, rank] = found.dims else {
        return Err(found.wrong(format!("{:?}", found.dims), "a matrix"));
    };
    if rows != Some(n) {
        let wanted = format!("[{heads} heads of {nope} and {value}, kv_lora_rank]");
        return Err(found.wrong(format!("{:?}", found.dims), wanted));
    }
    let size = if ty == GgmlType::F32 { 4 } else { 2 };
    let row = rank * size;
    let starts = (0..heads).map(|head| range.start + head * (nope + value) * row);
    let values: Vec<Piece> = starts
        .clone()
        .map(|start| (bytes.clone(), start + nope * row..start + (nope + value) * row))
        .collect();
    model.tensor(&format!("blk.{layer}.attn_v_b.weight"), ty, &[heads, value, rank], &values)?;
    let mut keys = Vec::with_capacity(heads * nope * row);
    for start in starts {
        for (r, n) in (0..rank).flat_map(|r| (0..nope).map(move |n| (r, n))) {
            let at = start + n * row + r * size;
            keys.extend_from_slice(&bytes[at..at + size]);
        }
    }
    let all = 0..keys.len();
    let keys = [(keys.into(), all)];
    model.tensor(&format!("blk.{layer}.attn_k_b.weight"), ty, &[heads, rank, nope], &keys)?;
    Ok(())
}
