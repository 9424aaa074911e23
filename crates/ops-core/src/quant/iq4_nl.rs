//! `iq4_nl`: 32 four-bit indices of sixteen uneven levels, with one scale.
use super::search::{inverse, signed_scale_by};
use super::{Block, Encode, decode_halves, padded};
use crate::f16;

/// The levels of `iq4_nl` and `iq4_xs`: closer to each other near zero, where most weights are.
pub const IQ4_LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// 32 values `scale · level[q]`. The low halves of the bytes come first, then the high halves.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockIq4Nl {
    /// The scale of all values.
    pub scale: f16,
    /// Byte `i` holds value `i` in its low half and value `i + 16` in its high half.
    pub q: [u8; 16],
}

/// The index of the nearest level; NaN gives the first.
pub(super) fn nearest_level(v: f32) -> u8 {
    let above = IQ4_LEVELS.windows(2).take_while(|pair| 2.0 * v > f32::from(pair[0]) + f32::from(pair[1]));
    above.count() as u8
}

/// The scale of a group of values.
pub(super) fn fit(x: &[f32]) -> f32 {
    signed_scale_by(x, 127.0, 1.0, |v| level(nearest_level(v)))
}

/// The level at an index.
#[inline(always)]
pub(super) fn level(q: u8) -> f32 {
    f32::from(IQ4_LEVELS[usize::from(q & 15)])
}

impl Block for BlockIq4Nl {
    const LEN: usize = 32;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        let scale = self.scale.to_f32();
        decode_halves(values, &self.q, |_, q| scale * level(q));
    }
}

impl Encode for BlockIq4Nl {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<32>(values);
        let scale = f16::from_f32(fit(&x));
        let codes = x.map(|v| nearest_level(v * inverse(scale.to_f32())));
        BlockIq4Nl { scale, q: core::array::from_fn(|i| codes[i] | codes[i + 16] << 4) }
    }
}
