//! `q6_k`: 256 six-bit values in sixteen groups, each with an eight-bit scale.
use super::search::{inverse, nearest, scales_in_units, signed_scale, signed_scales};
use super::{Block, Encode, padded};
use crate::f16;

/// 256 values `scale · s · (q − 32)`, `q` in 0..=63; `s` belongs to a group of 16.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ6K {
    /// The low four bits of the values: 64 bytes for each half of the block, with the half's values 0 to 63
    /// in the low halves.
    pub low: [u8; 128],
    /// The high two bits: of the 32 bytes for each half of the block, byte `i` holds those of values `i`, `i
    /// + 32`, `i + 64` and `i + 96`.
    pub high: [u8; 64],
    /// The groups' scales.
    pub scales: [i8; 16],
    /// The unit of the groups' scales.
    pub scale: f16,
}

/// Where value `at` is stored: the byte and shift of its low bits, and of its high bits.
const fn place(at: usize) -> ((usize, usize), (usize, usize)) {
    let (half, i) = (at / 128, at % 128);
    ((half * 64 + i % 64, i / 64 * 4), (half * 32 + i % 32, i / 32 * 2))
}

impl Block for BlockQ6K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        // Two groups at a time, whose codes are in the same bits of bytes that follow each other.
        for (pair, values) in values.chunks_exact_mut(32).take(8).enumerate() {
            let scales = [0, 1].map(|j| scale * f32::from(self.scales[2 * pair + j]));
            let ((low, low_shift), (high, high_shift)) = place(pair * 32);
            let bytes = self.low[low..low + 32].iter().zip(&self.high[high..high + 32]);
            for (i, (v, (low, high))) in values.iter_mut().zip(bytes).enumerate() {
                let q = low >> low_shift & 15 | (high >> high_shift & 3) << 4;
                *v = (if i < 16 { scales[0] } else { scales[1] }) * (f32::from(q) - 32.0);
            }
        }
    }
}

impl Encode for BlockQ6K {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<256>(values);
        let (scale, scales) = scales_in_units::<16>(signed_scales(&x, |x| signed_scale(x, 32)), 128);
        let mut block = BlockQ6K { low: [0; 128], high: [0; 64], scales, scale };
        for (at, x) in x.iter().enumerate() {
            let steps = inverse(scale.to_f32() * f32::from(scales[at / 16]));
            let q = (nearest(x * steps, -32, 31) + 32) as u8;
            let ((low, low_shift), (high, high_shift)) = place(at);
            block.low[low] |= (q & 15) << low_shift;
            block.high[high] |= q >> 4 << high_shift;
        }
        block
    }
}
