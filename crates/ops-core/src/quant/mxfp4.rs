//! `mxfp4`: 32 four-bit floats with a power of two as their scale (OCP Microscaling Formats 1.0).
use super::{Block, Encode, decode_halves, padded};

/// 32 values `2^(exponent − 127) · float(q)`. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockMxfp4 {
    /// The biased exponent of the scale.
    pub exponent: u8,
    /// Byte `i` holds value `i` in its low half and value `i + 16` in its high half.
    pub q: [u8; 16],
}

/// Twice the values of the sixteen codes: a sign, two bits of exponent and one of significand.
const DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// Half the scale, `2^(exponent − 128)`. For exponents 0 and 1 that is subnormal.
#[inline(always)]
fn half_scale(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 | 1 => 0x0020_0000 << exponent,
        normal => u32::from(normal - 1) << 23,
    })
}

impl Block for BlockMxfp4 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = half_scale(self.exponent);
        decode_halves(values, &self.q, |_, q| f32::from(DOUBLED[usize::from(q)]) * scale);
    }
}

impl Encode for BlockMxfp4 {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        let largest = x.iter().fold(0.0f32, |m, v| if v.abs() > m { v.abs() } else { m });
        // As in the public reference, the logarithm is rounded to f32 first, so it may reach the next power
        // of two.
        let exponent = (f64::from(largest).log2() as f32).floor() - 2.0 + 127.0;
        let exponent = if largest > 0.0 { exponent as i32 as u8 } else { 0 };
        let scale = half_scale(exponent);
        let codes = x.map(|v| nearest(v, scale));
        BlockMxfp4 { exponent, q: core::array::from_fn(|i| codes[i] | codes[i + 16] << 4) }
    }
}

/// The first of the codes nearest to `v`.
fn nearest(v: f32, scale: f32) -> u8 {
    let error = |q: usize| (f32::from(DOUBLED[q]) * scale - v).abs();
    (1..16).fold(0, |best, q| if error(q) < error(best) { q } else { best }) as u8
}
