//! What the examples `generate`, `batch` and `embed` share.
#![cfg(feature = "gguf")]

pub mod backend;
pub mod chat;
mod lines;
mod model;
mod progress;
mod stats;

pub use lines::{Lines, prompts};
pub use model::{Opening, open, tokenizer};
/// How commands start and end.
pub use ops_command as command;
pub use progress::Progress;

/// What a program that only prints its errors returns.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
