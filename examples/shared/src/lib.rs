//! What the examples `generate`, `batch` and `embed` share.
#![cfg(feature = "gguf")]

pub mod backend;
pub mod chat;
mod lines;
mod model;
pub mod nan;
mod progress;
mod stats;

pub use lines::{Lines, prompts};
pub use model::{Opening, open, tokenizer};
/// How commands start and end.
pub use ops_command as command;
pub use progress::Progress;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Prepares a command that reads models: [`command::start`], and panics that become errors print nothing.
///
/// # Errors
/// As [`command::start`].
pub fn start(stop: Option<&Arc<AtomicBool>>) -> Result<()> {
    rocm_ops::gguf::panics::hide_caught();
    command::start(stop)
}

/// What a program that only prints its errors returns.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
