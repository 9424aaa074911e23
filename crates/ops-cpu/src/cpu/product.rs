//! What all products share: splitting them over threads, stacks of matrices, and storing their sums.
use super::rows::packed;
use super::runs::map_runs;
use super::threads;
use super::vectors::{on_vector, only_f64, store_mode};
use crate::host::raw::{Raw, RawMut};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::{Element, Layout, Result};
use ops_simd::Isa;
use ops_simd::gemm::{self, Input, Mat, MatMut};
use std::borrow::Cow;

/// A product of at most this many multiplications stays on the caller's thread.
pub(super) const MAX_SERIAL_WORK: usize = 1 << 18;

/// Up to this many rows of the first factor, reading the second factor limits the speed.
const MAX_SKINNY_ROWS: usize = 8;

/// Tasks get multiples of this many columns, so that they work on whole vectors and cache lines.
const COLUMN_ALIGNMENT: usize = 64;

/// `c = a · b`, or adds it to `c`, on this thread; summed by row if the call requires it.
pub(super) fn gemm<A: Input, B: Input<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> core::result::Result<(), ops_simd::Error> {
    match threads::by_row() {
        true => gemm::gemm_by_row(isa, a, b, c, accumulate),
        false => gemm::gemm(isa, a, b, c, accumulate),
    }
}

/// `c = a · b`, split over threads.
pub(super) fn product<A: Input, B: Input<Acc = A::Acc>>(
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
) -> core::result::Result<(), ops_simd::Error> {
    let work = a.rows().saturating_mul(a.cols()).saturating_mul(b.cols());
    if work <= MAX_SERIAL_WORK || threads::count() <= 1 {
        return gemm(Isa::best(), a, b, c, false);
    }
    // With few rows, splitting copies nothing twice. Use several pieces per thread, so that one slow thread does not
    // delay the whole product.
    let pieces = threads::count() * if a.rows() <= MAX_SKINNY_ROWS { 4 } else { 1 };
    let mut parts = Vec::new();
    split_product((a, b, c), pieces.min(work / (MAX_SERIAL_WORK / 4)), &mut parts)?;
    threads::for_each_part(parts, &|(a, b, c)| gemm(Isa::best(), a, b, c, false))
}

/// Splits `c` into column ranges that are multiples of `tile`, about `per_thread` of them for each thread. Returns each
/// part with the index of its first column. `work` is the number of multiplications per column.
///
/// Several parts per thread keep one slow thread from delaying the whole product.
pub(super) fn split_columns(
    c: MatMut<'_, f32>,
    work: usize,
    tile: usize,
    per_thread: usize,
) -> Vec<(usize, MatMut<'_, f32>)> {
    let (n, all) = (c.cols(), work.saturating_mul(c.cols()));
    let few = all <= MAX_SERIAL_WORK || threads::count() <= 1;
    let pieces = if few { 1 } else { (threads::count() * per_thread).min(all / (MAX_SERIAL_WORK / 4)) };
    let step = n.div_ceil(pieces).next_multiple_of(tile).max(1);
    let (mut parts, mut rest, mut first) = (Vec::new(), c, 0);
    while rest.cols() > 0 {
        let (part, after) = rest.split_at_col(step);
        parts.push((first, part));
        (rest, first) = (after, first + step);
    }
    parts
}

/// The two factors and the product.
type Part<'a, A, B, C> = (Mat<'a, A>, Mat<'a, B>, MatMut<'a, C>);

/// Splits the longer side of `c` in two, recursively, until there are `pieces` parts.
fn split_product<'a, A: Input, B: Input<Acc = A::Acc>>(
    (a, b, c): Part<'a, A, B, A::Acc>,
    pieces: usize,
    parts: &mut Vec<Part<'a, A, B, A::Acc>>,
) -> core::result::Result<(), ops_simd::Error> {
    let (m, n) = (a.rows(), b.cols());
    let (first, second) = (pieces / 2, pieces - pieces / 2);
    if pieces > 1 && n >= m && n >= 2 * COLUMN_ALIGNMENT {
        let mid = (n * first / pieces).next_multiple_of(COLUMN_ALIGNMENT).min(n);
        let (left, right) = c.split_at_col(mid);
        split_product((a, b.col_range(0, mid)?, left), first, parts)?;
        return split_product((a, b.col_range(mid, n)?, right), second, parts);
    }
    if pieces > 1 && m > 1 {
        let mid = (m * first / pieces).max(1);
        let (top, bottom) = c.split_at_row(mid);
        split_product((a.row_range(0, mid)?, b, top), first, parts)?;
        return split_product((a.row_range(mid, m)?, b, bottom), second, parts);
    }
    parts.push((a, b, c));
    Ok(())
}

/// A stack of matrices: borrowed if its strides are not negative, otherwise copied.
pub(super) struct Stack<'a, T: Clone> {
    data: Cow<'a, [T]>,
    /// Position of the first element of each matrix.
    firsts: Vec<usize>,
    pub(super) dims: [usize; 2],
    strides: [usize; 2],
}

impl<'a, T: Element> Stack<'a, T> {
    pub(super) fn of(x: &Raw<'a>) -> Result<Self> {
        let l = x.layout;
        let split = l.rank() - 2;
        let dims = [l.dims()[split], l.dims()[split + 1]];
        let steps = &l.strides()[split..];
        if let (Ok(rows), Ok(columns)) = (usize::try_from(steps[0]), usize::try_from(steps[1])) {
            let first = Layout::strided(&l.dims()[..split], &l.strides()[..split], l.offset())?;
            let firsts = first.positions().collect();
            return Ok(Stack { data: x.slice().into(), firsts, dims, strides: [rows, columns] });
        }
        let size = dims[0] * dims[1];
        let count = l.dims()[..split].iter().product::<usize>();
        let firsts = (0..count).map(|i| i * size).collect();
        Ok(Stack { data: packed(x)?, firsts, dims, strides: [dims[1], 1] })
    }
    pub(super) fn get(&self, i: usize) -> core::result::Result<Mat<'_, T>, ops_simd::Error> {
        let [m, n] = self.dims;
        let data = if m == 0 || n == 0 { &[][..] } else { &self.data[self.firsts[i]..] };
        Mat::new(data, m, n, self.strides[0], self.strides[1])
    }
}

/// Adds the bias to `sums` and stores them in `y`, rounding each element once.
pub(super) fn store_sums<A: Element>(sums: &[A], bias: Option<&[f32]>, y: RawMut<'_>) -> Result<()> {
    let sums_layout = Layout::of(y.layout.shape());
    let x = Raw { bytes: cast_slice(sums), size: size_of::<A>(), dtype: A::DTYPE, layout: sums_layout };
    let (isa, dtype, n, store) = (Isa::best(), y.dtype, y.layout.last(), store_mode(y.bytes.len()));
    map_runs("linear", [x], y, n, 1, &|[x], y| {
        on_vector!(dtype, T => {
            let x = cast_slice::<u8, f32>(x);
            match bias {
                None => ops_simd::cast(isa, x, cast_slice_mut::<u8, T>(y), store)?,
                Some(bias) => {
                    let rows = x.chunks_exact(n).zip(cast_slice_mut::<u8, T>(y).chunks_exact_mut(n));
                    for (x, y) in rows {
                        let added = x.iter().zip(bias).map(|(x, b)| x + b);
                        y.iter_mut().zip(added).for_each(|(y, v)| *y = <T as ops_simd::Element>::from_f32(v));
                    }
                }
            }
            Ok(())
        }, else {
            only_f64(dtype)?;
            y.copy_from_slice(x);
            Ok(())
        })
    })
}
