//! `iq3_s`: 256 values as entries of a grid of four, 3.44 bits each.
use super::iq::{four, write};
use super::{Block, iq_grids};
use crate::f16;

/// 256 values in groups of 32, each with a four-bit scale: `scale · (1 + 2 s) · entry`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq3S {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The low eight bits of the entries, one for four values.
    pub q: [u8; 64],
    /// The highest bits of the entries.
    pub high: [u8; 8],
    /// The signs of eight values in each byte.
    pub signs: [u8; 32],
    /// The scales of two groups in a byte.
    pub scales: [u8; 4],
}

impl Block for BlockIq3S {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        let level = |level: u16| 1.0 + 2.0 * f32::from(level);
        for (at, (values, q)) in values.chunks_mut(4).zip(self.q).enumerate() {
            let (group, high) = (at / 8, self.high[at / 8] >> (at % 8) & 1);
            let s = self.scales[group / 2] >> (group % 2 * 4) & 15;
            let entry = iq_grids::IQ3_S[usize::from(q) | usize::from(high) << 8];
            let signs = self.signs[at / 2] >> (at % 2 * 4);
            write(values, self.scale.to_f32() * (1.0 + 2.0 * f32::from(s)), &four(entry, level), signs);
        }
    }
}
