//! `q5_1`: 32 five-bit values with a scale and a minimum.
use super::q4_1::from_range;
use super::q5_0::{five_bits, packed};
use super::{Block, Encode, decode_halves};
use crate::f16;

/// 32 values `scale · q + min`, `q` in 0..=31. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ5_1 {
    /// The scale of all values.
    pub scale: f16,
    /// The smallest value.
    pub min: f16,
    /// The values' highest bits: bit `i` of the little-endian word belongs to value `i`.
    pub high: [u8; 4],
    /// Byte `i` holds the low four bits of value `i` in its low half and those of value `i + 16` in its high half.
    pub q: [u8; 16],
}

impl Block for BlockQ5_1 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let (scale, min) = (self.scale.to_f32(), self.min.to_f32());
        let high = u32::from_le_bytes(self.high);
        decode_halves(values, &self.q, |i, q| scale * five_bits(high, i, q) + min);
    }
}

impl Encode for BlockQ5_1 {
    fn quantize(values: &[f32]) -> Self {
        let (scale, min, codes) = from_range(values, 31);
        let (high, q) = packed(codes);
        BlockQ5_1 { scale: f16::from_f32(scale), min: f16::from_f32(min), high, q }
    }
}
