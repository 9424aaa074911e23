//! Qwen 3.5, 3.6 and 3.8: Qwen 3 Next with dense blocks or experts, with separate matrices for the gates of linear attention, and
//! in GGUF files with its value heads in another order. Qwen Team, 2026.
use super::{Family, PLAIN, qwen3next};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Found, Images, Keys, Piece, Split, Waiting};
use crate::{Config, Experts, Result};
use ops_gguf::Assembly;
use serde_json::json;

pub(super) const FAMILY: Family = Family {
    name: "qwen35",
    folders: &[Folder {
        model_type: "qwen3_5_text",
        title: "Qwen 3.5, 3.6, 3.8",
        example: "Qwen/Qwen3.5-27B",
        refused: "images",
        images: Some(Images { model_type: "qwen3_5", defaults: || json!({}) }),
        ..QWEN35
    }],
    adjust: layers,
    ..PLAIN
};

pub(super) const WITH_EXPERTS: Family = Family {
    name: "qwen35moe",
    folders: &[Folder {
        model_type: "qwen3_5_moe_text",
        title: "Qwen 3.5 with experts",
        example: "Qwen/Qwen3.5-35B-A3B",
        refused: "images",
        dense: false,
        images: Some(Images { model_type: "qwen3_5_moe", defaults: || json!({}) }),
        experts: qwen3next::widths,
        ..QWEN35
    }],
    adjust: |keys, config| {
        layers(keys, config)?;
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
    ..PLAIN
};

const QWEN35: Folder = Folder { translate, add_changed: add, ..qwen3next::FOLDER };

fn layers(keys: &crate::keys::Keys<'_>, config: &mut Config) -> Result<()> {
    qwen3next::layers(keys, config)?;
    let tiled = !keys.find::<bool>("ssm.heads_grouped")?.unwrap_or(false);
    if let Some(recurrent) = &mut config.recurrent {
        recurrent.tiled = tiled;
    }
    Ok(())
}

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    // Value heads are in the order of their key heads; in GGUF files of this family they are not.
    keys.set("ssm.heads_grouped", true)?;
    options.only("attn_output_gate", "true", |value| value.as_bool() == Some(true))?;
    options.only("mamba_ssm_dtype", "float32", |value| value.as_str() == Some("float32"))?;
    // Visible in the tensors.
    for option in ["mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"] {
        options.get(option);
    }
    qwen3next::translate(options, keys)
}

/// Adds a tensor that has another form in GGUF: those of Qwen 3 Next, and experts in one tensor, with gate before up.
fn add(model: &mut Assembly, found: &Found<'_>, by: Split, waiting: &mut Waiting) -> Result<()> {
    let name = |ours: &str| format!("blk.{}.{ours}.weight", found.layer);
    match (found.part, found.dims) {
        ("mlp.experts.down_proj", dims) => {
            model.tensor(&name("ffn_down_exps"), found.ty()?, dims, std::slice::from_ref(&found.piece))?;
        }
        ("mlp.experts.gate_up_proj", &[experts, rows, dim]) if rows % 2 == 0 && experts > 0 => {
            let (bytes, range) = &found.piece;
            let half = range.len() / experts / 2;
            for (first, ours) in ["ffn_gate_exps", "ffn_up_exps"].into_iter().enumerate() {
                let part = |expert: usize| range.start + (2 * expert + first) * half;
                let pieces = (0..experts).map(|expert| (bytes.clone(), part(expert)..part(expert) + half));
                let pieces: Vec<Piece> = pieces.collect();
                model.tensor(&name(ours), found.ty()?, &[experts, rows / 2, dim], &pieces)?;
            }
        }
        ("mlp.experts.gate_up_proj", dims) => {
            return Err(found.wrong(format!("{dims:?}"), "[experts, gate and up, hidden_size]"));
        }
        _ => return qwen3next::add(model, found, by, waiting),
    }
    Ok(())
}
