//! Products with rows of blocks in file order, for few rows of activations.

use super::activations::{Activations, Panel};
use super::blocks::check;
use super::formats::{Marker, TileFormat, marker};
use super::in_place::add_outliers;
use super::panels::panel_rows;
use super::rows_portable;
use crate::error::{Error, same_len};
use crate::gemm::MatMut;
use crate::isa::{Isa, Level};

/// Rows of weights multiplied together.
const ROWS: usize = 4;
/// Rows of weights that are multiplied together by eight rows of activations: two on x86, because each pair
/// of rows needs a register of sums.
const ROWS_BY_EIGHT: usize = if cfg!(target_arch = "aarch64") { 4 } else { 2 };

/// y = x·Wᵀ for W in blocks in file order; `raw` has as many rows as y has columns. The weights are read in place, once for
/// all rows of x. One row of x runs at memory bandwidth; from about sixteen rows on, [`Tiles`](super::Tiles) are faster.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply_rows(
    isa: Isa,
    format: TileFormat,
    raw: &[u8],
    x: &Activations,
    y: MatMut<'_, f32>,
) -> Result<(), Error> {
    multiply_in_order(isa, format, raw, x, y, false)
}

/// As [`multiply_rows`], but a row of x has the same sums whatever the other rows are.
///
/// # Errors
/// As [`multiply_rows`].
pub fn multiply_rows_by_row(
    isa: Isa,
    format: TileFormat,
    raw: &[u8],
    x: &Activations,
    y: MatMut<'_, f32>,
) -> Result<(), Error> {
    multiply_in_order(isa, format, raw, x, y, true)
}

/// With `by_row`, the last of an odd number of rows does not use the kernels for one row, which sum in
/// another order.
fn multiply_in_order(
    isa: Isa,
    format: TileFormat,
    raw: &[u8],
    x: &Activations,
    mut y: MatMut<'_, f32>,
    by_row: bool,
) -> Result<(), Error> {
    let blocks = check(format.block_bytes(), raw.len(), y.cols(), x.k())?;
    same_len("rows of y", y.rows(), x.rows())?;
    if raw.is_empty() {
        (0..y.rows()).for_each(|i| y.row_mut(i).fill(0.0));
        return Ok(());
    }
    let row_bytes = blocks * format.block_bytes();
    multiply_others(isa, format, (raw, row_bytes), x, &mut y, by_row);
    add_outliers(isa, format.format().block(), (raw, row_bytes), x, &mut y, |raw, unit, y| {
        multiply_in_order(isa, format, raw, unit, y, by_row)
    })
}

/// The product of the numbers that are not outliers.
fn multiply_others(
    isa: Isa,
    format: TileFormat,
    (raw, row_bytes): (&[u8], usize),
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    by_row: bool,
) {
    // Other kernels sum every row in the same order.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = by_row;
    #[cfg(target_arch = "x86_64")]
    if isa.level() == Level::Avx512Vnni {
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        unsafe {
            match format {
                TileFormat::Q8_0 => vnni::multiply::<marker::Q8_0>(raw, row_bytes, x, y, by_row),
                TileFormat::Q4_0 => vnni::multiply::<marker::Q4_0>(raw, row_bytes, x, y, by_row),
            }
        }
        return;
    }
    for (g, rows) in raw.chunks(ROWS * row_bytes).enumerate() {
        let mut i = 0;
        while i < x.rows() {
            let (rows, at) = (rows.chunks_exact(row_bytes), (i, g * ROWS));
            match panel_rows(i, x.rows()) {
                8 => multiply_part::<8, ROWS_BY_EIGHT>(isa, format, rows, x.panel(i), at, y),
                4 => multiply_part::<4, 4>(isa, format, rows, x.panel(i), at, y),
                2 => multiply_part::<2, 4>(isa, format, rows, x.panel(i), at, y),
                _ => multiply_part::<1, 4>(isa, format, rows, x.panel(i), at, y),
            }
            i += panel_rows(i, x.rows());
        }
    }
}

/// Multiplies rows of weights, `R` at a time, by `M` rows of activations, into y from the row and column `at` on.
fn multiply_part<'a, const M: usize, const R: usize>(
    isa: Isa,
    format: TileFormat,
    mut rows: impl ExactSizeIterator<Item = &'a [u8]>,
    x: Panel<'_, M>,
    (i, mut j): (usize, usize),
    y: &mut MatMut<'_, f32>,
) {
    let mut store = |j: usize, sums: [f32; M]| {
        for (r, sum) in sums.into_iter().enumerate() {
            y.row_mut(i + r)[j] = sum;
        }
    };
    while rows.len() >= R {
        let mut taken = [&[][..]; R];
        taken.iter_mut().zip(&mut rows).for_each(|(taken, row)| *taken = row);
        for (r, sums) in dot(isa, format, taken, x).into_iter().enumerate() {
            store(j + r, sums);
        }
        j += R;
    }
    for row in rows {
        let [sums] = dot(isa, format, [row], x);
        store(j, sums);
        j += 1;
    }
}

fn dot<const M: usize, const R: usize>(
    isa: Isa,
    format: TileFormat,
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    match format {
        TileFormat::Q8_0 => dot_of::<M, R, marker::Q8_0>(isa, rows, x),
        TileFormat::Q4_0 => dot_of::<M, R, marker::Q4_0>(isa, rows, x),
    }
}

fn dot_of<const M: usize, const R: usize, F: Marker<TileFormat>>(
    isa: Isa,
    rows: [&[u8]; R],
    x: Panel<'_, M>,
) -> [[f32; M]; R] {
    match isa.level() {
        Level::Portable => rows_portable::rows::<M, R, F>(rows, x),
        // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 | Level::Avx512Vnni => unsafe {
            super::rows_avx2::rows::<M, R, F>(rows, x)
        },
        #[cfg(target_arch = "aarch64")]
        level @ (Level::Neon | Level::NeonDotProd | Level::NeonI8mm) => {
            super::rows_neon::rows::<M, R, F>(level, rows, x)
        }
    }
}

/// The AVX-512 VNNI kernels: four rows of weights at a time for one row of activations, sixteen for more.
#[cfg(target_arch = "x86_64")]
mod vnni {
    use super::super::activations::Activations;
    use super::super::blocks::TILE_ROWS;
    use super::super::formats::{Marker, TileFormat};
    use super::super::matvec_avx512::{self, PreparedActivations};
    use super::super::panels::panel_rows;
    use super::super::rows_avx512;
    use super::ROWS;
    use crate::gemm::MatMut;
    use crate::scratch::Scratch;

    /// The product for rows of blocks.
    ///
    /// # Safety
    /// The processor must have AVX-512 F, BW, DQ, VL and VNNI.
    pub(super) unsafe fn multiply<F: Marker<TileFormat>>(
        raw: &[u8],
        row_bytes: usize,
        x: &Activations,
        y: &mut MatMut<'_, f32>,
        by_row: bool,
    ) {
        // A single row of activations, or the last of an odd number of rows.
        let odd = (x.rows() % 2 == 1 && !by_row)
            .then(|| matvec_avx512::prepare_activations::<F>(x.panel(x.rows() - 1)));
        let group_bytes = TILE_ROWS * row_bytes;
        let grouped = by_row || x.rows() > 1;
        let filled = if grouped && !raw.len().is_multiple_of(group_bytes) { group_bytes } else { 0 };
        let mut padded = Scratch::<u8>::new(filled);
        for (g, rows) in raw.chunks(group_bytes).enumerate() {
            let column = g * TILE_ROWS;
            if let Some(odd) = &odd {
                // SAFETY: the caller guarantees the features.
                unsafe {
                    single_activation_row::<F>(rows, row_bytes, odd, &mut y.row_mut(x.rows() - 1)[column..])
                };
            }
            let mut group = rows;
            if grouped && rows.len() < group_bytes {
                padded[..rows.len()].copy_from_slice(rows);
                padded[rows.len()..].fill(0);
                group = &padded;
            }
            let mut i = 0;
            while i < x.rows() - usize::from(odd.is_some()) {
                // SAFETY: the caller guarantees the features.
                unsafe {
                    match panel_rows(i, x.rows()) {
                        8 => sixteen_rows::<8, F>(group, x, i, column, y),
                        4 => sixteen_rows::<4, F>(group, x, i, column, y),
                        2 => sixteen_rows::<2, F>(group, x, i, column, y),
                        _ => sixteen_rows::<1, F>(group, x, i, column, y),
                    }
                }
                i += panel_rows(i, x.rows());
            }
        }
    }

    /// Multiplies sixteen rows of weights by `M` rows of activations from `i` on.
    ///
    /// # Safety
    /// As for [`multiply`].
    unsafe fn sixteen_rows<const M: usize, F: Marker<TileFormat>>(
        group: &[u8],
        x: &Activations,
        i: usize,
        column: usize,
        y: &mut MatMut<'_, f32>,
    ) {
        // SAFETY: the caller guarantees the features.
        let sums = unsafe { rows_avx512::rows::<M, F>(group, x.panel(i)) };
        for (r, sums) in sums.iter().enumerate() {
            let y = &mut y.row_mut(i + r)[column..];
            let n = y.len().min(TILE_ROWS);
            y[..n].copy_from_slice(&sums[..n]);
        }
    }

    /// Multiplies rows of weights by one row of activations.
    ///
    /// # Safety
    /// As for [`multiply`].
    unsafe fn single_activation_row<F: Marker<TileFormat>>(
        rows: &[u8],
        row_bytes: usize,
        x: &[PreparedActivations],
        y: &mut [f32],
    ) {
        // Rows side by side share the loads of the activations, but q4_0 comes faster from memory row by row.
        let together = if F::FORMAT == TileFormat::Q8_0 { ROWS } else { 1 };
        for (rows, y) in rows.chunks(together * row_bytes).zip(y.chunks_mut(together)) {
            if y.len() == ROWS && rows.len() == ROWS * row_bytes {
                let mut each = [rows; ROWS];
                each.iter_mut().zip(rows.chunks_exact(row_bytes)).for_each(|(each, row)| *each = row);
                // SAFETY: the caller guarantees the features.
                y.copy_from_slice(&unsafe { matvec_avx512::rows::<ROWS, F>(each, x) });
                continue;
            }
            for (row, y) in rows.chunks_exact(row_bytes).zip(y) {
                // SAFETY: as above.
                [*y] = unsafe { matvec_avx512::rows::<1, F>([row], x) };
            }
        }
    }
}
