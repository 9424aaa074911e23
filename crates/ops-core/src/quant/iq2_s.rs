//! `iq2_s`: 256 values as entries of a grid of eight, 2.56 bits each.
use super::iq::{eight, write};
use super::{Block, iq_grids};
use crate::f16;

/// 256 values in groups of 16, each with a four-bit scale: `scale · (s + 1/2) / 4 · entry`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq2S {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The low eight bits of the entries, one for eight values.
    pub q: [u8; 32],
    /// The signs of eight values in each byte.
    pub signs: [u8; 32],
    /// The high two bits of four entries in each byte.
    pub high: [u8; 8],
    /// The scales of two groups in a byte.
    pub scales: [u8; 8],
}

impl Block for BlockIq2S {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        for (at, (values, q)) in values.chunks_mut(8).zip(self.q).enumerate() {
            let (high, s) =
                (self.high[at / 4] >> (at % 4 * 2) & 3, self.scales[at / 4] >> (at / 2 % 2 * 4) & 15);
            let scale = self.scale.to_f32() * (0.5 + f32::from(s)) * 0.25;
            let entry = iq_grids::IQ2_S[usize::from(q) | usize::from(high) << 8];
            write(values, scale, &eight(entry), self.signs[at]);
        }
    }
}
