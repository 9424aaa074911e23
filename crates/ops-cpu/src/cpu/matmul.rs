//! Matrix products.
use super::quant::qlinear;
use super::rows::{map_runs, packed, scratch, widened, zeros};
use super::vectors::{on_vector, only_f64, report, store_mode, unsupported_dtype};
use super::{Cpu, panels, threads};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Linear, LinearSwiglu, MatMul};
use ops_core::{
    AnyTensor, Call, DType, Determinism, Element, Float, Layout, Operands, Packing, Parts, Result,
};
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
    dims: [usize; 2],
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

/// `c[..] = a[..] · b[..]` for stacks of matrices, accumulated in `A::Acc`.
fn stacked<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, mut c: RawMut<'_>) -> Result<()> {
    if c.layout.is_empty() {
        return Ok(());
    }
    if c.dtype == T::Acc::DTYPE && c.layout.is_contiguous() {
        let extent = c.layout.extent();
        return stack_into::<T>(a, b, &mut c.slice::<T::Acc>()[extent]);
    }
    let mut out = scratch::<T::Acc>(c.layout.len())?;
    stack_into::<T>(a, b, out.as_mut_slice())?;
    store_sums(&out, None, c)
}

fn stack_into<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, out: &mut [T::Acc]) -> Result<()> {
    let (a, b) = (Stack::<T>::of(a)?, Stack::<T>::of(b)?);
    let (m, k, n) = (a.dims[0], a.dims[1], b.dims[1]);
    let count = out.len() / (m * n);
    if count >= threads::count() && m * n * k <= MAX_SERIAL_WORK * 8 {
        // Many small products: compute each one on a single thread.
        let chunk = count.div_ceil(threads::count() * 4);
        let chunks = out.chunks_mut(m * n * chunk).enumerate();
        let one = |i: usize, c: &mut [T::Acc]| {
            gemm(Isa::best(), a.get(i)?, b.get(i)?, MatMut::new(c, m, n, n)?, false)
        };
        let some = |(t, c): (usize, &mut [T::Acc])| {
            c.chunks_exact_mut(m * n).enumerate().try_for_each(|(i, c)| one(t * chunk + i, c))
        };
        return match m * n * k * count <= MAX_SERIAL_WORK {
            true => report("matmul", chunks.into_iter().try_for_each(some)),
            false => report("matmul", threads::for_each_part(chunks.collect(), &some)),
        };
    }
    for (i, c) in out.chunks_exact_mut(m * n).enumerate() {
        let done = MatMut::new(c, m, n, n).and_then(|c| product(a.get(i)?, b.get(i)?, c));
        report("matmul", done)?;
    }
    Ok(())
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

pub(super) fn matmul(a: Raw<'_>, b: Raw<'_>, c: RawMut<'_>) -> Result<()> {
    match a.dtype {
        DType::F32 => stacked::<f32>(&a, &b, c),
        DType::F16 => stacked::<ops_core::f16>(&a, &b, c),
        DType::BF16 => stacked::<ops_core::bf16>(&a, &b, c),
        DType::F64 => stacked::<f64>(&a, &b, c),
        dtype => report("matmul", Err(unsupported_dtype(dtype))),
    }
}

/// `y = x · weightᵀ + bias`, for types that accumulate in f32.
fn linear_f32<T: Input<Acc = f32> + Element, W: Input<Acc = f32> + Element>(
    x: &Raw<'_>,
    weight: &Raw<'_>,
    bias: Option<&[f32]>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let (k, n) = (x.layout.last(), y.layout.last());
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let x = packed::<T>(x)?;
    let weight = Stack::<W>::of(weight)?;
    let multiply = |c: &mut [f32]| {
        let c = MatMut::new(c, m, n, n);
        report("linear", c.and_then(|c| product(Mat::row_major(&x, m, k)?, weight.get(0)?.transposed(), c)))
    };
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    store_sums(&sums, bias, y)
}

pub(super) fn linear(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    if weight.dtype.is_block() {
        return qlinear(x, weight, bias, y);
    }
    if x.dtype == DType::F64 || weight.dtype == DType::F64 {
        return linear_f64(x, weight, bias, y);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    on_vector!(x.dtype, T => on_vector!(weight.dtype, W => {
        linear_f32::<T, W>(&x, &weight, bias.as_deref(), y)
    }, else report("linear", Err(unsupported_dtype(weight.dtype)))), else report("linear", Err(unsupported_dtype(x.dtype))))
}

/// Computes entirely in f64, because `x` or the weight is f64.
fn linear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let (k, n) = (x.layout.last(), y.layout.last());
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let (x, weight, bias) = (x.values(), weight.values(), bias.map(|b| b.values()));
    let mut sums = zeros::<f64>(y.layout.len())?;
    let mut product = || {
        let (a, w) = (Mat::row_major(&x[..], m, k)?, Mat::row_major(&weight[..], n, k)?);
        product(a, w.transposed(), MatMut::new(&mut sums, m, n, n)?)
    };
    report("linear", product())?;
    let bias = |i: usize| bias.as_ref().map_or(0.0, |b| b[i % n]);
    y.scatter(y.layout.positions(), sums.iter().enumerate().map(|(i, v)| v + bias(i)));
    Ok(())
}

impl<T: Float> Kernel<MatMul<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, MatMul<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        matmul(Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.c))
    }
    fn determinism(&self, _: &MatMul<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}
impl<T: Float> Kernel<Linear<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Linear<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, bias, y) = (Raw::of(&a.x), Raw::any_if(&a.bias), RawMut::of(&mut a.y));
        match a.weight.packing() {
            Some(_) => panels::linear(x, &a.weight, bias, y),
            None => linear(x, Raw::any(&a.weight), bias, y),
        }
    }
    fn determinism(&self, _: &Linear<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    // The kernels for packed weights accumulate in f32, so they do not serve f64.
    fn reads(&self, _: &Linear<T>, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight" && *packing == panels::PANELS && T::DTYPE != DType::F64
    }
    fn pack(&self, _: &Linear<T>, operand: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        Ok(if operand == "weight" && T::DTYPE != DType::F64 { panels::pack(x) } else { x })
    }
}
/// Runs as parts: both products read `x` from the cache, so a fused kernel would save no memory traffic.
impl<T: Float> Kernel<LinearSwiglu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearSwiglu<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &LinearSwiglu<T>) -> bool {
        false
    }
    fn reads(&self, op: &LinearSwiglu<T>, operand: &'static str, packing: &'static Packing) -> bool {
        op.parts_read(self, operand, packing)
    }
}
