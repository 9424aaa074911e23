//! `q4_1`: 32 four-bit values with a scale and a minimum.
use super::{Block, Encode, decode_halves, padded};
use crate::f16;

/// 32 values `scale · q + min`, `q` in 0..=15. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ4_1 {
    /// The scale of all values.
    pub scale: f16,
    /// The smallest value.
    pub min: f16,
    /// Byte `i` holds value `i` in its low half and value `i + 16` in its high half.
    pub q: [u8; 16],
}

impl Block for BlockQ4_1 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let (scale, min) = (self.scale.to_f32(), self.min.to_f32());
        decode_halves(values, &self.q, |_, q| scale * f32::from(q) + min);
    }
}

impl Encode for BlockQ4_1 {
    fn quantize(values: &[f32]) -> Self {
        let (scale, min, codes) = from_range(values, 15);
        let code = |i: usize| codes[i].min(15);
        let q = core::array::from_fn(|i| code(i) | code(i + 16) << 4);
        BlockQ4_1 { scale: f16::from_f32(scale), min: f16::from_f32(min), q }
    }
}

/// Scale, minimum and codes of 32 values whose smallest gets code 0 and whose largest gets `most`.
pub(super) fn from_range(values: &[f32], most: u8) -> (f32, f32, [u8; 32]) {
    let x = padded::<32>(values);
    // Comparisons as in the public reference, which ignores NaN.
    let (low, high) = x.iter().fold((f32::MAX, -f32::MAX), |(low, high), v| {
        (if *v < low { *v } else { low }, if *v > high { *v } else { high })
    });
    let scale = (high - low) / f32::from(most);
    let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
    (scale, low, x.map(|v| ((v - low) * inverse + 0.5) as u8))
}
