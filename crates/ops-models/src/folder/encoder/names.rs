//! Names of an encoder's tensors in `transformers` and in GGUF.
use crate::folder::names::Place;

/// The prefix before the number of a layer.
pub(in crate::folder) const LAYERS: &str = "encoder.layer.";

/// Parts of a layer: `encoder.layer.N.THEIRS`, `blk.N.OURS`.
const LAYER: [(&str, &str); 8] = [
    ("attention.self.query", "attn_q"),
    ("attention.self.key", "attn_k"),
    ("attention.self.value", "attn_v"),
    ("attention.output.dense", "attn_output"),
    ("attention.output.LayerNorm", "attn_output_norm"),
    ("intermediate.dense", "ffn_up"),
    ("output.dense", "ffn_down"),
    ("output.LayerNorm", "layer_output_norm"),
];

const WHOLE: [(&str, &str); 4] = [
    ("embeddings.word_embeddings", "token_embd"),
    ("embeddings.position_embeddings", "position_embd"),
    ("embeddings.token_type_embeddings", "token_types"),
    ("embeddings.LayerNorm", "token_embd_norm"),
];

/// Heads that embeddings do not use: next sentence prediction, and masked words.
const HEADS: [&str; 2] = ["pooler.", "cls."];

/// The role of a tensor; `None` for a name that no encoder has.
pub(in crate::folder) fn place(name: &str) -> Option<Place> {
    // If there is a head, the encoder is only a part of the model.
    let name = name.strip_prefix("bert.").unwrap_or(name);
    if HEADS.iter().any(|head| name.starts_with(head)) || name == "embeddings.position_ids" {
        return Some(Place::Ignored);
    }
    let (part, kind) = name.rsplit_once('.')?;
    let kind = match kind {
        "weight" | "gamma" => "weight",
        "bias" | "beta" => "bias",
        _ => return None,
    };
    let find = |table: &[(&str, &'static str)], part: &str| {
        table.iter().find(|(theirs, _)| *theirs == part).map(|(_, ours)| *ours)
    };
    if let Some(ours) = find(&WHOLE, part) {
        return Some(Place::Tensor(format!("{ours}.{kind}")));
    }
    let (layer, part) = part.strip_prefix(LAYERS)?.split_once('.')?;
    let layer: usize = layer.parse().ok()?;
    Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", find(&LAYER, part)?)))
}

/// The name in `transformers` of a GGUF tensor, `None` if no name is known.
pub(in crate::folder) fn theirs(ours: &str) -> Option<String> {
    let (part, kind) = ours.rsplit_once('.')?;
    let find = |table: &[(&'static str, &str)], part: &str| {
        table.iter().find(|(_, ours)| *ours == part).map(|(theirs, _)| *theirs)
    };
    let Some(rest) = part.strip_prefix("blk.") else {
        return Some(format!("{}.{kind}", find(&WHOLE, part)?));
    };
    let (layer, part) = rest.split_once('.')?;
    Some(format!("{LAYERS}{layer}.{}.{kind}", find(&LAYER, part)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_their_place() {
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
