//! Names of tensors: those of `transformers`, and those of GGUF.

/// Parts of a layer: `model.layers.N.THEIRS`, `blk.N.OURS`.
const LAYER: [(&str, &str); 17] = [
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
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
    /// A table that the configuration says as well.
    Ignored,
}

/// The place of a tensor; `None` for a name that no family has.
pub(super) fn place(name: &str, sandwich: bool) -> Option<Place> {
    let (part, kind) = name.rsplit_once('.')?;
    if name.ends_with(".self_attn.rotary_emb.inv_freq") {
        return Some(Place::Ignored);
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
        for unknown in
            ["model.layers.0.mlp.w9.weight", "model.layers.x.mlp.gate.weight", "score.weight", "weight"]
        {
            assert_eq!(place(unknown, false), None, "{unknown}");
        }
    }
}
