//! `iq2_xxs`: 256 values as entries of a grid of eight, 2.06 bits each.
use super::iq::{eight, even_signs, word, write};
use super::{Block, iq_grids};
use crate::f16;

/// 256 values in groups of 32, each with a four-bit scale: `scale · (s + 1/2) / 4 · entry`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq2Xxs {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// Eight bytes for each group: four entries, then 28 bits of signs and the scale.
    pub q: [[u8; 8]; 8],
}

impl Block for BlockIq2Xxs {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        for (values, q) in values.chunks_mut(32).zip(&self.q) {
            let signs = word(&q[4..]);
            let scale = self.scale.to_f32() * (0.5 + (signs >> 28) as f32) * 0.25;
            for (l, values) in values.chunks_mut(8).enumerate() {
                let entry = iq_grids::IQ2_XXS[usize::from(q[l])];
                write(values, scale, &eight(entry), even_signs(signs >> (7 * l)));
            }
        }
    }
}
