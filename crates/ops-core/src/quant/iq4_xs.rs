//! `iq4_xs`: 256 four-bit indices of sixteen uneven levels in eight groups, each with a six-bit scale.
use super::iq4_nl::{fit, level, nearest_level};
use super::search::{inverse, scales_in_units, signed_scales};
use super::{Block, Encode, decode_halves, padded};
use crate::f16;

/// 256 values `scale · (s − 32) · level[q]`; `s` in 0..=63 belongs to a group of 32. The levels are those of
/// [`IQ4_LEVELS`](super::IQ4_LEVELS).
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq4Xs {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The high two bits of the scales: little-endian, two bits for each group.
    pub scales_high: [u8; 2],
    /// The low four bits of the scales, two groups in a byte.
    pub scales_low: [u8; 4],
    /// Sixteen bytes for each group: the low halves of the bytes come first, then the high halves.
    pub q: [u8; 128],
}

impl Block for BlockIq4Xs {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        for (j, (values, q)) in values.chunks_mut(32).zip(self.q.as_chunks::<16>().0).enumerate() {
            let low = self.scales_low[j / 2] >> (j % 2 * 4) & 15;
            let high = self.scales_high[j / 4] >> (j % 4 * 2) & 3;
            let scale = self.scale.to_f32() * (f32::from(low | high << 4) - 32.0);
            decode_halves(values, q, |_, q| scale * level(q));
        }
    }
}

impl Encode for BlockIq4Xs {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<256>(values);
        let (scale, scales) = scales_in_units::<8>(signed_scales(&x, fit), 32);
        let mut block = BlockIq4Xs { scale, scales_high: [0; 2], scales_low: [0; 4], q: [0; 128] };
        for (j, s) in scales.iter().enumerate() {
            let (steps, stored) = (inverse(scale.to_f32() * f32::from(*s)), (s + 32) as u8);
            block.scales_low[j / 2] |= (stored & 15) << (j % 2 * 4);
            block.scales_high[j / 4] |= stored >> 4 << (j % 4 * 2);
            for (i, byte) in block.q[j * 16..][..16].iter_mut().enumerate() {
                let code = |i: usize| nearest_level(x[j * 32 + i] * steps);
                *byte = code(i) | code(i + 16) << 4;
            }
        }
        block
    }
}
