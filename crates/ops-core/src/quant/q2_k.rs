//! `q2_k`: 256 two-bit values in sixteen groups, each with a scale and a minimum of four bits.
use super::{Block, Encode, search};
use crate::{BlockInfo, DType, Element, f16};

/// 256 values `scale · s · q − min · m`, `q` in 0..=3; `s` and `m` belong to a group of 16.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ2K {
    /// The scale of each group in the low half, its minimum in the high half.
    pub scales: [u8; 16],
    /// 32 bytes for each half of the block: byte `i` holds the half's values `i`, `i + 32`, `i + 64` and `i +
    /// 96`.
    pub q: [u8; 64],
    /// The unit of the groups' scales.
    pub scale: f16,
    /// The unit of the groups' minima.
    pub min: f16,
}

/// The format of [`BlockQ2K`].
pub static Q2_K: BlockInfo = BlockInfo::of::<BlockQ2K>("q2_k").exact_in_bytes();

impl Element for BlockQ2K {
    const DTYPE: DType = DType::Block(&Q2_K);
}

/// The byte and the shift of the two bits of value `at`. `q3_k` stores its low bits in the same places.
pub(super) const fn place(at: usize) -> (usize, usize) {
    (at / 128 * 32 + at % 32, at % 128 / 32 * 2)
}

impl Block for BlockQ2K {
    const LEN: usize = 256;

    fn dequantize(&self, values: &mut [f32]) {
        for (j, (values, packed)) in values.chunks_mut(16).zip(self.scales).enumerate() {
            let scale = self.scale.to_f32() * f32::from(packed & 15);
            let min = self.min.to_f32() * f32::from(packed >> 4);
            for (i, v) in values.iter_mut().enumerate() {
                let (byte, shift) = place(j * 16 + i);
                *v = scale * f32::from(self.q[byte] >> shift & 3) - min;
            }
        }
    }
}

impl Encode for BlockQ2K {
    fn quantize(values: &[f32]) -> Self {
        let groups = search::groups::<16>(values, 3, 15);
        let scales = core::array::from_fn(|j| groups.scales[j] | groups.minima[j] << 4);
        let mut block = BlockQ2K { scales, q: [0; 64], scale: groups.scale, min: groups.min };
        for (at, code) in groups.q.iter().enumerate() {
            let (byte, shift) = place(at);
            block.q[byte] |= code << shift;
        }
        block
    }
}
