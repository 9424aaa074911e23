//! Rows of numbers quantized to 8 bits.

use super::blocks::BLOCK;
use super::outliers::{Outlier, Outliers, limit, set_aside};
use super::panels::{Line, Offsets, WORDS, place};
use crate::element::{Element, View};
use crate::error::Error;
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// Some rows of [`Activations`](super::Activations), to be quantized.
pub struct ActivationsPart<'a> {
    /// The first of these rows.
    pub(super) first: usize,
    pub(super) rows: usize,
    /// Blocks of a row.
    pub(super) blocks: usize,
    pub(super) lines: &'a mut [Line],
    pub(super) scales: &'a mut [f32],
    pub(super) sums: &'a mut [i32],
    pub(super) offsets: &'a mut [Offsets],
    pub(super) outliers: &'a mut Vec<Outlier>,
}

impl ActivationsPart<'_> {
    /// Quantizes its rows of `x`, which has all rows.
    ///
    /// # Errors
    /// [`Error::Length`] if `x` has fewer rows than the part ends with.
    pub fn quantize<T: Element>(self, isa: Isa, x: &[T], outliers: Outliers) -> Result<(), Error> {
        let k = self.blocks * BLOCK;
        let end = (self.first + self.rows) * k;
        let Some(x) = x.get(self.first * k..end) else {
            return Err(Error::Length { operand: "x", got: x.len(), want: end });
        };
        quantize_view(isa, T::view(x), outliers, self);
        Ok(())
    }
}

fn quantize_view(isa: Isa, x: View<'_>, outliers: Outliers, out: ActivationsPart<'_>) {
    match x {
        View::F32(x) => isa.run(Quantize { x, outliers, out }),
        View::F16(x) => isa.run(Quantize { x, outliers, out }),
        View::Bf16(x) => isa.run(Quantize { x, outliers, out }),
    }
}

struct Quantize<'a, T> {
    x: &'a [T],
    outliers: Outliers,
    out: ActivationsPart<'a>,
}

impl<T: Element> VectorFn for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Quantize { x, outliers, out } = self;
        let quants: &mut [[i32; WORDS]] = bytemuck::cast_slice_mut(out.lines);
        for (i, x) in x.chunks_exact(out.blocks * BLOCK).enumerate() {
            let (mut at, step) = place(i, out.rows, out.blocks);
            let limit = if outliers == Outliers::SetAside { limit(s, x) } else { f32::INFINITY };
            for (b, x) in x.chunks_exact(BLOCK).enumerate() {
                let quants = bytemuck::cast_slice_mut(&mut quants[at]);
                let largest = largest(s, x);
                let (scale, halves) = if largest > limit {
                    let rest = set_aside(x, (out.first + i, b), limit, out.outliers);
                    quantize_block(s, &rest, self::largest(s, &rest), quants)
                } else {
                    quantize_block(s, x, largest, quants)
                };
                (out.scales[at], out.sums[at]) = (scale, halves[0] + halves[1]);
                out.offsets[at] = Offsets::new(scale, halves);
                at += step;
            }
        }
    }
}

/// The largest magnitude of a block; NaN if it has a NaN.
#[inline(always)]
fn largest<S: Simd, T: Element>(s: S, x: &[T]) -> f32 {
    let mut wide = [0.0f32; BLOCK];
    for (x, wide) in x.chunks_exact(S::LANES).zip(wide.chunks_exact_mut(S::LANES)) {
        s.store(wide, s.abs(T::load(s, x)));
    }
    // Compared as integers, magnitudes sort as numbers do, and every NaN sorts after infinity.
    f32::from_bits(wide.iter().fold(0, |most, x| most.max(x.to_bits())))
}

/// Stores the quants of a block with this largest magnitude; returns its scale and the sums of its halves.
#[inline(always)]
fn quantize_block<S: Simd, T: Element>(s: S, x: &[T], largest: f32, quants: &mut [i8]) -> (f32, [i32; 2]) {
    if !largest.is_finite() {
        quants.fill(1);
        return (f32::NAN, [BLOCK as i32 / 2; 2]);
    }
    let scale = largest / 127.0;
    // The reciprocal of a subnormal scale may overflow. All quants are then 0; the block is far below f32's precision.
    let inverse = if largest > 127.0 * f32::MIN_POSITIVE { 127.0 / largest } else { 0.0 };
    let mut wide = [0.0f32; BLOCK];
    for (x, wide) in x.chunks_exact(S::LANES).zip(wide.chunks_exact_mut(S::LANES)) {
        // Store the integers as bits of f32.
        s.store(wide, s.from_bits(s.to_i32(s.mul(T::load(s, x), s.splat(inverse)))));
    }
    let mut sums = [0; 2];
    let halves = quants.chunks_exact_mut(BLOCK / 2).zip(wide.chunks_exact(BLOCK / 2));
    for (sum, (quants, wide)) in sums.iter_mut().zip(halves) {
        for (quant, q) in quants.iter_mut().zip(wide) {
            *quant = q.to_bits() as i8;
            *sum += q.to_bits() as i32;
        }
    }
    (scale, sums)
}
