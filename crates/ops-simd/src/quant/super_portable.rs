//! A row of super-blocks times rows of activations, in plain Rust.

use super::activations::Panel;
use super::super_blocks::{STEPS, SuperFormat, scales};
use crate::simd::portable::f16_bits_to_f32;

/// The products of one row of weights with `M` rows of activations.
pub(super) fn row<const M: usize>(format: SuperFormat, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    let mut out = [0.0; M];
    let mut blocks = x.blocks();
    for block in row.chunks_exact(format.block_bytes()) {
        let scales = scales(format, block, f16_bits_to_f32);
        for (s, x) in (0..STEPS).zip(&mut blocks) {
            let (codes, [low, high]) = (codes(format, block, s), scales.halves[s]);
            for (i, out) in out.iter_mut().enumerate() {
                let quants: &[i8] = bytemuck::cast_slice(&x.quants[i]);
                let products = |range: core::ops::Range<usize>| {
                    let pairs = codes[range.clone()].iter().zip(&quants[range]);
                    pairs.map(|(w, x)| i32::from(*w) * i32::from(*x)).sum::<i32>()
                };
                let sum = products(0..16) * i32::from(low) + products(16..32) * i32::from(high);
                let min = scales.min[s] * x.sums[i] as f32;
                *out += (scales.factor[s] * sum as f32 - min) * x.scales[i];
            }
        }
    }
    out
}

/// The codes of a step, without the offset of q6_k.
fn codes(format: SuperFormat, block: &[u8], s: usize) -> [i8; 32] {
    core::array::from_fn(|i| match format {
        SuperFormat::Q4K => (block[16 + s / 2 * 32 + i] >> (s % 2 * 4) & 15) as i8,
        SuperFormat::Q5K => {
            (block[48 + s / 2 * 32 + i] >> (s % 2 * 4) & 15 | (block[16 + i] >> s & 1) << 4) as i8
        }
        SuperFormat::Q6K => {
            let low = block[s / 4 * 64 + s % 2 * 32 + i] >> (s % 4 / 2 * 4) & 15;
            (low | (block[128 + s / 4 * 32 + i] >> (s % 4 * 2) & 3) << 4) as i8 - 32
        }
    })
}
