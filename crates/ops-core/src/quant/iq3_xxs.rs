//! `iq3_xxs`: 256 values as entries of a grid of four, 3.06 bits each.
use super::iq::{even_signs, four, word, write};
use super::{Block, iq_grids};
use crate::f16;

/// 256 values in groups of 32, each with a four-bit scale: `scale · (s + 1/2) / 2 · entry`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq3Xxs {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The entries, one for four values.
    pub q: [u8; 64],
    /// For each group, 28 bits of signs and the scale.
    pub signs: [[u8; 4]; 8],
}

impl Block for BlockIq3Xxs {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        let level = |level: u16| if level == 7 { 62.0 } else { 4.0 + 8.0 * f32::from(level) };
        for (group, (values, signs)) in values.chunks_mut(32).zip(&self.signs).enumerate() {
            let signs = word(signs);
            let scale = self.scale.to_f32() * (0.5 + (signs >> 28) as f32) * 0.5;
            for (l, values) in values.chunks_mut(4).enumerate() {
                let entry = iq_grids::IQ3_XXS[usize::from(self.q[group * 8 + l])];
                let signs = even_signs(signs >> (l / 2 * 7)) >> (l % 2 * 4);
                write(values, scale, &four(entry, level), signs);
            }
        }
    }
}
