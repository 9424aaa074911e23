//! Nomic BERT: rotation instead of a table of positions, gated silu. Nussbaum et al., "Nomic Embed", 2024.
use super::Family;
use crate::folder::encoder::{self, CLASSIC, Names};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Keys, Split};
use crate::folder::rope;
use crate::{Activation, Result};

pub(super) const FAMILY: Family = Family {
    name: "nomic-bert",
    keys: &["attention.key_length", "attention.value_length", "rope.freq_base"],
    adjust: |keys, config| {
        config.rotates(keys)?;
        config.activation = Activation::Swiglu;
        Ok(())
    },
    folders: &[Folder { model_type: "nomic_bert", encoder: Some(&NAMES), translate, ..CLASSIC }],
};

static NAMES: Names = Names {
    classes: &["NomicBertModel", "NomicBertForMaskedLM", "NomicBertForPreTraining"],
    harmless: &[
        "attn_pdrop",
        "dense_seq_output",
        "fused_bias_fc",
        "fused_dropout_add_ln",
        "max_trained_positions",
        "n_positions",
        "pad_vocab_size_multiple",
        "reorder_and_upcast_attn",
        "summary_activation",
        "summary_first_dropout",
        "summary_proj_to_labels",
        "summary_type",
        "summary_use_proj",
        "use_xentropy",
    ],
    prefix: "bert.",
    ignored: &["pooler.", "cls."],
    changed: &[],
    layers: "encoder.layers.",
    layer: &[
        ("attn.Wqkv", "attn_qkv"),
        ("attn.out_proj", "attn_output"),
        ("norm1", "attn_output_norm"),
        ("mlp.fc11", "ffn_up"),
        ("mlp.fc12", "ffn_gate"),
        ("mlp.fc2", "ffn_down"),
        ("norm2", "layer_output_norm"),
    ],
    whole: &[
        ("embeddings.word_embeddings", "token_embd"),
        ("embeddings.token_type_embeddings", "token_types"),
        ("emb_ln", "token_embd_norm"),
    ],
};

/// Options that describe other layers than those of this family, and the value at which they don't.
const FIXED: [(&str, bool); 12] = [
    ("causal", false),
    ("qkv_proj_bias", false),
    ("mlp_fc1_bias", false),
    ("mlp_fc2_bias", false),
    ("prenorm", false),
    ("parallel_block", false),
    ("parallel_block_tied_norm", false),
    ("rotary_emb_interleaved", false),
    ("scale_attn_by_inverse_layer_idx", false),
    ("scale_attn_weights", true),
    ("use_rms_norm", false),
    ("use_cache", true),
];

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    encoder::extents(options, keys)?;
    encoder::token_types(options, keys)?;
    encoder::silu(options)?;
    encoder::whole_heads(options, keys)?;
    for (option, only) in FIXED {
        options.only(option, &only.to_string(), |value| value.as_bool() == Some(only))?;
    }
    options.only("rotary_emb_fraction", "1", |value| value.as_f64() == Some(1.0))?;
    options.only("rotary_emb_scale_base", "none", |_| false)?;
    // The name of the base in the model's own code, and in `transformers`.
    let own = options.number("rotary_emb_base")?;
    let theirs =
        options.object("rope_parameters")?.map(|all| all.number("rope_theta")).transpose()?.flatten();
    rope::translate(options, &CLASSIC, keys)?;
    match (own, theirs) {
        (Some(own), Some(theirs)) if own != theirs => {
            Err(options.wrong("rotary_emb_base", own, format!("{theirs}, as `rope_parameters.rope_theta`")))
        }
        (Some(own), _) => keys.set("rope.freq_base", own as f32).map(|()| Split::None),
        _ => Ok(Split::None),
    }
}
