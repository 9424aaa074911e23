//! A row of super-blocks times a row of activations, in plain Rust.

use super::formats::{LEVELS, STEPS, SuperFormat};
use super::one_row::{Prepared, place};
use crate::simd::portable::f16_bits_to_f32;

/// The product of a row of weights and a row of activations.
pub(super) fn product(format: SuperFormat, row: &[u8], x: &[Prepared]) -> f32 {
    let mut out = 0.0;
    for (block, x) in row.chunks_exact(format.block_bytes()).zip(x) {
        let (quants, unit) = (x.quants.as_flattened(), Unit { format, block });
        for s in 0..STEPS {
            let sums = [0, 1].map(|h| {
                let words = &quants[place(format, s, h)..][..4];
                let pairs = unit.codes(s, h).into_iter().zip(bytemuck::cast_slice::<i32, i8>(words));
                pairs.map(|(w, x)| i32::from(w) * i32::from(*x)).sum::<i32>()
            });
            let (d, [low, high]) = unit.scales(s);
            let sum = d * (sums[0] * low + sums[1] * high) as f32;
            out += match format {
                SuperFormat::Q6K => sum * x.scales[2 * s],
                _ => sum * x.scales[s] + unit.minimum(s) * x.scales[STEPS + s],
            };
        }
    }
    out
}

/// A super-block.
struct Unit<'a> {
    format: SuperFormat,
    block: &'a [u8],
}

impl Unit<'_> {
    fn half(&self, at: usize) -> f32 {
        f16_bits_to_f32(u16::from_le_bytes([self.block[at], self.block[at + 1]]))
    }

    /// The unit of a step's scales, and the scale of each half.
    fn scales(&self, s: usize) -> (f32, [i32; 2]) {
        let b = self.block;
        match self.format {
            SuperFormat::Q6K => (self.half(208), [0, 1].map(|h| i32::from(b[192 + 2 * s + h] as i8))),
            SuperFormat::Iq4Xs => {
                let high = u16::from_le_bytes([b[2], b[3]]) >> (2 * s) & 3;
                let scale = i32::from(b[4 + s / 2] >> (s % 2 * 4) & 15) | i32::from(high) << 4;
                (self.half(0), [scale - 32; 2])
            }
            _ => {
                let scale = if s < 4 { b[4 + s] & 63 } else { b[8 + s] & 15 | b[s] >> 6 << 4 };
                (self.half(0), [i32::from(scale); 2])
            }
        }
    }

    /// The minimum of a step.
    fn minimum(&self, s: usize) -> f32 {
        let b = self.block;
        match self.format {
            SuperFormat::Iq4Xs => 0.0,
            _ => {
                self.half(2)
                    * f32::from(if s < 4 { b[8 + s] & 63 } else { b[8 + s] >> 4 | b[4 + s] >> 6 << 4 })
            }
        }
    }

    /// The codes of half `h` of step `s`, without their offsets.
    fn codes(&self, s: usize, h: usize) -> [i8; 16] {
        let b = self.block;
        core::array::from_fn(|i| {
            let at = 16 * h + i;
            match self.format {
                SuperFormat::Q4K => (b[16 + s / 2 * 32 + at] >> (s % 2 * 4) & 15) as i8,
                SuperFormat::Q5K => {
                    (b[48 + s / 2 * 32 + at] >> (s % 2 * 4) & 15 | (b[16 + at] >> s & 1) << 4) as i8
                }
                SuperFormat::Q6K => {
                    let low = b[s / 4 * 64 + s % 2 * 32 + at] >> (s % 4 / 2 * 4) & 15;
                    (low | (b[128 + s / 4 * 32 + at] >> (s % 4 * 2) & 3) << 4) as i8 - 32
                }
                SuperFormat::Iq4Xs => (LEVELS[usize::from(b[8 + 16 * s + i] >> (4 * h) & 15)] ^ 0x80) as i8,
            }
        })
    }
}
