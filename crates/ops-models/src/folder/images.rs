//! Extracts the text model of multimodal models.
//!
//! A text without images gives the same result in the whole model and in its text model alone.
use super::options::Options;
use crate::{Result, families};
use serde_json::{Value, json};

/// The option that the embeddings are also the output matrix.
const TIED: &str = "tie_word_embeddings";

/// Options about images.
pub(super) const OF_IMAGES: [&str; 24] = [
    "vision_config",
    "mm_tokens_per_image",
    "boi_token_index",
    "eoi_token_index",
    "image_token_index",
    "image_token_id",
    "video_token_id",
    "audio_config",
    "audio_token_id",
    "boa_token_id",
    "eoa_token_id",
    "eoa_token_index",
    "boi_token_id",
    "eoi_token_id",
    "vision_soft_tokens_per_image",
    "audio_soft_tokens_per_image",
    "vision_start_token_id",
    "vision_end_token_id",
    "multimodal_projector_bias",
    "projector_hidden_act",
    "spatial_merge_size",
    "vision_feature_layer",
    "vision_model_name",
    "text_config",
];

/// Prefixes of tensors for images.
const PREFIXES: [&str; 8] = [
    "vision_tower.",
    "multi_modal_projector.",
    "model.vision_tower.",
    "model.multi_modal_projector.",
    "model.visual.",
    "model.audio_tower.",
    "model.embed_vision.",
    "model.embed_audio.",
];

/// The options of the text model, if this is a multimodal model. Options that both objects have must agree, unless they are
/// `harmless`; the caller checks the others.
pub(super) fn text_config(options: &Options, harmless: &[&str]) -> Result<Option<Options>> {
    let model_type = options.text("model_type")?;
    let of_images = families::folders().find_map(|(_, folder)| {
        let images = folder.images.as_ref().filter(|images| Some(images.model_type) == model_type)?;
        Some((folder.model_type, images.defaults))
    });
    let Some((text_type, defaults)) = of_images else { return Ok(None) };
    let text = options.required("text_config", options.object("text_config")?)?;
    // Embeddings are tied if the whole model says so or its text model does.
    let tied = [options.flag(TIED)?, text.flag(TIED)?].into_iter().flatten().reduce(|a, b| a || b);
    let mut text = text.with(TIED, tied.map(Value::Bool)).with_defaults(defaults());
    text = text.with_defaults(json!({"model_type": text_type}));
    text.only("model_type", text_type, |value| value.as_str() == Some(text_type))?;
    options.only("architectures", "a class for text generation, ..ForConditionalGeneration", |value| {
        let names = value.as_array().map(Vec::as_slice).unwrap_or_default();
        names.iter().all(|name| name.as_str().is_some_and(|name| name.ends_with("ForConditionalGeneration")))
    })?;
    // Options of the text model may be repeated beside it.
    for option in options.common(&text) {
        if options.is_unread(option) && !harmless.contains(&option) {
            options.agree_on(option, &text)?;
            options.get(option);
        }
    }
    Ok(Some(text))
}

/// The name of a tensor in the text model alone; `None` if it is for images.
pub(super) fn text_tensor(name: &str) -> Option<String> {
    if PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    Some(match (name.strip_prefix("language_model."), name.strip_prefix("model.language_model.")) {
        (Some(rest), _) => rest.to_owned(),
        (_, Some(rest)) => format!("model.{rest}"),
        _ => name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_of_images_are_passed_over() {
        let text = |name: &str| text_tensor(name).unwrap_or_default();
        assert_eq!(text("language_model.model.norm.weight"), "model.norm.weight");
        assert_eq!(text("language_model.lm_head.weight"), "lm_head.weight");
        assert_eq!(text("model.language_model.layers.0.x"), "model.layers.0.x");
        assert_eq!(text("lm_head.weight"), "lm_head.weight");
        for name in ["vision_tower.ln_pre.weight", "model.multi_modal_projector.norm.weight"] {
            assert_eq!(text_tensor(name), None, "{name}");
        }
    }
}
