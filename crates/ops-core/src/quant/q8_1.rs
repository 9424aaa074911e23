//! `q8_1`: 32 signed bytes with one scale and their sum. A format for activations.
use super::{Block, Encode, padded};
use crate::f16;

/// 32 values `scale · q`, `q` in −127..=127.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ8_1 {
    /// The scale of all values.
    pub scale: f16,
    /// The sum of the values. Products with minima use it; decoding ignores it.
    pub sum: f16,
    /// The values divided by the scale.
    pub q: [i8; 32],
}

impl Block for BlockQ8_1 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        values.iter_mut().zip(self.q).for_each(|(v, q)| *v = scale * f32::from(q));
    }
}

impl Encode for BlockQ8_1 {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        let scale = x.iter().fold(0.0f32, |m, v| m.max(v.abs())) / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let q = x.map(|v| (v * inverse).round() as i8);
        let sum = q.iter().map(|q| i32::from(*q)).sum::<i32>() as f32 * scale;
        BlockQ8_1 { scale: f16::from_f32(scale), sum: f16::from_f32(sum), q }
    }
}
