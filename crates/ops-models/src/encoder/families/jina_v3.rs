//! Jina embeddings v3: XLM-RoBERTa with rotation instead of a table of positions. Sturua et al., "jina-embeddings-v3", 2024.
use super::Family;
use crate::Result;
use crate::folder::encoder::{self, CLASSIC, Names};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Keys, Split};
use crate::folder::rope;

pub(super) const FAMILY: Family = Family {
    name: "jina-bert-v3",
    keys: &["attention.key_length", "attention.value_length", "rope.freq_base"],
    adjust: |keys, config| config.rotates(keys),
    folders: &[Folder { model_type: "jina_embeddings_v3", encoder: Some(&NAMES), translate, ..CLASSIC }],
};

static NAMES: Names = Names {
    classes: &["JinaEmbeddingsV3Model", "JinaEmbeddingsV3ForMaskedLM"],
    harmless: &[],
    prefix: "roberta.",
    ignored: &["pooler.", "lm_head."],
    changed: &[],
    layers: "encoder.layers.",
    layer: &[
        ("mixer.Wqkv", "attn_qkv"),
        ("mixer.out_proj", "attn_output"),
        ("norm1", "attn_output_norm"),
        ("mlp.fc1", "ffn_up"),
        ("mlp.fc2", "ffn_down"),
        ("norm2", "layer_output_norm"),
    ],
    whole: &[
        ("embeddings.word_embeddings", "token_embd"),
        ("embeddings.token_type_embeddings", "token_types"),
        ("emb_ln", "token_embd_norm"),
    ],
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    encoder::extents(options, keys)?;
    encoder::token_types(options, keys)?;
    encoder::activation(options, keys)?;
    encoder::whole_heads(options, keys)?;
    options.only("position_embedding_type", "rotary", |value| value.as_str() == Some("rotary"))?;
    rope::translate(options, &Folder { rope_base: Some(20_000.0), ..CLASSIC }, keys)?;
    Ok(Split::None)
}
