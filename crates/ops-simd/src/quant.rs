//! Products with weights in blocks of small integers: GGUF's q8_0 and q4_0, the super-blocks q4_k, q5_k, q6_k and iq4_xs,
//! and iq4_nl and mxfp4, whose codes stand for levels in a table.
//!
//! Activations are quantized once per call to 8 bits, with one scale per 32 values. Outliers may be set aside ([`Outliers`]); every
//! product adds theirs in f32. Integer products are exact in i32, and
//! each block's sum is scaled in f32. [`multiply`] chooses the kernel. With few rows of activations, [`multiply_rows`] reads the
//! weights in place, in file order. With many, the weights are repacked into tiles of sixteen rows, so that a vector holds the same
//! four columns of sixteen rows ([`multiply_tiles`]). Rows of any other format are first turned into q8_0 blocks ([`requantize()`]),
//! a few at a time.
//! [`mod@reference`] has the same arithmetic in plain loops.

mod activations;
mod blocks;
mod codes;
#[cfg(target_arch = "x86_64")]
mod dot_avx2;
#[cfg(target_arch = "x86_64")]
mod dot_avx512;
#[cfg(target_arch = "x86_64")]
mod dot_avx_vnni;
mod dot_portable;
mod formats;
mod in_place;
mod lookup;
#[cfg(target_arch = "x86_64")]
mod lookup_avx2;
#[cfg(target_arch = "x86_64")]
mod lookup_avx512;
mod lookup_portable;
#[cfg(target_arch = "x86_64")]
mod matvec_avx512;
mod multiply;
#[cfg(target_arch = "aarch64")]
mod neon;
mod one_row;
#[cfg(target_arch = "x86_64")]
mod one_row_avx2;
#[cfg(target_arch = "x86_64")]
mod one_row_avx512;
mod one_row_portable;
mod outliers;
mod panels;
mod quantize;
pub mod reference;
mod requantize;
mod rows;
#[cfg(target_arch = "x86_64")]
mod rows_avx2;
#[cfg(target_arch = "x86_64")]
mod rows_avx512;
#[cfg(target_arch = "aarch64")]
mod rows_neon;
mod rows_portable;
mod super_blocks;
mod tile_outliers;
mod tile_products;
mod tiles;

pub use activations::Activations;
pub use blocks::{BLOCK, TILE_ROWS};
pub use codes::multiply_codes;
pub use formats::{Format, InPlace, LookupFormat, SUPER_BLOCK, SuperFormat, TileFormat};
pub use lookup::multiply_lookup_rows;
pub use multiply::{Sums, Weight, multiply, outliers_for, rounds_activations};
pub use outliers::Outliers;
pub use quantize::ActivationsPart;
pub use requantize::requantize;
pub use rows::{multiply_rows, multiply_rows_by_row};
pub use super_blocks::multiply_super_rows;
pub use tile_products::multiply_tiles;
pub use tiles::Tiles;
