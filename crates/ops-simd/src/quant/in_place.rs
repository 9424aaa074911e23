//! Products with rows of blocks that are read in place, whatever the format.

use super::activations::{Activations, Panel};
use super::outliers::Columns;
use super::panels::panel_rows;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::Isa;
use crate::simd::MAX_LANES;

/// Rows of weights that a panel of activations is multiplied by before the next panel.
const ROWS: usize = 4;

/// A format whose rows are multiplied in file order.
pub(super) trait RowFormat: Copy {
    /// The products of a row of weights with `M` rows of activations.
    fn dot<const M: usize>(self, isa: Isa, row: &[u8], x: Panel<'_, M>) -> [f32; M];
}

/// A format in which two rows at a time are multiplied by one row of activations.
pub(super) trait PairFormat: Copy {
    /// The activations of some blocks, in the order of the codes.
    type Prepared;
    /// The products of rows of weights with a row of activations.
    fn products<const R: usize>(self, isa: Isa, rows: [&[u8]; R], x: &[Self::Prepared]) -> [f32; R];
}

/// y = x·Wᵀ but for outliers, for rows of `row_bytes`, which are not empty; `prepared` has all rows of x, of the same length, one after the other.
pub(super) fn multiply_pairs<F: PairFormat>(
    isa: Isa,
    format: F,
    (raw, row_bytes): (&[u8], usize),
    prepared: &[F::Prepared],
    y: &mut MatMut<'_, f32>,
) {
    let each = prepared.len().checked_div(y.rows()).unwrap_or(0).max(1);
    for (g, rows) in raw.chunks(2 * row_bytes).enumerate() {
        for (i, x) in prepared.chunks_exact(each).enumerate() {
            let y = &mut y.row_mut(i)[2 * g..];
            let (first, second) = rows.split_at(row_bytes);
            if second.is_empty() {
                [y[0]] = format.products(isa, [first], x);
            } else {
                [y[0], y[1]] = format.products(isa, [first, second], x);
            }
        }
    }
}

/// y = x·Wᵀ but for outliers, for as many rows of `row_bytes` as y has columns, which are not empty.
pub(super) fn multiply<F: RowFormat>(
    isa: Isa,
    format: F,
    (raw, row_bytes): (&[u8], usize),
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) {
    for (g, rows) in raw.chunks(ROWS * row_bytes).enumerate() {
        let rows = || rows.chunks_exact(row_bytes);
        let mut i = 0;
        while i < x.rows() {
            let at = (i, g * ROWS);
            match panel_rows(i, x.rows()) {
                8 => part::<8, F>(isa, format, rows(), x.panel(i), at, y),
                4 => part::<4, F>(isa, format, rows(), x.panel(i), at, y),
                2 => part::<2, F>(isa, format, rows(), x.panel(i), at, y),
                _ => part::<1, F>(isa, format, rows(), x.panel(i), at, y),
            }
            i += panel_rows(i, x.rows());
        }
    }
}

/// Multiplies rows of weights by `M` rows of activations, into y from the row and column `at` on.
fn part<'r, const M: usize, F: RowFormat>(
    isa: Isa,
    format: F,
    rows: impl Iterator<Item = &'r [u8]>,
    x: Panel<'_, M>,
    (i, j): (usize, usize),
    y: &mut MatMut<'_, f32>,
) {
    for (r, row) in rows.enumerate() {
        for (m, sum) in format.dot(isa, row, x).into_iter().enumerate() {
            y.row_mut(i + m)[j + r] = sum;
        }
    }
}

/// Adds the products of outliers to y. `multiply` computes products with rows of one block, of this many weights and bytes. A column
/// is what a row of zeros with a single 1 is multiplied by. This takes long: see [`outliers_for`](super::outliers_for).
pub(super) fn add_outliers(
    isa: Isa,
    (weights, bytes): (usize, usize),
    (raw, row_bytes): (&[u8], usize),
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    multiply: impl Fn(&[u8], &Activations, MatMut<'_, f32>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (outliers, n) = (x.outliers(), y.cols());
    if outliers.is_empty() {
        return Ok(());
    }
    let mut columns = Columns::new(outliers, n.next_multiple_of(MAX_LANES));
    let mut blocks = Vec::with_capacity(n * bytes);
    for (index, column) in outliers.within(0..x.k()) {
        let at = column / weights * bytes;
        blocks.clear();
        raw.chunks_exact(row_bytes).for_each(|row| blocks.extend_from_slice(&row[at..at + bytes]));
        let unit = Activations::unit(weights, column % weights);
        multiply(&blocks, &unit, MatMut::of_row(&mut columns.column(index)[..n]))?;
    }
    outliers.add(isa, &columns, y, 0);
    Ok(())
}

/// Checks the lengths, for blocks of this many weights and bytes. Returns the bytes of a row; if there are no weights, sets y to 0
/// and returns 0.
pub(super) fn checked_row(
    (weights, bytes): (usize, usize),
    raw: &[u8],
    x: &Activations,
    y: &mut MatMut<'_, f32>,
) -> Result<usize, Error> {
    if !x.k().is_multiple_of(weights) {
        return Err(Error::Multiple { operand: "k", got: x.k(), of: weights });
    }
    let row_bytes = (x.k() / weights).saturating_mul(bytes);
    same_len("weight bytes", raw.len(), y.cols().saturating_mul(row_bytes))?;
    same_len("rows of y", y.rows(), x.rows())?;
    if raw.is_empty() {
        (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
        return Ok(0);
    }
    Ok(row_bytes)
}
