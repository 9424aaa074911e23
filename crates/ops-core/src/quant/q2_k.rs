//! `q2_k`: 256 two-bit values in sixteen groups, each with a scale and a minimum of four bits.
use super::{Block, Encode, search};
use crate::f16;

/// 256 values `scale · s · q − min · m`, `q` in 0..=3; `s` and `m` belong to a group of 16.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// The scale of each group in the low half, its minimum in the high half.
    pub scales: [u8; 16],
    /// 32 bytes for each half of the block: byte `i` holds the half's values `i`, `i + 32`, `i + 64` and `i +
    /// 96`.
    pub q: [u8; 64],
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The unit of the groups' minima.
    pub min: f16,
}

/// The byte and the shift of the two bits of value `at`. `q3_k` stores its low bits in the same places.
pub(super) const fn place(at: usize) -> (usize, usize) {
    (at / 128 * 32 + at % 32, at % 128 / 32 * 2)
}

impl Block for BlockQ2K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let (scale, min) = (self.scale.to_f32(), self.min.to_f32());
        // Two groups at a time, whose codes are in the same bits of bytes that follow each other.
        for (pair, values) in values.chunks_exact_mut(32).take(8).enumerate() {
            let groups = [0, 1].map(|j| {
                let packed = self.scales[2 * pair + j];
                (scale * f32::from(packed & 15), min * f32::from(packed >> 4))
            });
            let (byte, shift) = place(pair * 32);
            for (i, (v, q)) in values.iter_mut().zip(&self.q[byte..byte + 32]).enumerate() {
                let (scale, min) = if i < 16 { groups[0] } else { groups[1] };
                *v = scale * f32::from(q >> shift & 3) - min;
            }
        }
    }
}

impl Encode for BlockQ2K {
    fn quantize(values: &[f32]) -> Self {
        let groups = search::groups::<16>(values, 3, 15);
        let scales = core::array::from_fn(|j| groups.scales[j] | groups.minima[j] << 4);
        let mut block = BlockQ2K { scales, q: [0; 64], scale: groups.scale, min: groups.min };
        for (at, code) in groups.q.iter().enumerate() {
            let (byte, shift) = place(at);
            block.q[byte] |= code << shift;
        }
        block
    }
}
