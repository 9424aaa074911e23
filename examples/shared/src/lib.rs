//! What the examples `generate`, `batch` and `embed` share.
#![cfg(feature = "gguf")]

pub mod backend;
pub mod chat;
mod progress;
mod stats;

pub use progress::Progress;

/// What a program that only prints its errors returns.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
