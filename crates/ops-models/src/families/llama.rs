//! Llama, and models converted as such: Mistral and Mixtral. Touvron et al., 2023; Jiang et al., 2023 and
//! 2024.
use super::{Family, rows_in_pairs};
use crate::Experts;
use crate::folder::parts::{COMMON, Folder, Images, Split, Windows};
use crate::keys::Keys;
use ops_gguf::Gguf;
use serde_json::json;

const LLAMA: Folder = Folder {
    // Rows of queries and keys are in halves; in GGUF files of this family they are in pairs.
    translate: |_, keys| keys.set("rope.halves", true).map(|()| Split::None),
    ..COMMON
};

pub(super) const FAMILY: Family = Family {
    name: "llama",
    folders: &[
        Folder {
            model_type: "llama",
            title: "Llama 1 to 3",
            example: "meta-llama/Llama-3.2-3B",
            as_many_kv_heads: true,
            ..LLAMA
        },
        Folder {
            model_type: "mistral",
            title: "Mistral",
            example: "mistralai/Mistral-7B-Instruct-v0.3",
            refused: "images",
            windows: Windows::All,
            images: Some(Images { model_type: "mistral3", defaults: || json!({}) }),
            ..LLAMA
        },
        Folder {
            model_type: "mixtral",
            title: "Mixtral",
            example: "mistralai/Mixtral-8x7B-v0.1",
            windows: Windows::All,
            rope_base: Some(1e6),
            ..LLAMA
        },
    ],
    adjust: |keys, config| {
        rows_in_pairs(keys, config)?;
        // Mixtral renormalises, without a key for it. Its experts have the width of a dense block.
        if keys.find::<u32>("expert_count")?.unwrap_or(0) > 0 {
            config.experts = Some(Experts::read(keys, config.ffn)?);
        }
        Ok(())
    },
    generates: true,
    lost_window: |model, keys| is_mistral(model, keys).then_some("Mistral 7B 0.1"),
};

/// Mistral 7B 0.1 and what was trained from it: by the name, or by extents and base, which together no other model has.
fn is_mistral(model: &Gguf, keys: &Keys<'_>) -> bool {
    let name = model.metadata().find::<&str>("general.name").ok().flatten().unwrap_or_default();
    let name: String = name.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect();
    if name.contains("mistral") && name.contains("v01") && !name.contains("mixtral") {
        return true;
    }
    let extents = [
        ("embedding_length", 4096),
        ("block_count", 32),
        ("feed_forward_length", 14336),
        ("attention.head_count_kv", 8),
        ("context_length", 32768),
    ];
    let base = keys.float("rope.freq_base").ok().flatten().unwrap_or(10_000.0);
    base == 10_000.0 && extents.iter().all(|(key, n)| keys.count(key).is_ok_and(|got| got == *n))
}
