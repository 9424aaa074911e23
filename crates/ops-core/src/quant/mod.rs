//! Quantized formats. A block is an element, so a quantized tensor is an ordinary tensor of blocks.
//!
//! The formats are those of the public GGUF specification. Rows are not padded: the innermost extent of a tensor must be a
//! multiple of the block length, and the tensor of blocks is shorter by that factor.
use crate::{BlockInfo, DType, Element};

mod q4_0;
mod q8_0;

pub use q4_0::{BlockQ4_0, Q4_0};
pub use q8_0::{BlockQ8_0, Q8_0};

/// Passes the block types of this crate to a macro, after the tokens in the second brackets. This is the only list of them.
#[doc(hidden)]
#[macro_export]
macro_rules! block_types {
    ([$($then:tt)+] [$($before:tt)*] $($rest:tt)*) => {
        $($then)+! { $($before)* [$crate::quant::BlockQ4_0, $crate::quant::BlockQ8_0] $($rest)* }
    };
}

macro_rules! formats {
    ([$($block:ty),+]) => {
        /// The formats of this crate. Formats of other crates work as well, but no file or command can name them.
        pub static FORMATS: &[&BlockInfo] = &[$(info::<$block>()),+];
    };
}
crate::block_types!([formats] []);

const fn info<Q: Block>() -> &'static BlockInfo {
    match DType::of::<Q>() {
        DType::Block(info) => info,
        _ => panic!("a block whose type is no block format"),
    }
}

/// A block of values that are stored together.
pub trait Block: Element {
    /// Number of values in a block.
    const LEN: usize;
    /// Encodes the first [`LEN`](Block::LEN) values of `values` as the nearest block, bit for bit like the public reference.
    ///
    /// Values beyond the end count as 0.
    fn quantize(values: &[f32]) -> Self;
    /// Decodes the block into the first [`LEN`](Block::LEN) elements of `values`.
    fn dequantize(&self, values: &mut [f32]);
}

/// The first `N` values, padded with zeros.
fn padded<const N: usize>(values: &[f32]) -> [f32; N] {
    let mut block = [0.0; N];
    for (b, v) in block.iter_mut().zip(values) {
        *b = *v;
    }
    block
}
