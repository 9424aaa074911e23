//! `q8_0`: 32 signed bytes with one scale.
use super::{Block, Encode, padded};
use crate::f16;

/// 32 values `scale · q`, `q` in −127..=127.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ8_0 {
    /// The scale of all values.
    pub scale: f16,
    /// The values divided by the scale.
    pub q: [i8; 32],
}

impl Block for BlockQ8_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        for (v, q) in values.iter_mut().zip(self.q) {
            *v = scale * f32::from(q);
        }
    }
}

impl Encode for BlockQ8_0 {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        let amax = x.iter().fold(0.0f32, |m, v| m.max(v.abs()));
        let scale = amax / 127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        // Ties round away from zero, as in C's roundf.
        BlockQ8_0 { scale: f16::from_f32(scale), q: x.map(|v| (v * inverse).round() as i8) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_34_bytes_and_needs_two_byte_alignment() {
        assert_eq!((size_of::<BlockQ8_0>(), align_of::<BlockQ8_0>()), (34, 2));
    }

    #[test]
    fn values_return_within_half_a_step() {
        let x: Vec<f32> = (0..32).map(|i| (i as f32 - 15.5) * 0.3).collect();
        let block = BlockQ8_0::quantize(&x);
        let mut y = [0.0; 32];
        block.dequantize(&mut y);
        let step = block.scale.to_f32();
        assert!(x.iter().zip(y).all(|(a, b)| (a - b).abs() <= step * 0.51));
        assert_eq!(block.q[0], -127);
    }

    #[test]
    fn zeros_have_scale_zero() {
        assert_eq!(BlockQ8_0::quantize(&[0.0; 32]), BlockQ8_0 { scale: f16::ZERO, q: [0; 32] });
    }
}
