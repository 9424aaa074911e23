//! Activations in 8 bits.

use super::blocks::BLOCK;
use crate::element::{Element, View};
use crate::error::{Error, rows};
use crate::isa::Isa;
use crate::simd::{Kernel, Simd};

/// Rows of activations, each block of 32 as signed bytes from −127 to 127 with an f32 scale. A block with a number that is
/// not finite has a NaN for scale.
///
/// Rows lie in panels of eight, the last rows in panels of four, two and one; within a panel, a block of all its rows
/// comes before the next.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    k: usize,
    rows: usize,
    /// Words of four quants, the way the kernels spread them over a vector.
    quants: Vec<[i32; WORDS]>,
    scales: Vec<f32>,
    /// The sum of a block's quants.
    sums: Vec<i32>,
}

/// Words in a block.
pub(super) const WORDS: usize = BLOCK / 4;

/// `M` rows of activations: for each block, that of every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel<'a, const M: usize> {
    pub(super) quants: &'a [[[i32; WORDS]; M]],
    pub(super) scales: &'a [[f32; M]],
    pub(super) sums: &'a [[i32; M]],
}

/// A block of each row of a panel.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, const M: usize> {
    pub(super) quants: &'a [[i32; WORDS]; M],
    pub(super) scales: &'a [f32; M],
    pub(super) sums: &'a [i32; M],
}

impl<'a, const M: usize> Panel<'a, M> {
    #[inline(always)]
    pub(super) fn blocks(self) -> impl Iterator<Item = Block<'a, M>> {
        let numbers = self.scales.iter().zip(self.sums);
        self.quants.iter().zip(numbers).map(|(quants, (scales, sums))| Block { quants, scales, sums })
    }
}

/// Rows of the panel that begins with row `i` of `m`.
pub(super) fn panel_rows(i: usize, m: usize) -> usize {
    match m - i {
        8.. => 8,
        4.. => 4,
        2.. => 2,
        rest => rest,
    }
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
        let blocks = x.len() / BLOCK;
        self.k = k;
        self.rows = x.len().checked_div(k).unwrap_or(0);
        self.quants.resize(blocks, [0; WORDS]);
        self.scales.resize(blocks, 0.0);
        self.sums.resize(blocks, 0);
        quantize_view(isa, T::view(x), self);
        Ok(())
    }

    /// Numbers in a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The `M` rows of the panel that begins with row `i`, which there must be.
    pub(super) fn panel<const M: usize>(&self, i: usize) -> Panel<'_, M> {
        let blocks = self.k / BLOCK;
        let all = i * blocks..(i + M) * blocks;
        Panel {
            quants: self.quants[all.clone()].as_chunks().0,
            scales: self.scales[all.clone()].as_chunks().0,
            sums: self.sums[all].as_chunks().0,
        }
    }

    /// Quants and scale of block `b` of row `i`, which there must be.
    pub(super) fn block(&self, i: usize, b: usize) -> (&[i8], f32) {
        let at = self.index(i, b);
        (bytemuck::cast_slice(&self.quants[at]), self.scales[at])
    }

    /// Where block `b` of row `i` lies.
    fn index(&self, i: usize, b: usize) -> usize {
        let mut start = i / 8 * 8;
        while start + panel_rows(start, self.rows) <= i {
            start += panel_rows(start, self.rows);
        }
        start * (self.k / BLOCK) + b * panel_rows(start, self.rows) + i - start
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
        let blocks = self.out.k / BLOCK;
        for (i, x) in self.x.chunks_exact(BLOCK).enumerate() {
            let at = self.out.index(i / blocks, i % blocks);
            (self.out.scales[at], self.out.sums[at]) =
                quantize_block(s, x, bytemuck::cast_slice_mut(&mut self.out.quants[at]));
        }
    }
}

/// Writes the quants of a block and returns its scale and their sum.
#[inline(always)]
fn quantize_block<S: Simd, T: Element>(s: S, x: &[T], quants: &mut [i8]) -> (f32, i32) {
    let mut wide = [0.0f32; BLOCK];
    for (x, wide) in x.chunks_exact(S::LANES).zip(wide.chunks_exact_mut(S::LANES)) {
        s.store(wide, s.abs(T::load(s, x)));
    }
    // As integers, magnitudes order as they do as numbers, and every NaN comes after infinity.
    let largest = f32::from_bits(wide.iter().fold(0, |most, x| most.max(x.to_bits())));
    if !largest.is_finite() {
        quants.fill(1);
        return (f32::NAN, BLOCK as i32);
    }
    let scale = largest / 127.0;
    // The reciprocal of a subnormal scale may overflow: then all quants are 0, and the block far below f32's precision.
    let inverse = if largest > 127.0 * f32::MIN_POSITIVE { 127.0 / largest } else { 0.0 };
    for (x, wide) in x.chunks_exact(S::LANES).zip(wide.chunks_exact_mut(S::LANES)) {
        // Integers as bits of f32, to store them.
        s.store(wide, s.from_bits(s.to_i32(s.mul(T::load(s, x), s.splat(inverse)))));
    }
    let mut sum = 0;
    for (quant, q) in quants.iter_mut().zip(wide) {
        *quant = q.to_bits() as i8;
        sum += q.to_bits() as i32;
    }
    (scale, sum)
}
