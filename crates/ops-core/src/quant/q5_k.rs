//! `q5_k`: 256 five-bit values in eight groups, each with a scale and a minimum of six bits.
use super::{Block, Encode, scales, search};
use crate::f16;

/// 256 values `scale · s · q − min · m`, `q` in 0..=31; `s` and `m` belong to a group of 32.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ5K {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The unit of the groups' minima.
    pub min: f16,
    /// Six bits each for the scales and minima of the groups.
    pub scales: [u8; 12],
    /// Bit `j` of byte `i` is the highest bit of value `i` of group `j`.
    pub high: [u8; 32],
    /// The low four bits: 32 bytes for each pair of groups, the first in the low halves.
    pub q: [u8; 128],
}

impl Block for BlockQ5K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let (scale, min) = (self.scale.to_f32(), self.min.to_f32());
        for (j, values) in values.chunks_exact_mut(32).take(8).enumerate() {
            let (s, m) = scales::get(&self.scales, j);
            let (scale, min, shift) = (scale * f32::from(s), min * f32::from(m), j % 2 * 4);
            let bytes = self.q[j / 2 * 32..][..32].iter().zip(&self.high);
            for (v, (low, high)) in values.iter_mut().zip(bytes) {
                *v = scale * f32::from(low >> shift & 15 | (high >> j & 1) << 4) - min;
            }
        }
    }
}

impl Encode for BlockQ5K {
    fn quantize(values: &[f32]) -> Self {
        let groups = search::groups::<8>(values, 31, 63);
        let scales = scales::pack(groups.scales, groups.minima);
        let mut block = BlockQ5K { scale: groups.scale, min: groups.min, scales, high: [0; 32], q: [0; 128] };
        for (at, code) in groups.q.iter().enumerate() {
            let (j, i) = (at / 32, at % 32);
            block.q[j / 2 * 32 + i] |= (code & 15) << (j % 2 * 4);
            block.high[i] |= code >> 4 << j;
        }
        block
    }
}
