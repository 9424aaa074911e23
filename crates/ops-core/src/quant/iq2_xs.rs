//! `iq2_xs`: 256 values as entries of a grid of eight, 2.31 bits each.
use super::iq::{eight, even_signs, write};
use super::{Block, iq_grids};
use crate::f16;

/// 256 values in groups of 16, each with a four-bit scale: `scale · (s + 1/2) / 4 · entry`.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq2Xs {
    /// The unit of the groups' scales.
    pub scale: f16,
    /// Little-endian words, one for eight values: nine bits for the entry, seven for signs.
    pub q: [[u8; 2]; 32],
    /// The scales of two groups in a byte.
    pub scales: [u8; 16 / 2],
}

impl Block for BlockIq2Xs {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        for (at, (values, q)) in values.chunks_mut(8).zip(self.q).enumerate() {
            let (q, s) = (u16::from_le_bytes(q), self.scales[at / 4] >> (at / 2 % 2 * 4) & 15);
            let scale = self.scale.to_f32() * (0.5 + f32::from(s)) * 0.25;
            write(
                values,
                scale,
                &eight(iq_grids::IQ2_XS[usize::from(q & 511)]),
                even_signs(u32::from(q >> 9)),
            );
        }
    }
}
