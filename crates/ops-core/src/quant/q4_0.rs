//! `q4_0`: 32 four-bit values with one scale.
use super::{Block, Encode, decode_halves, padded};
use crate::f16;

/// 32 values `scale · (q − 8)`, `q` in 0..=15. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ4_0 {
    /// The scale of all values.
    pub scale: f16,
    /// Byte `i` holds value `i` in its low half and value `i + 16` in its high half.
    pub q: [u8; 16],
}

impl Block for BlockQ4_0 {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        decode_halves(values, &self.q, |_, q| scale * (f32::from(q) - 8.0));
    }
}

impl Encode for BlockQ4_0 {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        // The value of largest magnitude, with its sign, becomes -8: the range is -8..=7. Its magnitude is carried along, because
        // LLVM 19 drops the second `abs` from `v.abs() > extreme.abs()`.
        let larger = |(extreme, most): (f32, f32), v: &f32| {
            if v.abs() > most { (*v, v.abs()) } else { (extreme, most) }
        };
        let (extreme, _) = x.iter().fold((0.0, 0.0), larger);
        let scale = extreme / -8.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let code = |v: f32| ((v * inverse + 8.5) as u8).min(15);
        let mut q = [0; 16];
        for (i, byte) in q.iter_mut().enumerate() {
            *byte = code(x[i]) | code(x[i + 16]) << 4;
        }
        BlockQ4_0 { scale: f16::from_f32(scale), q }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_is_18_bytes_and_needs_two_byte_alignment() {
        assert_eq!((size_of::<BlockQ4_0>(), align_of::<BlockQ4_0>()), (18, 2));
    }

    #[test]
    fn the_extreme_value_is_kept_with_its_sign() {
        let mut x = [0.25f32; 32];
        x[20] = 4.0;
        let block = BlockQ4_0::quantize(&x);
        let mut y = [0.0; 32];
        block.dequantize(&mut y);
        assert_eq!(block.scale.to_f32(), -0.5);
        assert_eq!(y[20], 4.0);
        assert_eq!((block.q[4] & 15, block.q[4] >> 4), (8, 0));
    }
}
