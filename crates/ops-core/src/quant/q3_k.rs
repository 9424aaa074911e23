//! `q3_k`: 256 three-bit values in sixteen groups, each with a six-bit scale.
use super::q2_k::place;
use super::search::{inverse, nearest, scales_in_units, signed_scale, signed_scales};
use super::{Block, Encode, padded};
use crate::f16;

/// 256 values `scale · (s − 32) · (q − 4)`, `q` in 0..=7; `s` in 0..=63 belongs to a group of 16.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ3K {
    /// Bit `j` of byte `i` is the highest bit of value `32 j + i`.
    pub high: [u8; 32],
    /// The low two bits: of the 32 bytes for each half of the block, byte `i` holds the half's values `i`, `i
    /// + 32`, `i + 64` and `i + 96`.
    pub q: [u8; 64],
    /// The groups' scales: the low four bits in bytes 0 to 7, group `j + 8` in the high halves; then the high two bits.
    pub scales: [u8; 12],
    /// The unit of the groups' scales.
    pub scale: f16,
}

/// The byte and shift of the low four bits of a group's scale, and of the high two.
const fn scale_place(j: usize) -> ((usize, usize), (usize, usize)) {
    ((j % 8, j / 8 * 4), (8 + j % 4, j / 4 * 2))
}

impl Block for BlockQ3K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let unit = self.scale.to_f32();
        let scale = |j: usize| {
            let ((low, low_shift), (high, high_shift)) = scale_place(j);
            let s = self.scales[low] >> low_shift & 15 | (self.scales[high] >> high_shift & 3) << 4;
            unit * (f32::from(s) - 32.0)
        };
        // Two groups at a time, whose codes are in the same bits of bytes that follow each other.
        for (pair, values) in values.chunks_exact_mut(32).take(8).enumerate() {
            let scales = [scale(2 * pair), scale(2 * pair + 1)];
            let (byte, shift) = place(pair * 32);
            let bytes = self.q[byte..byte + 32].iter().zip(&self.high);
            for (i, (v, (low, high))) in values.iter_mut().zip(bytes).enumerate() {
                let q = low >> shift & 3 | (high >> pair & 1) << 2;
                *v = (if i < 16 { scales[0] } else { scales[1] }) * (f32::from(q) - 4.0);
            }
        }
    }
}

impl Encode for BlockQ3K {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<256>(values);
        let (scale, scales) = scales_in_units::<16>(signed_scales(&x, |x| signed_scale(x, 4)), 32);
        let mut block = BlockQ3K { high: [0; 32], q: [0; 64], scales: [0; 12], scale };
        for (j, s) in scales.iter().enumerate() {
            let (s, ((low, low_shift), (high, high_shift))) = ((s + 32) as u8, scale_place(j));
            block.scales[low] |= (s & 15) << low_shift;
            block.scales[high] |= s >> 4 << high_shift;
        }
        for (at, x) in x.iter().enumerate() {
            let steps = inverse(scale.to_f32() * f32::from(scales[at / 16]));
            let q = (nearest(x * steps, -4, 3) + 4) as u8;
            let (byte, shift) = place(at);
            block.q[byte] |= (q & 3) << shift;
            block.high[at % 32] |= q >> 2 << (at / 32);
        }
        block
    }
}
