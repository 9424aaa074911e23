//! One row of activations, arranged for super-blocks in file order.

use super::activations::Activations;
use super::formats::{STEPS, SUPER_BLOCK, SuperFormat};
use super::panels::WORDS;
use crate::scratch::Scratch;

/// The activations that one super-block of weights is multiplied by.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
pub(super) struct Prepared {
    /// Words of quants in the order of the codes. For q6_k: steps in order. For q4_k and q5_k, of four steps at a time: the even
    /// ones, then the odd ones. For iq4_xs, of four steps at a time: the first half of each, then the second halves.
    pub(super) quants: [[i32; WORDS]; STEPS],
    /// For q6_k, the scale of each half of a step. Otherwise the scale of each step, then the factor that
    /// takes off the minimum of each step or, for iq4_xs, an offset of 128.
    pub(super) scales: [f32; 16],
    /// For q6_k, the factor that takes the offset of 32 off each half of a step.
    pub(super) offsets: [f32; 16],
}

/// The place of step `s` in the order 0, 2, 1, 3, 4, 6, 5, 7.
pub(super) const fn even_first(s: usize) -> usize {
    s / 4 * 4 + s % 2 * 2 + s % 4 / 2
}

/// The place, among all words of a super-block, of half `h` of step `s`.
pub(super) fn place(format: SuperFormat, s: usize, h: usize) -> usize {
    let half = WORDS / 2;
    match format {
        SuperFormat::Iq4Xs => (s / 4 * 4 + h * 2) * WORDS + s % 4 * half,
        SuperFormat::Q6K => s * WORDS + h * half,
        _ => even_first(s) * WORDS + h * half,
    }
}

/// Arranges all rows of the activations, one after the other, for weights in this format.
pub(super) fn prepare(format: SuperFormat, x: &Activations) -> Scratch<Prepared> {
    let blocks = x.k() / SUPER_BLOCK;
    let mut out = Scratch::<Prepared>::new(x.rows() * blocks);
    for (b, out) in out.iter_mut().enumerate() {
        let quants = out.quants.as_flattened_mut();
        for s in 0..STEPS {
            let (words, scale, offsets) = x.step(b / blocks, b % blocks * STEPS + s);
            for (h, words) in words.chunks_exact(WORDS / 2).enumerate() {
                quants[place(format, s, h)..][..WORDS / 2].copy_from_slice(words);
            }
            if format == SuperFormat::Q6K {
                out.scales[2 * s..][..2].fill(scale);
                out.offsets[2 * s..][..2].copy_from_slice(&offsets.halves.map(|minus| 32.0 * minus));
            } else {
                let offset = if format == SuperFormat::Iq4Xs { 128.0 } else { 1.0 };
                (out.scales[s], out.scales[STEPS + s]) = (scale, offset * offsets.minus);
            }
        }
    }
    out
}
