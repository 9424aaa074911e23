//! Names of tensors in `transformers` and in GGUF.

/// Parts of a layer: `model.layers.N.THEIRS`, `blk.N.OURS`.
const LAYER: [(&str, &str); 53] = [
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.q_a_proj", "attn_q_a"),
    ("self_attn.q_a_layernorm", "attn_q_a_norm"),
    ("self_attn.q_b_proj", "attn_q_b"),
    ("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"),
    ("self_attn.kv_a_layernorm", "attn_kv_a_norm"),
    ("mlp.shared_experts.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_experts.up_proj", "ffn_up_shexp"),
    ("mlp.shared_experts.down_proj", "ffn_down_shexp"),
    ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"),
    ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
    ("mlp.shared_expert.down_proj", "ffn_down_shexp"),
    ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
    ("linear_attn.in_proj_ba", "ssm_ba"),
    ("linear_attn.in_proj_qkv", "attn_qkv"),
    ("linear_attn.in_proj_z", "attn_gate"),
    ("linear_attn.in_proj_a", "ssm_alpha"),
    ("linear_attn.in_proj_b", "ssm_beta"),
    ("linear_attn.norm", "ssm_norm"),
    ("linear_attn.out_proj", "ssm_out"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.c_proj", "ffn_down"),
    ("mlp.gate", "ffn_gate_inp"),
    ("mlp.router", "ffn_gate_inp"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
    ("post_self_attn_layernorm", "post_attention_norm"),
    ("post_mlp_layernorm", "post_ffw_norm"),
    ("router.proj", "ffn_gate_inp"),
    ("pre_feedforward_layernorm_2", "pre_ffw_norm_2"),
    ("post_feedforward_layernorm_1", "post_ffw_norm_1"),
    ("post_feedforward_layernorm_2", "post_ffw_norm_2"),
    ("per_layer_input_gate", "inp_gate"),
    ("per_layer_projection", "proj"),
    ("post_per_layer_input_norm", "post_norm"),
    ("altup.router_norm", "altup_router_norm"),
    ("altup.modality_router", "altup_router"),
    ("altup.prediction_coefs", "altup_predict_coef"),
    ("altup.correction_coefs", "altup_correct_coef"),
    ("laurel.linear_left", "laurel_l"),
    ("laurel.linear_right", "laurel_r"),
    ("laurel.post_laurel_norm", "laurel_post_norm"),
];

/// Parts beside a layer that predicts further tokens: `mtp.THEIRS`, `blk.N.OURS`.
const FURTHER: [(&str, &str); 4] = [
    ("fc", "nextn.eh_proj"),
    ("pre_fc_norm_embedding", "nextn.enorm"),
    ("pre_fc_norm_hidden", "nextn.hnorm"),
    ("norm", "nextn.shared_head_norm"),
];

/// Tensors of a layer that are neither weights nor biases there: whole names.
const OTHER: [(&str, &str); 9] = [
    ("mlp.gate.e_score_correction_bias", "exp_probs_b.bias"),
    ("self_attn.sinks", "attn_sinks.weight"),
    ("linear_attn.dt_bias", "ssm_dt.bias"),
    ("layer_scalar", "layer_output_scale.weight"),
    ("altup.correct_output_scale", "altup_correct_scale.weight"),
    ("router.scale", "ffn_gate_inp.scale"),
    ("router.per_expert_scale", "ffn_down_exps.scale"),
    ("experts.gate_up_proj", "ffn_gate_up_exps.weight"),
    ("experts.down_proj", "ffn_down_exps.weight"),
];

/// Tensors of a layer that have another form in GGUF.
const CHANGED: [&str; 12] = [
    "self_attn.kv_b_proj.weight",
    "linear_attn.in_proj_qkvz.weight",
    "linear_attn.conv1d.weight",
    "linear_attn.A_log",
    "mlp.experts.gate_up_proj",
    "mlp.experts.gate_up_proj_bias",
    "mlp.experts.gate_up_proj_blocks",
    "mlp.experts.gate_up_proj_scales",
    "mlp.experts.down_proj",
    "mlp.experts.down_proj_bias",
    "mlp.experts.down_proj_blocks",
    "mlp.experts.down_proj_scales",
];

/// Parts of a layer in families whose norm after attention keeps its name in GGUF, because they have one
/// before and one after each block.
const POST_NORMED: [(&str, &str); 3] = [
    ("post_attention_layernorm", "post_attention_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
];

/// Matrices of an expert: `mlp.experts.N.THEIRS`.
const EXPERT: [(&str, &str); 6] = [
    ("gate_proj", "ffn_gate_exps"),
    ("up_proj", "ffn_up_exps"),
    ("down_proj", "ffn_down_exps"),
    ("w1", "ffn_gate_exps"),
    ("w3", "ffn_up_exps"),
    ("w2", "ffn_down_exps"),
];

const WHOLE: [(&str, &str); 6] = [
    ("model.embed_tokens", "token_embd"),
    ("model.embed_tokens_per_layer", "per_layer_token_embd"),
    ("model.per_layer_model_projection", "per_layer_model_proj"),
    ("model.per_layer_projection_norm", "per_layer_proj_norm"),
    ("model.norm", "output_norm"),
    ("lm_head", "output"),
];

/// Matrices of the whole model that are one tensor in GGUF: `THEIRS.N`.
const STACKED: [(&str, &str); 2] =
    [("model.altup_projections", "altup_proj"), ("model.altup_unembed_projections", "altup_unembd_proj")];

/// The role of a tensor.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// The GGUF tensor of this name.
    Tensor(String),
    /// The part of the GGUF tensor of this name that belongs to an expert or another piece of this number.
    Expert(String, usize),
    /// A tensor of this layer that has another form in GGUF, by its name in the layer.
    Changed(usize, &'static str),
    /// A table that repeats the configuration.
    Ignored,
}

/// The role of a tensor; `None` for a name that no family has. `post_normed` is the family's
/// `post_attention_norm`.
pub(super) fn place(name: &str, post_normed: bool) -> Option<Place> {
    if name.ends_with(".self_attn.rotary_emb.inv_freq") {
        return Some(Place::Ignored);
    }
    let of = |table: &[(&str, &'static str)], part: &str| {
        table.iter().find(|(theirs, _)| *theirs == part).map(|(_, ours)| *ours)
    };
    let Some(name) = name.strip_prefix("model.layers.") else {
        let (part, kind) = weight_or_bias(name)?;
        let stacked = part.rsplit_once('.').and_then(|(part, at)| Some((of(&STACKED, part)?, at)));
        return Some(match stacked {
            Some((ours, at)) => Place::Expert(format!("{ours}.{kind}"), at.parse().ok()?),
            None => Place::Tensor(format!("{}.{kind}", of(&WHOLE, part)?)),
        });
    };
    let (layer, name) = name.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    if let Some(part) = CHANGED.iter().find(|part| **part == name) {
        return Some(Place::Changed(layer, part));
    }
    if let Some(ours) = of(&OTHER, name) {
        return Some(Place::Tensor(format!("blk.{layer}.{ours}")));
    }
    let (part, kind) = weight_or_bias(name)?;
    let experts = part.strip_prefix("mlp.experts.").or(part.strip_prefix("block_sparse_moe.experts."));
    if let Some((expert, part)) = experts.and_then(|rest| rest.split_once('.')) {
        return Some(Place::Expert(
            format!("blk.{layer}.{}.{kind}", of(&EXPERT, part)?),
            expert.parse().ok()?,
        ));
    }
    let own = if post_normed { of(&POST_NORMED, part) } else { None };
    Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", own.or_else(|| of(&LAYER, part))?)))
}

/// The name in `transformers` of a GGUF tensor; of several, the first. `None` if no name is known.
pub(super) fn theirs(ours: &str, post_normed: bool) -> Option<String> {
    let of = |table: &[(&'static str, &str)], part: &str| {
        table.iter().find(|(_, ours)| *ours == part).map(|(theirs, _)| *theirs)
    };
    let Some(name) = ours.strip_prefix("blk.") else {
        let (part, kind) = weight_or_bias(ours)?;
        return Some(format!("{}.{kind}", of(&WHOLE, part)?));
    };
    let (layer, name) = name.split_once('.')?;
    if let Some(theirs) = of(&OTHER, name) {
        return Some(format!("model.layers.{layer}.{theirs}"));
    }
    let (part, kind) = weight_or_bias(name)?;
    let own = if post_normed { of(&POST_NORMED, part) } else { None };
    Some(format!("model.layers.{layer}.{}.{kind}", own.or_else(|| of(&LAYER, part))?))
}

/// The role of `mtp.PART` in a model of this many layers, and the number of its layer after these. One without a known role is
/// an error if the layer is loaded.
pub(super) fn place_of_further(part: &str, layers: usize, post_normed: bool) -> (usize, Place) {
    let numbered = part.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let numbered = numbered.and_then(|(at, part)| Some((at.parse::<usize>().ok()?, part)));
    let (at, part) = numbered.unwrap_or((0, part));
    let layer = layers.saturating_add(at);
    let known = match numbered {
        Some(_) => place(&format!("model.layers.{layer}.{part}"), post_normed),
        None => weight_or_bias(part).and_then(|(part, kind)| {
            let (_, ours) = FURTHER.iter().find(|(theirs, _)| *theirs == part)?;
            Some(Place::Tensor(format!("blk.{layer}.{ours}.{kind}")))
        }),
    };
    (at, known.unwrap_or_else(|| Place::Tensor(format!("blk.{layer}.{part}"))))
}

/// The name in `transformers`, after the prefix, of a GGUF tensor of a layer after the last of this many.
pub(super) fn theirs_of_further(ours: &str, layers: usize, post_normed: bool) -> Option<String> {
    let (layer, name) = ours.strip_prefix("blk.")?.split_once('.')?;
    let at = layer.parse::<usize>().ok()?.checked_sub(layers)?;
    let (part, kind) = weight_or_bias(name)?;
    if let Some((theirs, _)) = FURTHER.iter().find(|(_, ours)| *ours == part) {
        return Some(format!("{theirs}.{kind}"));
    }
    let theirs = theirs(ours, post_normed)?;
    Some(format!("layers.{at}.{}", theirs.strip_prefix(&format!("model.layers.{layer}."))?))
}

/// Splits the name of a weight or a bias into stem and ending.
fn weight_or_bias(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('.').filter(|(_, kind)| ["weight", "bias"].contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_place() {
        let tensor = |name: &str, sandwich| match place(name, sandwich) {
            Some(Place::Tensor(name)) => name,
            other => panic!("{name}: {other:?}"),
        };
        assert_eq!(tensor("model.embed_tokens.weight", false), "token_embd.weight");
        assert_eq!(tensor("model.layers.12.self_attn.q_proj.bias", false), "blk.12.attn_q.bias");
        assert_eq!(tensor("model.layers.0.post_attention_layernorm.weight", false), "blk.0.ffn_norm.weight");
        assert_eq!(
            tensor("model.layers.0.post_attention_layernorm.weight", true),
            "blk.0.post_attention_norm.weight"
        );
        let expert = Place::Expert("blk.1.ffn_down_exps.weight".into(), 7);
        assert_eq!(place("model.layers.1.block_sparse_moe.experts.7.w2.weight", false), Some(expert));
        assert_eq!(place("model.layers.0.self_attn.rotary_emb.inv_freq", false), Some(Place::Ignored));
        for changed in CHANGED {
            let name = format!("model.layers.3.{changed}");
            assert_eq!(place(&name, false), Some(Place::Changed(3, changed)));
        }
        assert_eq!(tensor("model.layers.5.self_attn.sinks", true), "blk.5.attn_sinks.weight");
        let bias = "model.layers.4.mlp.gate.e_score_correction_bias";
        assert_eq!(tensor(bias, false), "blk.4.exp_probs_b.bias");
        for unknown in
            ["model.layers.0.mlp.w9.weight", "model.layers.x.mlp.gate.weight", "score.weight", "weight"]
        {
            assert_eq!(place(unknown, false), None, "{unknown}");
        }
    }
}
