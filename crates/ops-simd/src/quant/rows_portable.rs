//! Rows of blocks times rows of activations, in plain Rust.

use super::activations::Panel;
use super::blocks::scale_bits;
use super::formats::{Marker, TileFormat};
use crate::simd::portable::f16_bits_to_f32;

/// Σ over blocks of scale · scale · Σ quant · quant, for `R` rows of blocks and `M` rows of activations.
#[inline(never)]
pub(super) fn rows<const M: usize, const R: usize, F: Marker<TileFormat>>(
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    let mut out = [[0.0; M]; R];
    for (row, out) in rows.into_iter().zip(&mut out) {
        for (block, x) in F::blocks(row).iter().zip(x.blocks()) {
            let (weights, scale) = (signed::<F>(block), f16_bits_to_f32(scale_bits(block.as_ref())));
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
fn signed<F: Marker<TileFormat>>(block: &F::Block) -> [i8; 32] {
    let mut quants = [0; 32];
    if F::FORMAT == TileFormat::Q8_0 {
        quants.iter_mut().zip(&block.as_ref()[2..]).for_each(|(q, b)| *q = *b as i8);
        return quants;
    }
    let (low, high) = quants.split_at_mut(16);
    for ((low, high), b) in low.iter_mut().zip(high).zip(&block.as_ref()[2..]) {
        (*low, *high) = ((b & 15) as i8 - 8, (b >> 4) as i8 - 8);
    }
    quants
}
