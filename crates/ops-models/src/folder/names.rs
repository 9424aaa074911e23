//! Names of tensors: those of `transformers`, and those of GGUF.

/// Parts of a layer: `model.layers.N.THEIRS`, `blk.N.OURS`.
const LAYER: [(&str, &str); 25] = [
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
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.c_fc", "ffn_up"),
    ("mlp.c_proj", "ffn_down"),
    ("mlp.gate", "ffn_gate_inp"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
];

/// Parts of a layer that is normed before and after each block.
const SANDWICH: [(&str, &str); 3] = [
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

const WHOLE: [(&str, &str); 3] =
    [("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output")];

/// What a tensor is for.
#[derive(Debug, PartialEq)]
pub(super) enum Place {
    /// The tensor of this name.
    Tensor(String),
    /// One expert's part of the tensor of this name.
    Expert(String, usize),
    /// The matrix that expands keys and values of this layer.
    Expansion(usize),
    /// A table that the configuration says as well.
    Ignored,
}

/// The place of a tensor; `None` for a name that no family has.
pub(super) fn place(name: &str, sandwich: bool) -> Option<Place> {
    let (part, kind) = name.rsplit_once('.')?;
    if name.ends_with(".self_attn.rotary_emb.inv_freq") {
        return Some(Place::Ignored);
    }
    if let Some(layer) = part.strip_prefix("model.layers.").and_then(|part| part.strip_suffix(".mlp.gate"))
        && kind == "e_score_correction_bias"
    {
        return Some(Place::Tensor(format!("blk.{}.exp_probs_b.bias", layer.parse::<usize>().ok()?)));
    }
    if !["weight", "bias"].contains(&kind) {
        return None;
    }
    let of = |table: &[(&str, &'static str)], part: &str| {
        table.iter().find(|(theirs, _)| *theirs == part).map(|(_, ours)| *ours)
    };
    if let Some(ours) = of(&WHOLE, part) {
        return Some(Place::Tensor(format!("{ours}.{kind}")));
    }
    let (layer, part) = part.strip_prefix("model.layers.")?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let experts = part.strip_prefix("mlp.experts.").or(part.strip_prefix("block_sparse_moe.experts."));
    if let Some((expert, part)) = experts.and_then(|rest| rest.split_once('.')) {
        return Some(Place::Expert(
            format!("blk.{layer}.{}.{kind}", of(&EXPERT, part)?),
            expert.parse().ok()?,
        ));
    }
    if (part, kind) == ("self_attn.kv_b_proj", "weight") {
        return Some(Place::Expansion(layer));
    }
    let own = if sandwich { of(&SANDWICH, part) } else { None };
    Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", own.or_else(|| of(&LAYER, part))?)))
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
        assert_eq!(place("model.layers.3.self_attn.kv_b_proj.weight", false), Some(Place::Expansion(3)));
        let bias = "model.layers.4.mlp.gate.e_score_correction_bias";
        assert_eq!(tensor(bias, false), "blk.4.exp_probs_b.bias");
        for unknown in
            ["model.layers.0.mlp.w9.weight", "model.layers.x.mlp.gate.weight", "score.weight", "weight"]
        {
            assert_eq!(place(unknown, false), None, "{unknown}");
        }
    }
}
