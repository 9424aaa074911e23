//! Copies, fills and numbers in steps.
//!
//! Copied row by row, a transposed tensor reads one element of each cache line, and returns to the line after it has left the
//! cache. Here tiles are read and written in whole cache lines.
use super::Cpu;
use super::rows::{for_each_part, row_position};
use super::runs::map_runs;
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use bytemuck::{Pod, cast_slice, cast_slice_mut};
use ops_core::ops::{Arange, Fill, TensorCopy};
use ops_core::{Call, Element, Layout, Num, Result};

/// Bytes of a tile's row in the input: four cache lines, as reading single lines from many pages is slow.
const LINE: usize = 256;
/// Columns of a tile.
const COLUMNS: usize = 64;

/// Batches of matrices with contiguous columns in the input and contiguous rows in the output.
struct Transposed {
    /// The batch axes of the input, with an axis of 1 instead of the matrix.
    batches: Layout,
    /// Number of rows in the output.
    rows: usize,
    columns: usize,
    /// Distance in the input between neighbouring columns of the output.
    stride: isize,
}

impl Transposed {
    /// Whether `y = x` is a copy of transposed matrices.
    fn of(x: &Raw<'_>, y: &RawMut<'_>) -> Option<Self> {
        let [ly, lx] = Layout::merged([&y.layout, &x.layout]);
        let outer = lx.rank().checked_sub(2)?;
        let (rows, columns, stride) = (lx.dims()[outer], lx.last(), lx.last_stride());
        let worthwhile = lx.strides()[outer] == 1 && stride != 1 && rows >= 8 && columns >= 8;
        if !worthwhile || !matches!(x.size, 1 | 2 | 4 | 8) || !ly.is_contiguous() {
            return None;
        }
        let dims = [&lx.dims()[..outer], &[1]].concat();
        let strides = [&lx.strides()[..outer], &[0]].concat();
        let batches = Layout::strided(&dims, &strides, lx.offset()).ok()?;
        Some(Transposed { batches, rows, columns, stride })
    }

    fn copy(&self, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
        let matrix = self.rows * self.columns;
        let dims = [y.layout.len() / matrix, matrix];
        let whole = Layout::strided(&dims, &[matrix as isize, 1], y.layout.extent().start)?;
        let part = LINE / x.size * self.columns;
        for_each_part("copy", y.with_layout(whole), part, 1, &|scratch, (batch, start), y| {
            let tile = scratch.words(LINE * COLUMNS / 8);
            let first = row_position(&self.batches, batch) + start / self.columns;
            match x.size {
                1 => self.rows_of::<u8>(x.bytes, first, tile, y),
                2 => self.rows_of::<u16>(x.bytes, first, tile, y),
                4 => self.rows_of::<u32>(x.bytes, first, tile, y),
                _ => self.rows_of::<u64>(x.bytes, first, tile, y),
            }
        })
    }

    /// Writes whole rows of the output, the first element of which is at `first` in the input.
    fn rows_of<T: Pod>(&self, x: &[u8], first: usize, tile: &mut [u64], y: &mut [u8]) -> TaskResult {
        let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
        let rows = y.len() / self.columns;
        let tile = cast_slice_mut::<u64, T>(tile);
        for column in (0..self.columns).step_by(COLUMNS) {
            let width = (self.columns - column).min(COLUMNS);
            for j in 0..width {
                let from = first.wrapping_add_signed(self.stride * (column + j) as isize);
                for (to, x) in tile[j..].iter_mut().step_by(COLUMNS).zip(&x[from..from + rows]) {
                    *to = *x;
                }
            }
            for (row, tile) in tile.chunks_exact(COLUMNS).take(rows).enumerate() {
                y[row * self.columns + column..][..width].copy_from_slice(&tile[..width]);
            }
        }
        Ok(())
    }
}

fn copy(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    if let Some(transposed) = Transposed::of(&x, &y) {
        return transposed.copy(x, y);
    }
    map_runs("copy", [x], y, 1, 1, &|[x], y| {
        y.copy_from_slice(x);
        Ok(())
    })
}

fn fill(y: RawMut<'_>, value: &[u8]) -> Result<()> {
    /// Elements whose size the compiler knows.
    fn repeat<const N: usize>(y: &mut [u8], value: &[u8]) {
        if let ([value], []) = value.as_chunks() {
            y.as_chunks_mut::<N>().0.fill(*value);
        }
    }
    map_runs("fill", [], y, 1, 1, &|[], y| {
        match value.len() {
            1 => repeat::<1>(y, value),
            2 => repeat::<2>(y, value),
            4 => repeat::<4>(y, value),
            8 => repeat::<8>(y, value),
            size => y.chunks_exact_mut(size).for_each(|e| e.copy_from_slice(value)),
        }
        Ok(())
    })
}

/// Numbers of a row that one task writes.
const PART: usize = 4096;

fn arange(op: Arange<f32>, y: RawMut<'_>) -> Result<()> {
    let (n, dtype) = (y.layout.last(), y.dtype);
    for_each_part("arange", y, PART, 4, &|_, (row, start), y| {
        let first = row as u64 * n as u64 + start as u64;
        on_num!(dtype, T => {
            let op = op.of_type::<T>();
            (first..).zip(cast_slice_mut::<u8, T>(y)).for_each(|(i, y)| *y = op.at(i));
            Ok(())
        }, else Err(unsupported_dtype(dtype)))
    })
}

impl<T: Num> Kernel<Arange<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Arange<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        arange(op.of_type(), RawMut::of(&mut a.y))
    }
}
impl Kernel<TensorCopy> for Cpu {
    fn compute(&self, call: Call<'_, '_, TensorCopy, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        copy(Raw::any(&a.x), RawMut::any(&mut a.y))
    }
}
impl<T: Element> Kernel<Fill<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Fill<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        fill(RawMut::of(&mut a.y), bytemuck::bytes_of(&op.value))
    }
}
