//! A row of table codes times rows of activations, in plain Rust.

use super::activations::Panel;
use super::formats::LookupFormat;
use crate::simd::portable::f16_bits_to_f32;

/// The products of one row of weights with `M` rows of activations.
pub(super) fn row<const M: usize>(format: LookupFormat, row: &[u8], x: Panel<'_, M>) -> [f32; M] {
    let (mut out, levels) = ([0.0; M], format.levels());
    let mut blocks = x.blocks();
    format.each_step(row, f16_bits_to_f32, |(factor, codes)| {
        let Some(x) = blocks.next() else { return };
        for (i, out) in out.iter_mut().enumerate() {
            let (low, high) = bytemuck::cast_slice::<i32, i8>(&x.quants[i]).split_at(codes.len());
            let level = |code: u8, x: &i8| i32::from(levels[usize::from(code)]) * i32::from(*x);
            let products =
                codes.iter().zip(low.iter().zip(high)).map(|(c, (a, b))| level(c & 15, a) + level(c >> 4, b));
            *out += factor * products.sum::<i32>() as f32 * x.scales[i];
        }
    });
    out
}
