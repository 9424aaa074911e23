//! GLM 4, dense (`glm4`) and with experts (`glm4moe`, GLM 4.5 to 4.7). GLM Team, "ChatGLM", 2024, and "GLM-4.5", 2025.
use super::{Family, PLAIN, deepseek2, qwen3next};
use crate::folder::options::Options;
use crate::folder::parts::{COMMON, Folder, Keys, Split};
use crate::{Experts, Result};
use ops_core::ops::RopeForm;

pub(super) const FAMILY: Family = Family {
    name: "glm4",
    folders: &[Folder {
        model_type: "glm4",
        title: "GLM 4",
        example: "zai-org/GLM-4-9B-0414",
        partial_rope: Some(0.5),
        own_head_dim: true,
        ..COMMON
    }],
    adjust: |_, config| {
        config.rope = RopeForm::Interleaved;
        config.post_norms = true;
        Ok(())
    },
    ..PLAIN
};

pub(super) const WITH_EXPERTS: Family = Family {
    name: "glm4moe",
    folders: &[Folder {
        model_type: "glm4_moe",
        title: "GLM 4.5 to 4.7",
        example: "zai-org/GLM-4.5-Air",
        partial_rope: Some(0.5),
        own_head_dim: true,
        head_norms: true,
        post_attention_norm: true,
        translate,
        ..COMMON
    }],
    adjust: |keys, config| {
        config.feed_norm = "post_attention_norm";
        qwen3next::further_layers(keys, config)?;
        config.experts = Some(Experts::read(keys, keys.count("expert_feed_forward_length")?)?);
        Ok(())
    },
    ..PLAIN
};

fn translate(options: &Options, keys: &mut Keys) -> Result<Split> {
    deepseek2::experts(options, keys)?;
    keys.set("expert_weights_norm", options.required("norm_topk_prob", options.flag("norm_topk_prob")?)?)?;
    // Sigmoid.
    keys.set("expert_gating_func", 2_u32)?;
    if let Some(groups) = options.count("n_group")?.filter(|groups| *groups > 1) {
        keys.set("expert_group_count", groups)?;
        keys.set("expert_group_used_count", options.required("topk_group", options.count("topk_group")?)?)?;
    }
    options.get("topk_group");
    // Norms of heads are visible in the tensors.
    options.get("use_qk_norm");
    Ok(Split::None)
}
