//! Activations in 8 bits.

use super::blocks::BLOCK;
use crate::element::{Element, View};
use crate::error::{Error, rows};
use crate::isa::Isa;
use crate::simd::{Kernel, MAX_LANES, Simd};

/// Rows of activations, each block of 32 as signed bytes from −127 to 127 with an f32 scale. A block with a number that is
/// not finite has a NaN for scale.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    k: usize,
    quants: Vec<i8>,
    scales: Vec<f32>,
    /// The sum of a block's quants.
    sums: Vec<i32>,
}

/// A row of activations.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub(crate) quants: &'a [i8],
    pub(crate) scales: &'a [f32],
    pub(crate) sums: &'a [i32],
}

impl Activations {
    /// Quantizes rows of `k`.
    ///
    /// # Errors
    /// As [`Activations::quantize`].
    pub fn new<T: Element>(isa: Isa, x: &[T], k: usize) -> Result<Self, Error> {
        let mut activations = Self::default();
        activations.quantize(isa, x, k)?;
        Ok(activations)
    }

    /// Quantizes rows of `k`, in the memory of those that were there before.
    ///
    /// # Errors
    /// [`Error::Multiple`] when `k` is not a multiple of 32, or `x` not of whole rows.
    pub fn quantize<T: Element>(&mut self, isa: Isa, x: &[T], k: usize) -> Result<(), Error> {
        if !k.is_multiple_of(BLOCK) {
            return Err(Error::Multiple { operand: "k", got: k, of: BLOCK });
        }
        rows("x", x.len(), k)?;
        self.k = k;
        self.quants.resize(x.len(), 0);
        self.scales.resize(x.len() / BLOCK, 0.0);
        self.sums.resize(x.len() / BLOCK, 0);
        quantize_view(isa, T::view(x), self);
        Ok(())
    }

    /// Numbers in a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.quants.len().checked_div(self.k).unwrap_or(0)
    }

    /// Row `i`, which there must be.
    pub(crate) fn row(&self, i: usize) -> Row<'_> {
        let blocks = self.k / BLOCK;
        Row {
            quants: &self.quants[i * self.k..][..self.k],
            scales: &self.scales[i * blocks..][..blocks],
            sums: &self.sums[i * blocks..][..blocks],
        }
    }
}

fn quantize_view(isa: Isa, x: View<'_>, out: &mut Activations) {
    match x {
        View::F32(x) => isa.run(Quantize { x, out }),
        View::F16(x) => isa.run(Quantize { x, out }),
        View::Bf16(x) => isa.run(Quantize { x, out }),
    }
}

struct Quantize<'a, T> {
    x: &'a [T],
    out: &'a mut Activations,
}

impl<T: Element> Kernel for Quantize<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Activations { quants, scales, sums, .. } = self.out;
        let numbers = scales.iter_mut().zip(sums);
        for ((x, quants), (scale, sum)) in
            self.x.chunks_exact(BLOCK).zip(quants.chunks_exact_mut(BLOCK)).zip(numbers)
        {
            (*scale, *sum) = quantize_block(s, x, quants);
        }
    }
}

/// Writes the quants of a block and returns its scale and their sum.
#[inline(always)]
fn quantize_block<S: Simd, T: Element>(s: S, x: &[T], quants: &mut [i8]) -> (f32, i32) {
    let mut largest = s.splat(0.0);
    for x in x.chunks_exact(S::LANES) {
        largest = s.maximum(s.abs(T::load(s, x)), largest);
    }
    let largest = s.reduce_maximum(largest);
    if !largest.is_finite() {
        quants.fill(1);
        return (f32::NAN, BLOCK as i32);
    }
    let scale = largest / 127.0;
    // The reciprocal of a subnormal scale may overflow: then all quants are 0, and the block far below f32's precision.
    let inverse = if largest > 127.0 * f32::MIN_POSITIVE { 127.0 / largest } else { 0.0 };
    let mut sum = s.splat(0.0);
    for (x, quants) in x.chunks_exact(S::LANES).zip(quants.chunks_exact_mut(S::LANES)) {
        let q = s.round_even(s.mul(T::load(s, x), s.splat(inverse)));
        sum = s.add(sum, q);
        let mut lanes = [0.0; MAX_LANES];
        s.store(&mut lanes, q);
        for (quant, q) in quants.iter_mut().zip(lanes) {
            *quant = q as i8;
        }
    }
    // Integers far below 2²⁴: the f32 sum is exact.
    (scale, s.reduce_add(sum) as i32)
}
