//! Quantized formats. A block is an element, so a quantized tensor is an ordinary tensor of blocks.
//!
//! The formats are those of the public GGUF specification. Rows are not padded: the innermost extent of a tensor must be a
//! multiple of the block length, and the tensor of blocks is shorter by that factor.
use crate::BlockInfo;

pub use crate::dtype::block::{Block, Encode};

mod iq;
mod iq2_s;
mod iq2_xs;
mod iq2_xxs;
mod iq3_s;
mod iq3_xxs;
mod iq4_nl;
mod iq4_xs;
mod iq_grids;
mod mxfp4;
mod q2_k;
mod q3_k;
mod q4_0;
mod q4_1;
mod q4_k;
mod q5_0;
mod q5_1;
mod q5_k;
mod q6_k;
mod q8_0;
mod q8_1;
mod q8_k;
mod scales;
mod search;

pub use iq2_s::{BlockIq2S, IQ2_S};
pub use iq2_xs::{BlockIq2Xs, IQ2_XS};
pub use iq2_xxs::{BlockIq2Xxs, IQ2_XXS};
pub use iq3_s::{BlockIq3S, IQ3_S};
pub use iq3_xxs::{BlockIq3Xxs, IQ3_XXS};
pub use iq4_nl::{BlockIq4Nl, IQ4_LEVELS, IQ4_NL};
pub use iq4_xs::{BlockIq4Xs, IQ4_XS};
pub use mxfp4::{BlockMxfp4, MXFP4};
pub use q2_k::{BlockQ2K, Q2_K};
pub use q3_k::{BlockQ3K, Q3_K};
pub use q4_0::{BlockQ4_0, Q4_0};
pub use q4_1::{BlockQ4_1, Q4_1};
pub use q4_k::{BlockQ4K, Q4_K};
pub use q5_0::{BlockQ5_0, Q5_0};
pub use q5_1::{BlockQ5_1, Q5_1};
pub use q5_k::{BlockQ5K, Q5_K};
pub use q6_k::{BlockQ6K, Q6_K};
pub use q8_0::{BlockQ8_0, Q8_0};
pub use q8_1::{BlockQ8_1, Q8_1};
pub use q8_k::{BlockQ8K, Q8_K};

/// The formats of this crate. This is the only list of them.
pub(crate) const LIST: [&BlockInfo; 20] = [
    &Q4_0, &Q8_0, &Q4_1, &Q5_0, &Q5_1, &Q8_1, &Q2_K, &Q3_K, &Q4_K, &Q5_K, &Q6_K, &Q8_K, &IQ4_NL, &IQ4_XS,
    &MXFP4, &IQ2_XXS, &IQ2_XS, &IQ2_S, &IQ3_XXS, &IQ3_S,
];

/// The formats of this crate. Formats from other crates work as well, but no file or command can name them.
pub static FORMATS: &[&BlockInfo] = &LIST;

/// Decodes 32 values whose codes of four bits are in the low halves of the bytes, then in the high halves; `value` gets its index and
/// code. One loop over 32 bytes, because the compiler would unroll two over 16 before it considers vectors.
#[inline(always)]
fn decode_halves(values: &mut [f32], bytes: &[u8; 16], value: impl Fn(usize, u8) -> f32) {
    let twice: [u8; 32] = core::array::from_fn(|i| bytes[i % 16]);
    for (i, (v, byte)) in values.iter_mut().zip(twice).enumerate() {
        *v = value(i, if i < 16 { byte & 15 } else { byte >> 4 });
    }
}

/// The first `N` values, padded with zeros.
fn padded<const N: usize>(values: &[f32]) -> [f32; N] {
    let mut block = [0.0; N];
    for (b, v) in block.iter_mut().zip(values) {
        *b = *v;
    }
    block
}
