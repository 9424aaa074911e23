//! `q4_k`: 256 four-bit values in eight groups, each with a scale and a minimum of six bits.
use super::{Block, Encode, scales, search};
use crate::f16;

/// 256 values `scale · s · q − min · m`, `q` in 0..=15; `s` and `m` belong to a group of 32.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ4K {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The unit of the groups' minima.
    pub min: f16,
    /// Six bits each for the scales and minima of the groups.
    pub scales: [u8; 12],
    /// 32 bytes for each pair of groups: the low halves of the bytes belong to the first, the high halves to the second.
    pub q: [u8; 128],
}

impl Block for BlockQ4K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let (scale, min) = (self.scale.to_f32(), self.min.to_f32());
        for (j, values) in values.chunks_exact_mut(32).take(8).enumerate() {
            let (s, m) = scales::get(&self.scales, j);
            let (scale, min, shift) = (scale * f32::from(s), min * f32::from(m), j % 2 * 4);
            let bytes = &self.q[j / 2 * 32..][..32];
            values.iter_mut().zip(bytes).for_each(|(v, q)| *v = scale * f32::from(q >> shift & 15) - min);
        }
    }
}

impl Encode for BlockQ4K {
    fn quantize(values: &[f32]) -> Self {
        let groups = search::groups::<8>(values, 15, 63);
        let mut bytes = [0; 128];
        for (byte, pair) in bytes.chunks_exact_mut(32).zip(groups.q.chunks_exact(64)) {
            byte.iter_mut().enumerate().for_each(|(i, b)| *b = pair[i] | pair[i + 32] << 4);
        }
        let scales = scales::pack(groups.scales, groups.minima);
        BlockQ4K { scale: groups.scale, min: groups.min, scales, q: bytes }
    }
}
