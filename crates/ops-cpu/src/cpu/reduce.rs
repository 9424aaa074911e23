//! Reductions over axes.
//!
//! There are three ways: one output per contiguous row; many outputs at once if the kept axis is contiguous,
//! row by row into accumulators; and for all other layouts one output per gathered row. f32, f16 and bf16 are
//! vectorised, except for products.
use super::Cpu;
use super::rows::{Scratch, for_each_part, gather};
use super::vectors::{TaskResult, on_vector, unsupported_dtype};
use super::{reduce_loops, threads};
use crate::host::raw::{Raw, RawMut, on_float, on_num};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{ArgReduce, Axes, Reduce, ReduceFn, Reduction};
use ops_core::{Call, DType, Element, Layout, Num, Result, Scalar};
use ops_simd::{Isa, rows as vector};

/// Number of elements that a task reduces at once, if each output is reduced from few.
const PART: usize = 1 << 14;
/// Number of columns in a task's part: their accumulators stay in the L1 cache.
const MAX_COLUMNS: usize = 2048;
const MIN_COLUMNS: usize = 256;
/// Rows that are summed in f32 before they are added to a total in f64.
const ROWS: usize = 64;

/// Where the elements of each output are.
struct Source<'a> {
    x: Raw<'a>,
    kept: Layout,
    reduced: Layout,
    /// Number of elements in a segment, and their stride.
    n: usize,
    stride: isize,
}

impl<'a> Source<'a> {
    fn new(x: Raw<'a>, Reduction { kept, reduced, .. }: Reduction) -> Self {
        Source { x, kept, reduced, n: reduced.last(), stride: reduced.last_stride() }
    }
    /// Positions of the segments that are reduced to one element; the first is at `first`.
    fn segments(&self, first: usize) -> impl Iterator<Item = usize> + use<> {
        let start = self.reduced.offset();
        self.reduced.rows().map(move |p| first.wrapping_add(p).wrapping_sub(start))
    }
    /// Elements per output.
    fn count(&self) -> usize {
        self.reduced.len()
    }
    /// Whether the outputs of a row come from neighbouring elements, while the elements of one output are not
    /// neighbours.
    fn is_columns(&self) -> bool {
        self.kept.last() >= 8 && self.kept.last_stride() == 1 && !(self.n >= 8 && self.stride == 1)
    }
    /// Whether each output is reduced from one contiguous row, and the rows of neighbouring outputs follow one another.
    fn is_rows(&self) -> bool {
        let follows = usize::try_from(self.kept.last_stride()) == Ok(self.n);
        self.stride == 1 && follows && self.n == self.count() && self.n > 0
    }
    /// The position of the first element of output `at` of row `row`.
    fn first(&self, row: usize, at: usize) -> usize {
        let stride = self.kept.last_stride();
        super::rows::row_position(&self.kept, row).wrapping_add_signed(stride * at as isize)
    }
    /// Calls `f` with each segment, shifted by `first` elements and contiguous.
    fn each_segment(
        &self,
        first: usize,
        scratch: &mut Scratch,
        f: &mut dyn FnMut(&[u8]) -> TaskResult,
    ) -> TaskResult {
        for segment in self.segments(first) {
            f(gather(&self.x, segment, self.n, self.stride, scratch))?;
        }
        Ok(())
    }
    /// Calls `f` with the positions of the first elements of a few rows to be reduced to one, in order, and the index of the
    /// first of those rows.
    fn each_rows(&self, first: usize, f: &mut dyn FnMut(&[usize], usize) -> TaskResult) -> TaskResult {
        let mut starts = [0; ROWS];
        let (mut len, mut done) = (0, 0);
        for segment in self.segments(first) {
            for i in 0..self.n {
                starts[len] = segment.wrapping_add_signed(self.stride * i as isize);
                len += 1;
                if len == ROWS {
                    f(&starts, done)?;
                    (len, done) = (0, done + ROWS);
                }
            }
        }
        if len > 0 { f(&starts[..len], done) } else { Ok(()) }
    }
    /// Number of outputs in a task's part of a row.
    fn part(&self) -> usize {
        let even = self.kept.last().div_ceil(2 * threads::count());
        if self.is_columns() {
            return even.next_multiple_of(64).clamp(MIN_COLUMNS, MAX_COLUMNS);
        }
        (PART / self.count().max(1)).min(even).max(1)
    }
}

pub(super) fn reduce(f: ReduceFn, x: Raw<'_>, y: RawMut<'_>, axes: Axes) -> Result<()> {
    let split = axes.split(f.name(), &x.layout, &y.layout)?;
    let (dtype, size) = (x.dtype, x.size);
    let source = Source::new(x, split);
    let y = y.with_layout(split.y);
    let (n, part) = (source.count(), source.part());
    for_each_part(f.name(), y, part, n, &|scratch, (row, first), y| {
        let at = source.first(row, first);
        let of_vectors = f != ReduceFn::Prod && matches!(dtype, DType::F32 | DType::F16 | DType::BF16);
        match (of_vectors, source.is_columns()) {
            (true, true) => {
                let mut totals = [0f64; MAX_COLUMNS];
                let totals = &mut totals[..y.len() / size];
                vector_columns(f, &source, at, totals)?;
                store(f, dtype, n, totals, y)
            }
            (true, false) if source.is_rows() => {
                for (i, y) in y.chunks_mut(ROWS * size).enumerate() {
                    let mut totals = [0f64; ROWS];
                    let totals = &mut totals[..y.len() / size];
                    vector_rows(f, &source, at + i * ROWS * source.n, totals)?;
                    store(f, dtype, n, totals, y)?;
                }
                Ok(())
            }
            (true, false) => {
                for (i, y) in y.chunks_exact_mut(size).enumerate() {
                    let total = vector_row(f, &source, source.first(row, first + i), scratch)?;
                    store(f, dtype, n, &[total], y)?;
                }
                Ok(())
            }
            (false, true) => {
                reduce_loops::columns(f, dtype, &|each| source.each_rows(at, each), source.x.bytes, n, y)
            }
            (false, false) => {
                for (i, y) in y.chunks_exact_mut(size).enumerate() {
                    let at = source.first(row, first + i);
                    reduce_loops::row(f, dtype, &mut |each| source.each_segment(at, scratch, each), n, y)?;
                }
                Ok(())
            }
        }
    })
}

/// Stores totals in the type of the output, rounded once.
fn store(f: ReduceFn, dtype: DType, n: usize, totals: &[f64], y: &mut [u8]) -> TaskResult {
    let n = if f == ReduceFn::Mean { n as f64 } else { 1.0 };
    on_float!(dtype, T => {
        for (y, total) in cast_slice_mut::<u8, T>(y).iter_mut().zip(totals) {
            // The method of f16 itself rounds twice, to f32 first.
            *y = <T as Scalar>::from_f64(total / n);
        }
        Ok(())
    }, else Err(unsupported_dtype(dtype)))
}

/// One output.
fn vector_row(
    f: ReduceFn,
    source: &Source<'_>,
    first: usize,
    scratch: &mut Scratch,
) -> Result<f64, super::vectors::Fault> {
    let isa = Isa::best();
    let mut total = match f {
        ReduceFn::Max => f64::NEG_INFINITY,
        ReduceFn::Min => f64::INFINITY,
        _ => 0.0,
    };
    source.each_segment(first, scratch, &mut |x| {
        on_vector!(source.x.dtype, T => {
            let (x, mut one) = (cast_slice::<u8, T>(x), [0f32]);
            of_rows(f, isa, x, x.len(), &mut one)?;
            let here = f64::from(one[0]);
            total = match f {
                ReduceFn::Max => Num::maximum(here, total),
                ReduceFn::Min => Num::minimum(here, total),
                _ => total + here,
            };
            Ok(())
        }, else Err(unsupported_dtype(source.x.dtype)))
    })?;
    Ok(total)
}

fn of_rows<T: ops_simd::Element>(f: ReduceFn, isa: Isa, x: &[T], n: usize, y: &mut [f32]) -> TaskResult {
    match f {
        ReduceFn::Max => vector::max(isa, x, n, y)?,
        ReduceFn::Min => vector::min(isa, x, n, y)?,
        _ => vector::sum(isa, x, n, y)?,
    }
    Ok(())
}

/// Up to `ROWS` neighbouring outputs, each of a row.
fn vector_rows(f: ReduceFn, source: &Source<'_>, first: usize, totals: &mut [f64]) -> TaskResult {
    let mut acc = [0f32; ROWS];
    let (acc, n) = (&mut acc[..totals.len()], source.n);
    on_vector!(source.x.dtype, T => {
        of_rows(f, Isa::best(), &source.x.slice::<T>()[first..][..acc.len() * n], n, acc)?;
    }, else return Err(unsupported_dtype(source.x.dtype)));
    totals.iter_mut().zip(acc).for_each(|(total, acc)| *total = f64::from(*acc));
    Ok(())
}

/// Neighbouring outputs.
fn vector_columns(f: ReduceFn, source: &Source<'_>, first: usize, totals: &mut [f64]) -> TaskResult {
    let isa = Isa::best();
    let (columns, start) = match f {
        ReduceFn::Max => (vector::Columns::Max, f32::NEG_INFINITY),
        ReduceFn::Min => (vector::Columns::Min, f32::INFINITY),
        _ => (vector::Columns::Sum, 0.0),
    };
    let sums = columns == vector::Columns::Sum;
    let mut acc = [start; MAX_COLUMNS];
    let acc = &mut acc[..totals.len()];
    source.each_rows(first, &mut |starts, _| {
        on_vector!(source.x.dtype, T => vector::fold_columns(isa, columns, source.x.slice::<T>(), starts, acc)?, else return Err(unsupported_dtype(source.x.dtype)));
        if sums {
            totals.iter_mut().zip(&mut *acc).for_each(|(total, acc)| *total += f64::from(core::mem::take(acc)));
        }
        Ok(())
    })?;
    if !sums {
        totals.iter_mut().zip(acc).for_each(|(total, acc)| *total = f64::from(*acc));
    }
    Ok(())
}

fn arg_reduce(smallest: bool, x: Raw<'_>, y: RawMut<'_>, axis: isize) -> Result<()> {
    let name = if smallest { "argmin" } else { "argmax" };
    let split = Axes::from(axis).split(name, &x.layout, &y.layout)?;
    let (dtype, source) = (x.dtype, Source::new(x, split));
    for_each_part(name, y.with_layout(split.y), source.part(), source.count(), &|scratch, (row, first), y| {
        let y = cast_slice_mut::<u8, u32>(y);
        on_vector!(dtype, T => if source.is_columns() {
            return arg_columns::<T>(smallest, &source, source.first(row, first), y);
        }, else {});
        for (i, y) in y.iter_mut().enumerate() {
            let mut index = 0;
            source.each_segment(source.first(row, first + i), scratch, &mut |x| {
                index = on_vector!(dtype, T => vector::arg(Isa::best(), smallest, cast_slice::<u8, T>(x)), else on_num!(dtype, T => reduce_loops::arg(smallest, cast_slice::<u8, T>(x)), else return Err(unsupported_dtype(dtype))));
                Ok(())
            })?;
            *y = index as u32;
        }
        Ok(())
    })
}

/// The indices of the largest elements of neighbouring columns.
fn arg_columns<T: Element + ops_simd::Element>(
    smallest: bool,
    source: &Source<'_>,
    first: usize,
    y: &mut [u32],
) -> TaskResult {
    let (isa, x) = (Isa::best(), source.x.slice::<T>());
    let mut best = [0f32; MAX_COLUMNS];
    let best = &mut best[..y.len()];
    for (best, x) in best.iter_mut().zip(&x[first..]) {
        *best = x.to_f32();
    }
    y.fill(0);
    source.each_rows(first, &mut |starts, done| {
        Ok(vector::arg_columns(isa, smallest, x, (starts, done as u32), best, y)?)
    })
}

impl<T: Num> Kernel<Reduce<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Reduce<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        reduce(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y), op.axes())
    }
}
impl<T: Num> Kernel<ArgReduce<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, ArgReduce<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        arg_reduce(op.smallest, Raw::of(&a.x), RawMut::of(&mut a.y), op.axis)
    }
}
