//! What `generate`, `batch` and `embed` share: opening models, choosing what to compute them with, prompts.
mod backend;
mod lines;
mod model;
mod stats;

#[cfg(test)]
pub(crate) use backend::to_send;
pub(crate) use backend::{Computing, Follower, Job, Prepare, run, run_on};
pub(crate) use lines::{Lines, prompts};
pub(crate) use model::{bundled_model, chat, open, open_once, report_load, tokenizer};
pub(crate) use stats::report_refusal;

/// What a command that only prints its errors returns.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
