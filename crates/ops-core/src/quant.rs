//! Quantized formats. A block is an element, so a quantized tensor is an ordinary tensor of blocks.
//!
//! The formats are those of the public GGUF specification. Rows are not padded: the innermost extent of a tensor must be a
//! multiple of the block length, and the tensor of blocks is shorter by that factor.
use crate::{BlockInfo, DType, Element};

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

pub use iq4_nl::IQ4_LEVELS;

/// Declares the formats: for each its file, which has its name, its row, its block, and GGML's number.
macro_rules! formats {
    ($($file:ident: $row:ident = $new:ident::<$block:ident>($ggml:literal) $(.$with:ident())*;)+) => {
        $(
            pub use $file::$block;

            #[doc = concat!("The format of [`", stringify!($block), "`].")]
            pub static $row: BlockInfo = BlockInfo::$new::<$block>(stringify!($file))
                .listed(Index::$row as u8, $ggml)
                $(.$with())*;

            impl Element for $block {
                const DTYPE: DType = DType::Block(&$row);
            }
        )+

        /// The place of each format in the list.
        #[allow(non_camel_case_types)]
        enum Index { $($row),+ }

        /// The formats of this crate. This is the only list of them.
        pub(crate) const LIST: [&BlockInfo; [$(Index::$row),+].len()] = [$(&$row),+];
    };
}

formats! {
    q4_0: Q4_0 = of::<BlockQ4_0>(2).exact_in_bytes();
    q8_0: Q8_0 = of::<BlockQ8_0>(8).exact_in_bytes();
    q4_1: Q4_1 = of::<BlockQ4_1>(3).exact_in_bytes();
    q5_0: Q5_0 = of::<BlockQ5_0>(6).exact_in_bytes();
    q5_1: Q5_1 = of::<BlockQ5_1>(7).exact_in_bytes();
    q8_1: Q8_1 = of::<BlockQ8_1>(9).exact_in_bytes();
    q2_k: Q2_K = of::<BlockQ2K>(10).exact_in_bytes();
    q3_k: Q3_K = of::<BlockQ3K>(11).exact_in_bytes();
    q4_k: Q4_K = of::<BlockQ4K>(12).exact_in_bytes();
    q5_k: Q5_K = of::<BlockQ5K>(13).exact_in_bytes();
    q6_k: Q6_K = of::<BlockQ6K>(14);
    q8_k: Q8_K = of::<BlockQ8K>(15).exact_in_bytes();
    iq4_nl: IQ4_NL = of::<BlockIq4Nl>(20).exact_in_bytes();
    iq4_xs: IQ4_XS = of::<BlockIq4Xs>(23).exact_in_bytes();
    mxfp4: MXFP4 = of::<BlockMxfp4>(39).exact_in_bytes();
    iq2_xxs: IQ2_XXS = read_only::<BlockIq2Xxs>(16);
    iq2_xs: IQ2_XS = read_only::<BlockIq2Xs>(17);
    iq2_s: IQ2_S = read_only::<BlockIq2S>(22);
    iq3_xxs: IQ3_XXS = read_only::<BlockIq3Xxs>(18);
    iq3_s: IQ3_S = read_only::<BlockIq3S>(21);
}

/// The formats of this crate, each at its [index](BlockInfo::index). Formats from other crates work as well, but no file or command
/// can name them.
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

#[cfg(test)]
mod tests {
    use super::FORMATS;
    use crate::BlockInfo;

    #[test]
    fn a_format_is_found_by_its_index() {
        for (at, format) in FORMATS.iter().enumerate() {
            assert_eq!(format.index(), Some(at), "{}", format.name());
            let same = |other: &&&BlockInfo| other.ggml() == format.ggml() || other.name() == format.name();
            assert_eq!(FORMATS.iter().filter(same).count(), 1, "{}", format.name());
        }
    }

    #[test]
    fn a_format_of_another_crate_equals_none_of_these() {
        static OTHER: BlockInfo = BlockInfo::of::<super::BlockQ8_0>("q8_0").exact_in_bytes();
        assert_eq!((OTHER.index(), OTHER.ggml()), (None, None));
        assert!(FORMATS.iter().all(|format| **format != OTHER));
    }
}
