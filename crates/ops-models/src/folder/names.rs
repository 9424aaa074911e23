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

/// Parts of an encoder's layer: `encoder.layer.N.THEIRS`, `blk.N.OURS`.
const ENCODER_LAYER: [(&str, &str); 8] = [
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
];

const ENCODER_WHOLE: [(&str, &str); 4] = [
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
];

/// Heads of encoders, which embeddings do not use: of the next sentence, and of masked words.
const ENCODER_HEADS: [&str; 2] = ["pooler.", "cls."];

/// The tensors that a kind of model has.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Names {
    Decoder,
    /// A decoder that norms before and after each block. The weights of its norms lack the 1 that is added to them.
    Sandwich,
    Encoder,
}

impl Names {
    /// The place of a tensor; `None` for a name that no family has.
    pub(super) fn place(self, name: &str) -> Option<Place> {
        match self {
            Names::Decoder => place(name, false),
            Names::Sandwich => place(name, true),
            Names::Encoder => encoder_place(name),
        }
    }

    /// What is before the number of a layer.
    pub(super) fn layers(self) -> &'static str {
        if self == Names::Encoder { ENCODER_LAYERS } else { LAYERS }
    }
}

const LAYERS: &str = "model.layers.";
const ENCODER_LAYERS: &str = "encoder.layer.";

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

fn find(table: &[(&str, &'static str)], part: &str) -> Option<&'static str> {
    table.iter().find(|(theirs, _)| *theirs == part).map(|(_, ours)| *ours)
}

fn encoder_place(name: &str) -> Option<Place> {
    // With a head, the encoder is a part of the model.
    let name = name.strip_prefix("bert.").unwrap_or(name);
    let ignored = ENCODER_HEADS.iter().any(|head| name.starts_with(head));
    if ignored || name == "embeddings.position_ids" {
        return Some(Place::Ignored);
    }
    let (part, kind) = name.rsplit_once('.')?;
    let kind = match kind {
        "weight" | "gamma" => "weight",
        "bias" | "beta" => "bias",
        _ => return None,
    };
    if let Some(ours) = find(&ENCODER_WHOLE, part) {
        return Some(Place::Tensor(format!("{ours}.{kind}")));
    }
    let (layer, part) = part.strip_prefix(ENCODER_LAYERS)?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", find(&ENCODER_LAYER, part)?)))
}

fn place(name: &str, sandwich: bool) -> Option<Place> {
    let (part, kind) = name.rsplit_once('.')?;
    if name.ends_with(".self_attn.rotary_emb.inv_freq") {
        return Some(Place::Ignored);
    }
    if let Some(layer) = part.strip_prefix(LAYERS).and_then(|part| part.strip_suffix(".mlp.gate"))
        && kind == "e_score_correction_bias"
    {
        return Some(Place::Tensor(format!("blk.{}.exp_probs_b.bias", layer.parse::<usize>().ok()?)));
    }
    if !["weight", "bias"].contains(&kind) {
        return None;
    }
    if let Some(ours) = find(&WHOLE, part) {
        return Some(Place::Tensor(format!("{ours}.{kind}")));
    }
    let (layer, part) = part.strip_prefix(LAYERS)?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    let experts = part.strip_prefix("mlp.experts.").or(part.strip_prefix("block_sparse_moe.experts."));
    if let Some((expert, part)) = experts.and_then(|rest| rest.split_once('.')) {
        return Some(Place::Expert(
            format!("blk.{layer}.{}.{kind}", find(&EXPERT, part)?),
            expert.parse().ok()?,
        ));
    }
    if (part, kind) == ("self_attn.kv_b_proj", "weight") {
        return Some(Place::Expansion(layer));
    }
    let own = if sandwich { find(&SANDWICH, part) } else { None };
    Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", own.or_else(|| find(&LAYER, part))?)))
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

    #[test]
    fn names_of_encoders_have_their_place() {
        let place = |name| Names::Encoder.place(name);
        let tensor = |name: &str| Some(Place::Tensor(name.to_owned()));
        assert_eq!(place("bert.embeddings.LayerNorm.gamma"), tensor("token_embd_norm.weight"));
        assert_eq!(place("encoder.layer.11.attention.self.query.bias"), tensor("blk.11.attn_q.bias"));
        assert_eq!(
            place("encoder.layer.0.output.LayerNorm.weight"),
            tensor("blk.0.layer_output_norm.weight")
        );
        assert_eq!(place("embeddings.position_ids"), Some(Place::Ignored));
        assert_eq!(place("bert.pooler.dense.weight"), Some(Place::Ignored));
        for unknown in ["encoder.layer.0.output.adapter.weight", "model.embed_tokens.weight", "qa.weight"] {
            assert_eq!(place(unknown), None, "{unknown}");
        }
    }
}
