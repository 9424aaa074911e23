//! `q5_0`: 32 five-bit values with one scale.
use super::{Block, Encode, decode_halves, padded};
use crate::f16;

/// 32 values `scale · (q − 16)`, `q` in 0..=31. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ5_0 {
    /// The scale of all values.
    pub scale: f16,
    /// The values' highest bits: bit `i` of the little-endian word belongs to value `i`.
    pub high: [u8; 4],
    /// Byte `i` holds the low four bits of value `i` in its low half and those of value `i + 16` in its high half.
    pub q: [u8; 16],
}

impl Block for BlockQ5_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        let high = u32::from_le_bytes(self.high);
        decode_halves(values, &self.q, |i, q| scale * (five_bits(high, i, q) - 16.0));
    }
}

impl Encode for BlockQ5_0 {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        let larger = |(extreme, most): (f32, f32), v: &f32| {
            if v.abs() > most { (*v, v.abs()) } else { (extreme, most) }
        };
        // The value of largest magnitude, with its sign, becomes -16.
        let (extreme, _) = x.iter().fold((0.0, 0.0), larger);
        let scale = extreme / -16.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let (high, q) = packed(x.map(|v| ((v * inverse + 16.5) as u8).min(31)));
        BlockQ5_0 { scale: f16::from_f32(scale), high, q }
    }
}

/// The five-bit code of value `i`, whose lower bits are `low`.
#[inline(always)]
pub(super) fn five_bits(high: u32, i: usize, low: u8) -> f32 {
    // Signed, because there is no vector instruction for unsigned integers before AVX-512.
    (u32::from(low) | (high >> i & 1) << 4).cast_signed() as f32
}

/// Five-bit codes as they are stored.
pub(super) fn packed(codes: [u8; 32]) -> ([u8; 4], [u8; 16]) {
    let high = (0..32).fold(0u32, |bits, i| bits | u32::from(codes[i] >> 4 & 1) << i);
    (high.to_le_bytes(), core::array::from_fn(|i| codes[i] & 15 | codes[i + 16] << 4))
}
