//! Plain Rust.

use super::super::activations::Panel;
use super::words::{Lanes, Target, Words};
use super::{CodeFormat, Kind, Step, unpack_on};
use crate::simd::portable::f16_bits_to_f32;

#[derive(Clone, Copy)]
struct Plain;

impl Target for Plain {
    #[inline(always)]
    fn four(self, blocks: &[u8], stride: usize, at: usize) -> [Words; 4] {
        let mut out = [Words::splat(0); 4];
        for r in 0..16 {
            let bytes = blocks[r * stride + at..][..16].as_chunks::<4>().0;
            for (out, bytes) in out.iter_mut().zip(bytes) {
                out.0[r] = u32::from_le_bytes(*bytes);
            }
        }
        out
    }

    #[inline(always)]
    fn lookup(self, table: &[u8; 16], codes: Words) -> Words {
        codes.map(|word| u32::from_le_bytes(word.to_le_bytes().map(|code| table[usize::from(code & 15)])))
    }

    #[inline(always)]
    fn halves(self, bits: Words) -> Lanes {
        bits.0.map(|bits| f16_bits_to_f32(bits as u16))
    }
}

pub(super) fn unpack(format: CodeFormat, rows: &[u8], at: (usize, usize), steps: &mut [Step]) {
    unpack_on(Plain, format, rows, at, steps);
}

/// Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of activations.
#[inline(never)]
pub(super) fn dot<const M: usize>(kind: Kind, steps: &[Step], x: Panel<'_, M>) -> [Lanes; M] {
    let mut out = [[0.0; 16]; M];
    for (step, x) in steps.iter().zip(x.blocks()) {
        for (i, out) in out.iter_mut().enumerate() {
            let mut sums = [if kind == Kind::Signed { -128 * x.sums[i] } else { 0 }; 16];
            for (codes, quants) in step.codes.iter().zip(x.quants[i]) {
                for (sum, codes) in sums.iter_mut().zip(codes.0) {
                    let pairs = codes.to_le_bytes().into_iter().zip(quants.to_ne_bytes());
                    *sum += pairs.map(|(code, q)| i32::from(code) * i32::from(q as i8)).sum::<i32>();
                }
            }
            for (r, out) in out.iter_mut().enumerate() {
                *out += sums[r] as f32 * (step.scale[r] * x.scales[i]);
                *out += match kind {
                    Kind::Signed => 0.0,
                    Kind::Minimum => step.minima[0][r] * x.offsets[i].minus,
                    Kind::TwoMinima => {
                        step.minima[0][r] * x.offsets[i].halves[0]
                            + step.minima[1][r] * x.offsets[i].halves[1]
                    }
                };
            }
        }
    }
    out
}
