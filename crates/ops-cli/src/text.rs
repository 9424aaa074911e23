//! What `generate`, `batch` and `embed` share: opening models, choosing what to compute them with, prompts.
mod backend;
mod lines;
mod model;
mod stats;

pub(crate) use backend::{Computing, Job, Prepare, run};
pub(crate) use lines::{Lines, prompts};
pub(crate) use model::{bundled_model, chat, open, tokenizer};

/// What a command that only prints its errors returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
