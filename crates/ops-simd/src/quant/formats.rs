//! The block formats, as values and as types.

use super::blocks::BLOCK;

/// Weights of a super-block.
pub const SUPER_BLOCK: usize = 256;
/// Steps of a super-block.
pub(super) const STEPS: usize = 8;

/// A block format that has integer kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names are those of the formats")]
pub enum Format {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q8_1,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Q8K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 15] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q8_1,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Q8K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Mxfp4,
    ];

    /// Weights and bytes of a block.
    pub const fn block(self) -> (usize, usize) {
        match self {
            Self::Q4_0 | Self::Iq4Nl => (BLOCK, 18),
            Self::Q4_1 => (BLOCK, 20),
            Self::Q5_0 => (BLOCK, 22),
            Self::Q5_1 => (BLOCK, 24),
            Self::Q8_0 => (BLOCK, 34),
            Self::Q8_1 => (BLOCK, 36),
            Self::Mxfp4 => (BLOCK, 17),
            Self::Q2K => (SUPER_BLOCK, 84),
            Self::Q3K => (SUPER_BLOCK, 110),
            Self::Q4K => (SUPER_BLOCK, 144),
            Self::Q5K => (SUPER_BLOCK, 176),
            Self::Q6K => (SUPER_BLOCK, 210),
            Self::Q8K => (SUPER_BLOCK, 292),
            Self::Iq4Xs => (SUPER_BLOCK, 136),
        }
    }

    /// The kernels that read its rows in place, if it has any.
    pub const fn in_place(self) -> Option<InPlace> {
        Some(match self {
            Self::Q8_0 => InPlace::Tiled(TileFormat::Q8_0),
            Self::Q4_0 => InPlace::Tiled(TileFormat::Q4_0),
            Self::Q4K => InPlace::Super(SuperFormat::Q4K),
            Self::Q5K => InPlace::Super(SuperFormat::Q5K),
            Self::Q6K => InPlace::Super(SuperFormat::Q6K),
            Self::Iq4Xs => InPlace::Super(SuperFormat::Iq4Xs),
            Self::Iq4Nl => InPlace::Lookup(LookupFormat::Iq4Nl),
            Self::Mxfp4 => InPlace::Lookup(LookupFormat::Mxfp4),
            _ => return None,
        })
    }

    /// The same format as one that packs into tiles, if it does.
    pub const fn tiled(self) -> Option<TileFormat> {
        match self.in_place() {
            Some(InPlace::Tiled(format)) => Some(format),
            _ => None,
        }
    }
}

/// The kernels that multiply the rows of a format in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// [`multiply_rows`](super::multiply_rows), up to sixteen rows of activations.
    Tiled(TileFormat),
    /// [`multiply_super_rows`](super::multiply_super_rows), for one or two.
    Super(SuperFormat),
    /// [`multiply_lookup_rows`](super::multiply_lookup_rows), for one or two.
    Lookup(LookupFormat),
}

/// A format whose rows also pack into [`Tiles`](super::Tiles).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TileFormat {
    /// An f16 scale d, then 32 signed bytes q. A weight is d·q.
    Q8_0,
    /// An f16 scale d, then 16 bytes. The low half of byte i is weight i and the high half is weight 16 + i. A weight is d·(q − 8).
    Q4_0,
}

impl TileFormat {
    /// The same format among all.
    pub const fn format(self) -> Format {
        match self {
            Self::Q8_0 => Format::Q8_0,
            Self::Q4_0 => Format::Q4_0,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        self.format().block().1
    }

    /// Bytes of a block's weights, without the scale.
    pub(crate) fn quant_bytes(self) -> usize {
        self.block_bytes() - 2
    }

    /// Added to a weight to make it unsigned.
    pub(crate) const fn offset(self) -> i32 {
        match self {
            Self::Q8_0 => 128,
            Self::Q4_0 => 8,
        }
    }
}

/// A format of super-blocks whose rows are multiplied in file order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SuperFormat {
    /// 4 bits, with minima.
    Q4K,
    /// 5 bits, with minima.
    Q5K,
    /// 6 bits.
    Q6K,
    /// 4 bits that stand for levels in a table.
    Iq4Xs,
}

impl SuperFormat {
    /// Bytes of a super-block.
    pub const fn block_bytes(self) -> usize {
        let format = match self {
            Self::Q4K => Format::Q4K,
            Self::Q5K => Format::Q5K,
            Self::Q6K => Format::Q6K,
            Self::Iq4Xs => Format::Iq4Xs,
        };
        format.block().1
    }
}

/// A format whose codes stand for levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupFormat {
    /// Blocks of 32: an f16 scale, then the codes.
    Iq4Nl,
    /// Blocks of 32: an exponent, then the codes of 4-bit floats.
    Mxfp4,
}

/// The levels of iq4_nl and iq4_xs, with an offset of 128.
pub(super) const LEVELS: [u8; 16] = [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];

/// A step's factor and its codes.
pub(super) type Step<'a> = (f32, &'a [u8; BLOCK / 2]);

impl LookupFormat {
    /// Bytes of a block.
    pub(super) const fn block_bytes(self) -> usize {
        let format = match self {
            Self::Iq4Nl => Format::Iq4Nl,
            Self::Mxfp4 => Format::Mxfp4,
        };
        format.block().1
    }

    /// The levels of the codes, in units of the factor.
    pub(super) fn levels(self) -> [i8; 16] {
        match self {
            LookupFormat::Mxfp4 => [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12],
            _ => [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
        }
    }

    /// The steps of a row; `half` converts f16.
    #[inline(always)]
    pub(super) fn each_step(self, row: &[u8], half: impl Fn(u16) -> f32, mut f: impl FnMut(Step<'_>)) {
        match self {
            LookupFormat::Iq4Nl => {
                for block in marker::Iq4Nl::blocks(row) {
                    let (scale, codes) = (half(u16::from_le_bytes([block[0], block[1]])), block.last_chunk());
                    codes.into_iter().for_each(|codes| f((scale, codes)));
                }
            }
            LookupFormat::Mxfp4 => {
                for block in marker::Mxfp4::blocks(row) {
                    let (scale, codes) = (half_power(block[0]), block.last_chunk());
                    codes.into_iter().for_each(|codes| f((scale, codes)));
                }
            }
        }
    }
}

/// Half of 2^(exponent − 127), because the levels are twice the floats that the codes of mxfp4 stand for.
/// Exponents 0 and 1 are subnormal.
#[inline(always)]
fn half_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        normal => u32::from(normal - 1) << 23,
    })
}

/// A format as a type, for which kernels are compiled. `F` is the format among those of its kernels.
pub(super) trait Marker<F> {
    /// The format as a value.
    const FORMAT: F;
    /// A block.
    type Block: AsRef<[u8]> + Copy;
    /// A block of zeros.
    #[allow(dead_code, reason = "only kernels for x86 use it")]
    const ZEROS: Self::Block;
    /// Bytes of a block.
    const BYTES: usize = size_of::<Self::Block>();

    /// The blocks of a row.
    fn blocks(row: &[u8]) -> &[Self::Block];
}

/// The types of the formats that have kernels of their own.
pub(super) mod marker {
    use super::{LookupFormat, Marker, SuperFormat, TileFormat};

    macro_rules! markers {
        ($($name:ident: $of:ident),+) => {$(
            #[allow(dead_code, reason = "some have kernels only on x86")]
            pub(in crate::quant) struct $name;

            impl Marker<$of> for $name {
                const FORMAT: $of = $of::$name;
                type Block = [u8; $of::$name.block_bytes()];
                const ZEROS: Self::Block = [0; Self::BYTES];

                #[inline(always)]
                fn blocks(row: &[u8]) -> &[Self::Block] {
                    row.as_chunks().0
                }
            }
        )+};
    }
    markers!(
        Q8_0: TileFormat, Q4_0: TileFormat,
        Q4K: SuperFormat, Q5K: SuperFormat, Q6K: SuperFormat, Iq4Xs: SuperFormat,
        Iq4Nl: LookupFormat, Mxfp4: LookupFormat
    );
}
