//! The tokenizer's files as metadata.
use super::options::{Options, read_text};
use crate::Result;
use ops_gguf::Metadata;
use serde_json::Value;
use std::path::Path;

/// Adds the tokenizer from the files of a folder. A folder without a tokenizer gives none; requesting it is
/// then an error.
pub(super) fn add(metadata: &mut Metadata, folder: &Path) -> Result<()> {
    let file = folder.join("tokenizer.json");
    if let Some(json) = read_text(&file)? {
        metadata.set("tokenizer.huggingface.json", json)?;
        metadata.set("tokenizer.huggingface.file", file.display().to_string())?;
    }
    // In order of rising precedence. The first is that of the processor of a model with images.
    if let Some(options) = Options::read(&folder.join("chat_template.json"))?
        && let Some(template) = options.get("chat_template").and_then(default_template)
    {
        metadata.set("tokenizer.chat_template", template)?;
    }
    if let Some(options) = Options::read(&folder.join("tokenizer_config.json"))? {
        for name in ["bos_token", "eos_token", "unk_token", "pad_token"] {
            // A string, or an object with more about it.
            let content = |token: &'_ Value| token.get("content").and_then(Value::as_str).map(str::to_owned);
            let text =
                options.get(name).and_then(|token| token.as_str().map(str::to_owned).or(content(token)));
            if let Some(text) = text {
                metadata.set(format!("tokenizer.huggingface.{name}"), text)?;
            }
        }
        if let Some(template) = options.get("chat_template").and_then(default_template) {
            metadata.set("tokenizer.chat_template", template)?;
            let file = folder.join("tokenizer_config.json");
            metadata.set("tokenizer.chat_template.file", file.display().to_string())?;
        }
    }
    let file = folder.join("chat_template.jinja");
    if let Some(template) = read_text(&file)? {
        metadata.set("tokenizer.chat_template", template)?;
        metadata.set("tokenizer.chat_template.file", file.display().to_string())?;
    }
    let mut ends: Vec<u32> = Vec::new();
    for file in ["generation_config.json", "config.json"] {
        if let Some(options) = Options::read(&folder.join(file))? {
            ends.extend(ids(options.get("eos_token_id")));
            if let Some(text) = options.get("text_config") {
                ends.extend(ids(text.get("eos_token_id")));
            }
            if let Some(id) = ids(options.get("bos_token_id")).first()
                && metadata.value("tokenizer.ggml.bos_token_id").is_none()
            {
                metadata.set("tokenizer.ggml.bos_token_id", *id)?;
            }
        }
    }
    if !ends.is_empty() {
        metadata.set("tokenizer.ggml.eos_token_ids", ends)?;
    }
    Ok(())
}

/// A number, or several.
fn ids(value: Option<&Value>) -> Vec<u32> {
    let one = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Value::Array(all)) => all.iter().filter_map(one).collect(),
        value => value.and_then(one).into_iter().collect(),
    }
}

/// A template, or the default one of several.
fn default_template(value: &Value) -> Option<&str> {
    let named = |all: &'_ Value| -> Option<usize> {
        all.as_array()?.iter().position(|one| one.get("name").and_then(Value::as_str) == Some("default"))
    };
    let named = || value.get(named(value)?)?.get("template")?.as_str();
    value.as_str().or_else(|| value.get("default")?.as_str()).or_else(named)
}
