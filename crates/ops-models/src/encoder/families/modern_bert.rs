//! ModernBERT: norms before each block, windows in most layers, gated gelu, no biases. Warner et al., "Smarter, Better, Faster,
//! Longer", 2024.
use super::Family;
use crate::encoder::config::Neighbours;
use crate::folder::encoder::{self, CLASSIC, Names};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Keys, Split};
use crate::folder::rope;
use crate::{Activation, Result};

pub(super) const FAMILY: Family = Family {
    name: "modern-bert",
    keys: &[
        ACTIVATION,
        "attention.layer_norm_rms_epsilon",
        "attention.sliding_window",
        "attention.sliding_window_pattern",
        // Of a head that classifies, which embeddings do not use.
        "classifier.pooling_type",
        "rope.freq_base",
        "rope.freq_base_swa",
        "rope.scaling.type",
    ],
    adjust: |keys, config| {
        config.rotates(keys)?;
        if let Some(other) = keys.find::<&str>("rope.scaling.type")?.filter(|kind| *kind != "none") {
            return Err(keys.wrong("rope.scaling.type", other, "none"));
        }
        if let Some(other) = keys.find::<&str>(ACTIVATION)?.filter(|name| *name != "gelu") {
            return Err(keys.wrong(ACTIVATION, other, "gelu"));
        }
        config.activation = Activation::GegluErf;
        config.pre_norm = true;
        config.token_types = None;
        config.window = Some(Neighbours {
            each_side: keys.count("attention.sliding_window")? / 2,
            period: keys.count_or("attention.sliding_window_pattern", 3)?,
            rope_base: keys.float("rope.freq_base_swa")?.unwrap_or(10_000.0),
        });
        Ok(())
    },
    folders: &[Folder {
        model_type: "modernbert",
        encoder: Some(&NAMES),
        activation: "gelu",
        own_layer_types: true,
        translate,
        ..CLASSIC
    }],
};

/// The function of the feed-forward block, which converters name as folders do.
const ACTIVATION: &str = "hidden_activation";

static NAMES: Names = Names {
    classes: &["ModernBertModel", "ModernBertForMaskedLM"],
    harmless: &[
        "classifier_activation",
        "classifier_bias",
        "classifier_pooling",
        "cls_token_id",
        "decoder_bias",
        "deterministic_flash_attn",
        "initializer_cutoff_factor",
        "mlp_dropout",
        "reference_compile",
        "repad_logits_with_grad",
        "sparse_pred_ignore_index",
        "sparse_prediction",
    ],
    prefix: "model.",
    ignored: &["head.", "decoder.", "classifier."],
    changed: &[],
    layers: "layers.",
    layer: &[
        ("attn_norm", "attn_norm"),
        ("attn.Wqkv", "attn_qkv"),
        ("attn.Wo", "attn_output"),
        ("mlp_norm", "ffn_norm"),
        ("mlp.Wi", "ffn_up"),
        ("mlp.Wo", "ffn_down"),
    ],
    whole: &[
        ("embeddings.tok_embeddings", "token_embd"),
        ("embeddings.norm", "token_embd_norm"),
        ("final_norm", "output_norm"),
    ],
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    encoder::extents(options, keys)?;
    let activation = options.required(ACTIVATION, options.text(ACTIVATION)?)?;
    keys.set(ACTIVATION, activation)?;
    options.only("position_embedding_type", "absolute", |value| value.as_str() == Some("absolute"))?;
    options.only("norm_bias", "false", |value| value.as_bool() == Some(false))?;
    let window = options.required("local_attention", options.count("local_attention")?)?;
    keys.set("attention.sliding_window", window)?;
    let period = options.count("global_attn_every_n_layers")?.unwrap_or(3).max(1);
    keys.set("attention.sliding_window_pattern", period)?;
    let name = |layer: u32| if layer.is_multiple_of(period) { "full_attention" } else { "sliding_attention" };
    options.only(
        "layer_types",
        &format!("a full layer, then {} with a window, again and again", period - 1),
        |value| {
            let layers = value.as_array().map(Vec::as_slice).unwrap_or_default();
            (0..).zip(layers).all(|(layer, kind)| kind.as_str() == Some(name(layer)))
        },
    )?;
    rope::translate(options, &Folder { rope_base: Some(160_000.0), ..CLASSIC }, keys)?;
    // The names of both bases in older files.
    let nested = options.object("rope_parameters")?;
    for (option, key, kind) in [
        ("global_rope_theta", "rope.freq_base", "full_attention"),
        ("local_rope_theta", "rope.freq_base_swa", "sliding_attention"),
    ] {
        let Some(base) = options.number(option)? else { continue };
        let newer = nested.as_ref().map(|all| all.object(kind)).transpose()?.flatten();
        let newer = newer.map(|all| all.number("rope_theta")).transpose()?.flatten();
        if let Some(newer) = newer.filter(|newer| *newer != base) {
            return Err(options.wrong(
                option,
                base,
                format!("{newer}, as `rope_parameters.{kind}.rope_theta`"),
            ));
        }
        keys.set(key, base as f32)?;
    }
    Ok(Split::None)
}
