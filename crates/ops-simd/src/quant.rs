//! Products with weights in blocks of 32 small integers: GGUF's q8_0 and q4_0.
//!
//! Activations are quantized once per call, to 8 bits with a scale for every 32; the products of integers are exact in
//! i32, and each block's sum is scaled in f32. For few rows of activations, weights are read in place, as files have them
//! ([`multiply_rows`]). For many, they are repacked to tiles of sixteen rows, so that a vector holds the same four columns of
//! sixteen rows ([`multiply`]). [`mod@reference`] has the same arithmetic as plain loops.

mod activations;
mod blocks;
#[cfg(target_arch = "x86_64")]
mod dot_avx2;
#[cfg(target_arch = "x86_64")]
mod dot_avx512;
mod dot_portable;
#[cfg(target_arch = "x86_64")]
mod matvec_avx512;
mod multiply;
pub mod reference;
mod rows;
#[cfg(target_arch = "x86_64")]
mod rows_avx2;
#[cfg(target_arch = "x86_64")]
mod rows_avx512;
#[cfg(target_arch = "aarch64")]
mod rows_neon;
mod rows_portable;
mod tiles;

pub use activations::Activations;
pub use blocks::{BLOCK, Format, Q4_0_BYTES, Q8_0_BYTES};
pub use multiply::multiply;
pub use rows::multiply_rows;
pub use tiles::{TILE_ROWS, Tiles};
