//! Rows of any format as q8_0 blocks, for products with many rows of activations.

use super::blocks::{BLOCK, check};
use super::formats::marker::Q8_0;
use super::formats::{Marker, TileFormat};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{MAX_LANES, Simd, VectorFn};
use half::f16;

/// The largest magnitude of a row is this power of two once it has been divided by the row's factor. Blocks
/// whose weights are all up to 2²³ times smaller still have normal scales.
const TOP: i32 = 14;

/// Quantizes a row of weights to q8_0 blocks and returns the power of two that their scales must be multiplied by. The factor
/// keeps the scales, which are f16, in their range. The NMSE of normal values is 3e-5.
///
/// A block with an infinite weight keeps only the infinities; a block with a NaN becomes NaN.
///
/// # Errors
/// [`Error::Multiple`] if the length is not a multiple of 32; [`Error::Length`] if `out` has another number of blocks.
pub fn requantize(isa: Isa, x: &[f32], out: &mut [u8]) -> Result<f32, Error> {
    check(TileFormat::Q8_0.block_bytes(), out.len(), 1, x.len())?;
    same_len("blocks", out.len() / Q8_0::BYTES, x.len() / BLOCK)?;
    Ok(isa.run(Requantize { x, out: out.as_chunks_mut().0 }))
}

struct Requantize<'a> {
    x: &'a [f32],
    out: &'a mut [[u8; Q8_0::BYTES]],
}

impl VectorFn for Requantize<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> f32 {
        let blocks = self.x.as_chunks::<BLOCK>().0;
        // Infinities and NaN are left out.
        let finite = |bits: u32| if bits < f32::INFINITY.to_bits() { bits } else { 0 };
        let mut top = 0;
        for (x, out) in blocks.iter().zip(&mut *self.out) {
            let here = largest(s, x);
            // Each block's own magnitude is kept where its first weights will be.
            out[..4].copy_from_slice(&here.to_le_bytes());
            let rest = || x.iter().map(|x| finite(x.abs().to_bits())).fold(0, u32::max);
            top = top.max(if finite(here) == here { here } else { rest() });
        }
        // The exponent of the largest weight; subnormal weights count as the smallest normal one.
        let exponent = (((top >> 23) as i32 - 127) - TOP).max(-126);
        let (factor, inverse) = (power(exponent), power(-exponent));
        for (x, out) in blocks.iter().zip(self.out) {
            let top = f32::from_le_bytes([out[0], out[1], out[2], out[3]]);
            block(s, x, top, inverse, out);
        }
        factor
    }
}

/// 2ⁿ for n in [−126, 127].
#[inline(always)]
fn power(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

/// The bits of the largest magnitude. Compared as integers, magnitudes sort as numbers do, and every NaN sorts after infinity.
#[inline(always)]
fn largest<S: Simd>(s: S, x: &[f32; BLOCK]) -> u32 {
    let mut sizes = [0.0f32; BLOCK];
    for (x, size) in x.chunks_exact(S::LANES).zip(sizes.chunks_exact_mut(S::LANES)) {
        s.store(size, s.abs(s.load(x)));
    }
    sizes.iter().fold(0, |most, x| most.max(x.to_bits()))
}

/// Quantizes a block of `inverse` times `x`, whose largest magnitude is `top`.
#[inline(always)]
fn block<S: Simd>(s: S, x: &[f32; BLOCK], top: f32, inverse: f32, out: &mut [u8; Q8_0::BYTES]) {
    let (scale, quants) = out.split_at_mut(2);
    if !top.is_finite() {
        let (mark, of): (_, fn(&f32) -> i8) = if top.is_nan() {
            (f16::NAN, |_| 1)
        } else {
            (f16::INFINITY, |x| if x.is_infinite() { x.signum() as i8 } else { 0 })
        };
        scale.copy_from_slice(&mark.to_le_bytes());
        quants.iter_mut().zip(x).for_each(|(q, x)| *q = of(x) as u8);
        return;
    }
    let half = s.f32_to_f16(s.splat(top * inverse * (1.0 / 127.0)));
    let mut bits = [0; MAX_LANES];
    s.store_half(&mut bits, half);
    scale.copy_from_slice(&bits[0].to_le_bytes());
    // A block far below the row's largest weight becomes zero.
    let (rounded, zero) = (s.f16_to_f32(half), s.splat(0.0));
    let step = s.select(s.eq(rounded, zero), zero, s.div(s.splat(1.0), rounded));
    let (inverse, limit) = (s.splat(inverse), s.splat(127.0));
    let mut wide = [0.0f32; BLOCK];
    for (x, wide) in x.chunks_exact(S::LANES).zip(wide.chunks_exact_mut(S::LANES)) {
        // Their product may overflow, and a scale that was rounded down may give more than 127.
        let q = s.max_raw(s.neg(limit), s.min_raw(limit, s.mul(s.mul(s.load(x), inverse), step)));
        // The integers as bits of f32.
        s.store(wide, s.from_bits(s.to_i32(q)));
    }
    quants.iter_mut().zip(wide).for_each(|(quant, q)| *quant = q.to_bits() as u8);
}
