//! Names of an encoder's tensors in `transformers` and in GGUF.
use crate::folder::names::Place;

/// Names of tensors, classes and options in the folders of a kind of encoder.
pub(crate) struct Names {
    /// Classes of `transformers` in which the encoder is the whole model, or is followed by a head that
    /// embeddings do not use.
    pub(crate) classes: &'static [&'static str],
    /// Options that have no effect on results and that only this kind has.
    pub(crate) harmless: &'static [&'static str],
    /// What names begin with if there is a head, so that the encoder is only a part of the model.
    pub(crate) prefix: &'static str,
    /// Beginnings of the names of what embeddings do not use: heads of the training, and tables that repeat the configuration.
    pub(crate) ignored: &'static [&'static str],
    /// Whole names of tensors that have another form in GGUF.
    pub(crate) changed: &'static [&'static str],
    /// The prefix before the number of a layer.
    pub(crate) layers: &'static str,
    /// Parts of a layer: `LAYERS.N.THEIRS`, `blk.N.OURS`.
    pub(crate) layer: &'static [(&'static str, &'static str)],
    /// Parts outside of layers.
    pub(crate) whole: &'static [(&'static str, &'static str)],
}

impl Names {
    /// The role of a tensor; `None` for a name that this kind does not have.
    pub(in crate::folder) fn place(&self, name: &str) -> Option<Place> {
        let name = name.strip_prefix(self.prefix).unwrap_or(name);
        if self.ignored.iter().any(|head| name.starts_with(head)) {
            return Some(Place::Ignored);
        }
        if let Some(changed) = self.changed.iter().find(|changed| **changed == name) {
            return Some(Place::Changed(0, changed));
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
        if let Some(ours) = find(self.whole, part) {
            return Some(Place::Tensor(format!("{ours}.{kind}")));
        }
        let (layer, part) = part.strip_prefix(self.layers)?.split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        Some(Place::Tensor(format!("blk.{layer}.{}.{kind}", find(self.layer, part)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::folders;

    #[test]
    fn names_have_their_place() {
        let bert =
            folders().find_map(|(_, folder)| folder.encoder.filter(|_| folder.model_type == "bert")).unwrap();
        let place = |name: &str| bert.place(name);
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
