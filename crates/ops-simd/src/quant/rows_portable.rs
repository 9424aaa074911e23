//! Rows of blocks times rows of activations, in plain Rust.

use super::activations::Panel;
use super::blocks::{Q8_0_BYTES, scale_bits};
use crate::simd::portable::f16_bits_to_f32;

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks of `SIZE` bytes and `M` rows of activations.
#[inline(never)]
pub(super) fn rows<const M: usize, const R: usize, const SIZE: usize>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let mut out = [[0.0; M]; R];
    for (row, out) in rows.into_iter().zip(&mut out) {
        for (block, x) in row.as_chunks::<SIZE>().0.iter().zip(x.blocks()) {
            let (weights, scale) = (signed(block), f16_bits_to_f32(scale_bits(block)));
            for (i, out) in out.iter_mut().enumerate() {
                let x_quants: &[i8] = bytemuck::cast_slice(&x.quants[i]);
                let products = weights.iter().zip(x_quants).map(|(w, x)| i32::from(*w) * i32::from(*x));
                *out += products.sum::<i32>() as f32 * (scale * x.scales[i]);
            }
        }
    }
    out
}

/// The quants of a block.
#[inline(always)]
fn signed<const SIZE: usize>(block: &[u8; SIZE]) -> [i8; 32] {
    let mut quants = [0; 32];
    if SIZE == Q8_0_BYTES {
        quants.iter_mut().zip(&block[2..]).for_each(|(q, b)| *q = *b as i8);
        return quants;
    }
    let (low, high) = quants.split_at_mut(16);
    for ((low, high), b) in low.iter_mut().zip(high).zip(&block[2..]) {
        (*low, *high) = ((b & 15) as i8 - 8, (b >> 4) as i8 - 8);
    }
    quants
}
