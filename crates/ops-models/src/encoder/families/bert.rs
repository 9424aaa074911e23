//! BERT, and XLM-RoBERTa, whose positions begin after that of padding. Devlin et al., "BERT", 2018; Conneau et al., "Unsupervised
//! Cross-lingual Representation Learning at Scale", 2019.
use super::Family;
use crate::Result;
use crate::folder::encoder::{self, CLASSIC, Names};
use crate::folder::options::Options;
use crate::folder::parts::{Folder, Found, Keys, Split};
use ops_gguf::Assembly;

pub(super) const FAMILY: Family = Family {
    name: "bert",
    keys: &[],
    adjust: |_, _| Ok(()),
    folders: &[
        Folder { model_type: "bert", encoder: Some(&BERT), translate: bert, ..CLASSIC },
        Folder {
            model_type: "xlm-roberta",
            encoder: Some(&ROBERTA),
            translate: xlm_roberta,
            add_changed: |model, found, _, _| positions(model, found),
            ..CLASSIC
        },
    ],
};

static BERT: Names = BERT_NAMES;

const BERT_NAMES: Names = Names {
    classes: &["BertModel", "BertForMaskedLM", "BertForPreTraining"],
    harmless: &[
        "directionality",
        "pooler_fc_size",
        "pooler_num_attention_heads",
        "pooler_num_fc_layers",
        "pooler_size_per_head",
        "pooler_type",
    ],
    prefix: "bert.",
    ignored: &["pooler.", "cls.", "embeddings.position_ids"],
    changed: &[],
    layers: "encoder.layer.",
    layer: &[
        ("attention.self.query", "attn_q"),
        ("attention.self.key", "attn_k"),
        ("attention.self.value", "attn_v"),
        ("attention.output.dense", "attn_output"),
        ("attention.output.LayerNorm", "attn_output_norm"),
        ("intermediate.dense", "ffn_up"),
        ("output.dense", "ffn_down"),
        ("output.LayerNorm", "layer_output_norm"),
    ],
    whole: &[
        ("embeddings.word_embeddings", "token_embd"),
        ("embeddings.position_embeddings", "position_embd"),
        ("embeddings.token_type_embeddings", "token_types"),
        ("embeddings.LayerNorm", "token_embd_norm"),
    ],
};

const POSITIONS: &str = "embeddings.position_embeddings.weight";

static ROBERTA: Names = Names {
    classes: &["XLMRobertaModel", "XLMRobertaForMaskedLM"],
    harmless: &["output_past"],
    prefix: "roberta.",
    ignored: &["pooler.", "lm_head.", "embeddings.position_ids"],
    changed: &[POSITIONS],
    ..BERT_NAMES
};

fn bert(options: &Options, keys: &mut Keys) -> Result<Split> {
    encoder::extents(options, keys)?;
    encoder::token_types(options, keys)?;
    encoder::activation(options, keys)?;
    options.only("position_embedding_type", "absolute", |value| value.as_str() == Some("absolute"))?;
    Ok(Split::None)
}

/// Rows of the table of positions for padding and what is before it.
const PADDING: u32 = 2;

fn xlm_roberta(options: &Options, keys: &mut Keys) -> Result<Split> {
    bert(options, keys)?;
    options.only("pad_token_id", "1", |value| value.as_u64() == Some(1))?;
    let rows = keys.metadata.arch_u32("context_length")?;
    let wanted = "more than 2, the rows of padding";
    let context = rows.checked_sub(PADDING).filter(|n| *n > 0);
    keys.set(
        "context_length",
        context.ok_or_else(|| options.wrong("max_position_embeddings", rows, wanted))?,
    )?;
    Ok(Split::None)
}

/// GGUF has no rows for padding, so that row 0 is that of the first token.
fn positions(model: &mut Assembly, found: &Found<'_>) -> Result<()> {
    let &[rows, dim] = found.dims else {
        return Err(found.wrong(format!("{:?}", found.dims), "a matrix"));
    };
    let Some(kept) = rows.checked_sub(PADDING as usize) else {
        return Err(found.wrong(format!("{rows} rows"), "rows for padding and for positions"));
    };
    let (ty, (bytes, range)) = (found.ty()?, found.piece.clone());
    let start = range.start + range.len() / rows.max(1) * PADDING as usize;
    model.tensor("position_embd.weight", ty, &[kept, dim], &[(bytes, start..range.end)])?;
    Ok(())
}
