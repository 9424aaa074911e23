//! Formats whose rows are multiplied in file order: super-blocks, and blocks of codes that stand for levels in a table.

use super::blocks::BLOCK;

/// Weights of a super-block.
pub const SUPER_BLOCK: usize = 256;
/// Steps of a super-block.
pub(super) const STEPS: usize = 8;

/// A format of super-blocks.
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
    pub fn block_bytes(self) -> usize {
        match self {
            SuperFormat::Q4K => 144,
            SuperFormat::Q5K => 176,
            SuperFormat::Q6K => 210,
            SuperFormat::Iq4Xs => 136,
        }
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
                for block in row.as_chunks::<18>().0 {
                    let (scale, codes) = (half(u16::from_le_bytes([block[0], block[1]])), block.last_chunk());
                    codes.into_iter().for_each(|codes| f((scale, codes)));
                }
            }
            LookupFormat::Mxfp4 => {
                for block in row.as_chunks::<17>().0 {
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
