//! Activations quantized to 8 bits.

use std::sync::OnceLock;

use super::blocks::BLOCK;
use super::outliers::{ByRow, Outlier, Outliers};
use super::panels::{Line, Offsets, WORDS, place};
use super::quantize::ActivationsPart;
use crate::element::Element;
use crate::error::{Error, rows};
use crate::isa::Isa;

/// Rows of activations. Each block of 32 is stored as signed bytes from −127 to 127 with an f32 scale. A block that contains
/// a number that is not finite has a NaN scale. Outliers may be set aside ([`Outliers::SetAside`]).
///
/// Rows are grouped in panels of eight; the last rows form panels of four, two and one. Within a panel, the blocks of all
/// rows at one position come before those at the next.
#[derive(Clone, Debug, Default)]
pub struct Activations {
    k: usize,
    rows: usize,
    /// See [`Activations::quants`].
    lines: Vec<Line>,
    scales: Vec<f32>,
    /// The sum of a block's quants.
    sums: Vec<i32>,
    offsets: Vec<Offsets>,
    /// The outliers of each part, in the order of rows and columns.
    outliers: Vec<Vec<Outlier>>,
    /// The same, once a product has asked for them.
    by_row: OnceLock<ByRow>,
}

/// `M` rows of activations: for each block position, the blocks of all rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Panel<'a, const M: usize> {
    pub(super) quants: &'a [[[i32; WORDS]; M]],
    pub(super) scales: &'a [[f32; M]],
    pub(super) sums: &'a [[i32; M]],
    pub(super) offsets: &'a [[Offsets; M]],
}

/// One block of each row of a panel.
#[derive(Clone, Copy)]
pub(super) struct Block<'a, const M: usize> {
    pub(super) quants: &'a [[i32; WORDS]; M],
    pub(super) scales: &'a [f32; M],
    pub(super) sums: &'a [i32; M],
    pub(super) offsets: &'a [Offsets; M],
}

impl<'a, const M: usize> Panel<'a, M> {
    #[inline(always)]
    pub(super) fn blocks(self) -> impl Iterator<Item = Block<'a, M>> {
        let numbers = self.scales.iter().zip(self.sums).zip(self.offsets);
        let blocks = self.quants.iter().zip(numbers);
        blocks.map(|(quants, ((scales, sums), offsets))| Block { quants, scales, sums, offsets })
    }

    /// The same blocks, each of `N` of the rows: a divisor of `M`.
    #[cfg(target_arch = "aarch64")]
    pub(super) fn regrouped<const N: usize>(self) -> Panel<'a, N> {
        Panel {
            quants: self.quants.as_flattened().as_chunks().0,
            scales: self.scales.as_flattened().as_chunks().0,
            sums: self.sums.as_flattened().as_chunks().0,
            offsets: self.offsets.as_flattened().as_chunks().0,
        }
    }

    /// The blocks from position `first` on, which must exist.
    pub(super) fn from(self, first: usize) -> Self {
        Panel {
            quants: &self.quants[first..],
            scales: &self.scales[first..],
            sums: &self.sums[first..],
            offsets: &self.offsets[first..],
        }
    }
}

/// A block of zeros with a single 1, as a panel.
pub(super) struct Unit {
    quants: [[[i32; WORDS]; 1]; 1],
    offsets: [[Offsets; 1]; 1],
}

impl Unit {
    /// With the 1 in this column.
    pub(super) fn new(column: usize) -> Self {
        let mut bytes = [0i8; BLOCK];
        bytes[column] = 1;
        let halves = if column < BLOCK / 2 { [1, 0] } else { [0, 1] };
        Self { quants: [[bytemuck::cast(bytes)]], offsets: [[Offsets::new(1.0, halves)]] }
    }

    pub(super) fn panel(&self) -> Panel<'_, 1> {
        Panel { quants: &self.quants, scales: &[[1.0]], sums: &[[1]], offsets: &self.offsets }
    }
}

impl Activations {
    /// Quantizes rows of length `k` and sets their outliers aside.
    ///
    /// # Errors
    /// As [`Activations::quantize`].
    pub fn new<T: Element>(isa: Isa, x: &[T], k: usize) -> Result<Self, Error> {
        let mut activations = Self::default();
        activations.quantize(isa, x, k)?;
        Ok(activations)
    }

    /// Quantizes rows of length `k` and sets their outliers aside, reusing the memory of the previous contents.
    ///
    /// # Errors
    /// [`Error::Multiple`] if `k` is not a multiple of 32 or `x` does not consist of whole rows.
    pub fn quantize<T: Element>(&mut self, isa: Isa, x: &[T], k: usize) -> Result<(), Error> {
        rows("x", x.len(), k)?;
        let count = x.len().checked_div(k).unwrap_or(0);
        self.parts(count, k, count)?
            .into_iter()
            .try_for_each(|part| part.quantize(isa, x, Outliers::SetAside))
    }

    /// A row of zeros with a single 1, whose code and scale are 1, in this column, which must exist.
    pub(super) fn unit(k: usize, column: usize) -> Self {
        let (mut activations, unit) = (Self::default(), Unit::new(column % BLOCK));
        activations.resize(1, k);
        let at = activations.index(0, column / BLOCK);
        activations.quants_mut()[at] = unit.quants[0][0];
        (activations.scales[at], activations.sums[at], activations.offsets[at]) =
            (1.0, 1, unit.offsets[0][0]);
        activations
    }

    /// Makes room for `rows` rows of length `k`, reusing the memory of the previous contents, and hands it
    /// out in parts of `each` rows, rounded up to a multiple of eight, for threads to fill. Rows of a part
    /// that is not quantized hold unspecified numbers.
    ///
    /// # Errors
    /// [`Error::Multiple`] if `k` is not a multiple of 32.
    pub fn parts(&mut self, rows: usize, k: usize, each: usize) -> Result<Vec<ActivationsPart<'_>>, Error> {
        if !k.is_multiple_of(BLOCK) {
            return Err(Error::Multiple { operand: "k", got: k, of: BLOCK });
        }
        self.resize(rows, k);
        if k == 0 {
            return Ok(Vec::new());
        }
        // Whole panels of eight rows, which are whole lines.
        let each = each.clamp(1, rows.max(1)).next_multiple_of(8);
        let blocks = k / BLOCK;
        let size = each * blocks;
        self.outliers.resize_with(rows.div_ceil(each), Vec::new);
        let lines = self.lines.chunks_mut(size.div_ceil(2));
        let numbers =
            self.scales.chunks_mut(size).zip(self.sums.chunks_mut(size)).zip(self.offsets.chunks_mut(size));
        let part = |(i, ((lines, outliers), ((scales, sums), offsets)))| {
            let first = i * each;
            let rows = each.min(rows - first);
            ActivationsPart { first, rows, blocks, lines, scales, sums, offsets, outliers }
        };
        Ok(lines.zip(&mut self.outliers).zip(numbers).enumerate().map(part).collect())
    }

    /// Copies these rows of `from`, in this order, reusing the memory of the previous contents, so that rows
    /// shared by several products are quantized once.
    ///
    /// # Errors
    /// [`Error::Range`] if `from` has fewer rows.
    pub fn gather(&mut self, from: &Activations, picked: &[usize]) -> Result<(), Error> {
        if let Some(&missing) = picked.iter().find(|row| **row >= from.rows) {
            let end = missing.saturating_add(1);
            return Err(Error::Range { operand: "rows", start: missing, end, len: from.rows });
        }
        self.resize(picked.len(), from.k);
        let mut outliers = self.outliers.pop().unwrap_or_default();
        for (i, &row) in picked.iter().enumerate() {
            let (to, to_step) = self.place(i);
            let (at, step) = from.place(row);
            for b in 0..from.k / BLOCK {
                let (to, at) = (to + b * to_step, at + b * step);
                self.quants_mut()[to] = from.quants()[at];
                self.scales[to] = from.scales[at];
                self.sums[to] = from.sums[at];
                self.offsets[to] = from.offsets[at];
            }
            let own = from.outliers().of_row(row);
            outliers.extend(own.map(|(column, value)| Outlier { row: i, column, value }));
        }
        self.outliers = vec![outliers];
        Ok(())
    }

    fn resize(&mut self, rows: usize, k: usize) {
        let blocks = rows.saturating_mul(k / BLOCK);
        (self.k, self.rows) = (k, rows);
        self.outliers.iter_mut().for_each(Vec::clear);
        self.by_row = OnceLock::new();
        self.lines.resize(blocks.div_ceil(2), Line::default());
        self.scales.resize(blocks, 0.0);
        self.sums.resize(blocks, 0);
        self.offsets.resize(blocks, Offsets::default());
    }

    /// Words of four quants of each block, which the kernels broadcast over a vector.
    fn quants(&self) -> &[[i32; WORDS]] {
        &bytemuck::cast_slice(&self.lines)[..self.scales.len()]
    }

    fn quants_mut(&mut self) -> &mut [[i32; WORDS]] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.scales.len()]
    }

    /// Length of a row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// What was set aside.
    pub(super) fn outliers(&self) -> &ByRow {
        self.by_row.get_or_init(|| ByRow::new(self.outliers.iter().flatten(), self.k))
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The `M` rows of the panel that starts at row `i`, which must exist.
    pub(super) fn panel<const M: usize>(&self, i: usize) -> Panel<'_, M> {
        self.panels(i, 1)
    }

    /// All panels of eight rows, one after the other.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn eights(&self) -> Panel<'_, 8> {
        self.panels(0, self.rows / 8)
    }

    /// `count` panels from row `i` on, which must exist.
    fn panels<const M: usize>(&self, i: usize, count: usize) -> Panel<'_, M> {
        let blocks = self.k / BLOCK;
        let all = i * blocks..(i + M * count) * blocks;
        Panel {
            quants: self.quants()[all.clone()].as_chunks().0,
            scales: self.scales[all.clone()].as_chunks().0,
            sums: self.sums[all.clone()].as_chunks().0,
            offsets: self.offsets[all].as_chunks().0,
        }
    }

    /// Quants and scale of block `b` of row `i`, which must exist.
    pub(super) fn block(&self, i: usize, b: usize) -> (&[i8], f32) {
        let at = self.index(i, b);
        (bytemuck::cast_slice(&self.quants()[at]), self.scales[at])
    }

    /// Words, scale and offsets of block `b` of row `i`, which must exist.
    pub(super) fn step(&self, i: usize, b: usize) -> (&[i32; WORDS], f32, Offsets) {
        let at = self.index(i, b);
        (&self.quants()[at], self.scales[at], self.offsets[at])
    }

    /// Index of block `b` of row `i`.
    fn index(&self, i: usize, b: usize) -> usize {
        let (first, step) = self.place(i);
        first + b * step
    }

    /// Index of the first block of row `i`, and the distance between its blocks.
    fn place(&self, i: usize) -> (usize, usize) {
        place(i, self.rows, self.k / BLOCK)
    }
}
