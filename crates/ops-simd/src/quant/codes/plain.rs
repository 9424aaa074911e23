//! Plain Rust.

use super::super::activations::Panel;
use super::words::{Lanes, Target, Vector, Words};
use super::{Format, Kind, Step, unpack_on};
use crate::simd::portable::f16_bits_to_f32;

#[derive(Clone, Copy)]
struct Plain;

/// Computes on each word.
#[inline(always)]
fn each(mut a: Words, b: Words, f: impl Fn(u32, u32) -> u32) -> Words {
    for (a, b) in a.0.iter_mut().zip(b.0) {
        *a = f(*a, b);
    }
    a
}

/// Computes on the bits of floats.
#[inline(always)]
fn floats(a: Words, b: Words, f: impl Fn(f32, f32) -> f32) -> Words {
    each(a, b, |a, b| f(f32::from_bits(a), f32::from_bits(b)).to_bits())
}

impl Vector for Words {
    fn load(words: Words) -> Self {
        words
    }
    fn store(self) -> Words {
        self
    }
    fn splat(word: u32) -> Self {
        Words([word; 16])
    }
    fn and(self, other: Self) -> Self {
        each(self, other, |a, b| a & b)
    }
    fn or(self, other: Self) -> Self {
        each(self, other, |a, b| a | b)
    }
    fn xor(self, other: Self) -> Self {
        each(self, other, |a, b| a ^ b)
    }
    fn plus(self, other: Self) -> Self {
        each(self, other, u32::wrapping_add)
    }
    fn times(self, other: Self) -> Self {
        each(self, other, u32::wrapping_mul)
    }
    fn right(self, by: u32) -> Self {
        each(self, self, |a, _| a >> by)
    }
    fn left(self, by: u32) -> Self {
        each(self, self, |a, _| a << by)
    }
    fn highest(self) -> Self {
        each(self, self, |a, _| (a as i32 >> 24) as u32)
    }
    fn to_floats(self) -> Self {
        each(self, self, |a, _| (a as i32 as f32).to_bits())
    }
    fn nearest(self) -> Self {
        each(self, self, |a, _| f32::from_bits(a).round_ties_even() as i32 as u32)
    }
    fn fmul(self, other: Self) -> Self {
        floats(self, other, |a, b| a * b)
    }
    fn fdiv(self, other: Self) -> Self {
        floats(self, other, |a, b| a / b)
    }
    fn fmax(self, other: Self) -> Self {
        floats(self, other, f32::max)
    }
}

impl Target for Plain {
    type V = Words;

    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [Words; 4] {
        let mut out = [Words([0; 16]); 4];
        for r in 0..16 {
            let bytes = blocks[r * stride + at..][..16].as_chunks::<4>().0;
            for (out, bytes) in out.iter_mut().zip(bytes) {
                out.0[r] = u32::from_le_bytes(*bytes);
            }
        }
        out
    }

    fn word(self, blocks: &[u8], stride: usize, at: usize) -> Words {
        let mut out = Words([0; 16]);
        for (r, out) in out.0.iter_mut().enumerate() {
            let bytes = blocks[r * stride + at..].first_chunk();
            *out = u32::from_le_bytes(bytes.copied().unwrap_or_default());
        }
        out
    }

    fn lookup(self, table: &[u8; 16], codes: Words) -> Words {
        let entry = |code: u8| table[usize::from(code & 15)];
        each(codes, codes, |word, _| u32::from_le_bytes(word.to_le_bytes().map(entry)))
    }

    fn halves(self, bits: Words) -> Words {
        each(bits, bits, |bits, _| f16_bits_to_f32(bits as u16).to_bits())
    }
}

pub(super) fn unpack(format: Format, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    unpack_on(Plain, format, rows, at, steps);
}

/// Adds to `out` Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of activations.
#[inline(never)]
pub(super) fn dot<const M: usize>(kind: Kind, steps: &[Step], x: Panel<'_, M>, out: &mut [Lanes; M]) {
    let offset = if let Kind::Offset(offset) = kind { i32::from(offset) } else { 0 };
    for (step, x) in steps.iter().zip(x.blocks()) {
        for (i, out) in out.iter_mut().enumerate() {
            let mut sums = [-offset * x.sums[i]; 16];
            for (codes, quants) in step.codes.iter().zip(x.quants[i]) {
                for (sum, codes) in sums.iter_mut().zip(codes.0) {
                    let pairs = codes.to_le_bytes().into_iter().zip(quants.to_ne_bytes());
                    *sum += pairs.map(|(code, q)| i32::from(code) * i32::from(q as i8)).sum::<i32>();
                }
            }
            for (r, out) in out.iter_mut().enumerate() {
                *out += sums[r] as f32 * (step.scale[r] * x.scales[i]);
                *out += match kind {
                    Kind::Offset(_) => 0.0,
                    Kind::Minimum => step.minima[0][r] * x.offsets[i].minus,
                    Kind::TwoMinima => {
                        step.minima[0][r] * x.offsets[i].halves[0]
                            + step.minima[1][r] * x.offsets[i].halves[1]
                    }
                };
            }
        }
    }
}
