//! `q8_k`: 256 signed bytes with one f32 scale and the sums of their groups. A format for activations.
use super::{Block, Encode, padded};

/// 256 values `scale · q`, `q` in −127..=127.
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
pub struct BlockQ8K {
    /// The scale of all values.
    pub scale: f32,
    /// The values divided by the scale.
    pub q: [i8; 256],
    /// The sums of `q` in groups of 16. Products with minima use them; decoding ignores them.
    pub sums: [i16; 16],
}

impl Block for BlockQ8K {
    const LEN: usize = 256;

    #[inline(always)]
    fn dequantize(&self, values: &mut [f32]) {
        values.iter_mut().zip(self.q).for_each(|(v, q)| *v = self.scale * f32::from(q));
    }
}

impl Encode for BlockQ8K {
    fn quantize(values: &[f32]) -> Self {
        let x = padded::<256>(values);
        let larger = |(extreme, most): (f32, f32), v: &f32| {
            if v.abs() > most { (*v, v.abs()) } else { (extreme, most) }
        };
        // The value of largest magnitude becomes -127.
        let (extreme, _) = x.iter().fold((0.0, 0.0), larger);
        let scale = extreme / -127.0;
        let inverse = if scale == 0.0 { 0.0 } else { 1.0 / scale };
        let q = x.map(|v| (v * inverse).round_ties_even().clamp(-127.0, 127.0) as i8);
        let sums = core::array::from_fn(|j| q[16 * j..][..16].iter().map(|q| i16::from(*q)).sum());
        BlockQ8K { scale, q, sums }
    }
}
