//! Products of matrices.
use super::quant::qlinear;
use super::rows::{map, packed, scratch, widened, zeros};
use super::vectors::{no_code, on_vector, only_f64, report, store};
use super::{Cpu, panels, threads};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Linear, MatMul};
use ops_core::{AnyTensor, Call, DType, Element, Float, Layout, Packing, Result};
use ops_simd::Isa;
use ops_simd::gemm::{Input, Mat, MatMut, gemm};
use std::borrow::Cow;

/// Multiplications below which a product stays on the caller's thread.
const SMALL: usize = 1 << 18;

/// Rows of the first factor up to which a product is bound by reading the second.
const FEW: usize = 8;

/// Columns of a task are a multiple of this: whole vectors, whole cache lines.
const COLUMNS: usize = 64;

/// `c = a · b`, cut over threads.
pub(super) fn product<A: Input, B: Input<Acc = A::Acc>>(
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
) -> core::result::Result<(), ops_simd::Error> {
    let work = a.rows().saturating_mul(a.cols()).saturating_mul(b.cols());
    if work <= SMALL || threads::count() <= 1 {
        return gemm(Isa::best(), a, b, c, false);
    }
    // Few rows are read once and need no balance of copies: more pieces, so that a slow thread does not hold up all.
    let pieces = threads::count() * if a.rows() <= FEW { 4 } else { 1 };
    let mut parts = Vec::new();
    cut((a, b, c), pieces.min(work / (SMALL / 4)), &mut parts)?;
    threads::each_part(parts, &|(a, b, c)| gemm(Isa::best(), a, b, c, false))
}

/// `c`, whose every column costs `work` multiplications, in parts of whole `tile`s of columns, some `each` for a thread, with
/// their first columns. With more than one, a thread that is slowed down does not hold up all.
pub(super) fn columns(
    c: MatMut<'_, f32>,
    work: usize,
    tile: usize,
    each: usize,
) -> Vec<(usize, MatMut<'_, f32>)> {
    let (n, all) = (c.cols(), work.saturating_mul(c.cols()));
    let few = all <= SMALL || threads::count() <= 1;
    let pieces = if few { 1 } else { (threads::count() * each).min(all / (SMALL / 4)) };
    let step = n.div_ceil(pieces).next_multiple_of(tile).max(1);
    let (mut parts, mut rest, mut first) = (Vec::new(), c, 0);
    while rest.cols() > 0 {
        let (part, after) = rest.split_at_col(step);
        parts.push((first, part));
        (rest, first) = (after, first + step);
    }
    parts
}

/// Factors and product.
type Part<'a, A, B, C> = (Mat<'a, A>, Mat<'a, B>, MatMut<'a, C>);

/// Halves the longer side of `c` until there are `pieces`.
fn cut<'a, A: Input, B: Input<Acc = A::Acc>>(
    (a, b, c): Part<'a, A, B, A::Acc>,
    pieces: usize,
    parts: &mut Vec<Part<'a, A, B, A::Acc>>,
) -> core::result::Result<(), ops_simd::Error> {
    let (m, n) = (a.rows(), b.cols());
    let (first, second) = (pieces / 2, pieces - pieces / 2);
    if pieces > 1 && n >= m && n >= 2 * COLUMNS {
        let mid = (n * first / pieces).next_multiple_of(COLUMNS).min(n);
        let (left, right) = c.split_at_col(mid);
        cut((a, b.col_range(0, mid)?, left), first, parts)?;
        return cut((a, b.col_range(mid, n)?, right), second, parts);
    }
    if pieces > 1 && m > 1 {
        let mid = (m * first / pieces).max(1);
        let (top, bottom) = c.split_at_row(mid);
        cut((a.row_range(0, mid)?, b, top), first, parts)?;
        return cut((a.row_range(mid, m)?, b, bottom), second, parts);
    }
    parts.push((a, b, c));
    Ok(())
}

/// Matrices of a stack, in place where their strides allow it, else copied.
pub(super) struct Stack<'a, T: Clone> {
    data: Cow<'a, [T]>,
    /// First elements.
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

/// `c[..] = a[..] · b[..]` for stacks whose products are summed in `A::Acc`.
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
    stored(&out, None, c)
}

fn stack_into<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, out: &mut [T::Acc]) -> Result<()> {
    let (a, b) = (Stack::<T>::of(a)?, Stack::<T>::of(b)?);
    let (m, k, n) = (a.dims[0], a.dims[1], b.dims[1]);
    let count = out.len() / (m * n);
    if count >= threads::count() && m * n * k <= SMALL * 8 {
        // Many products: each on one thread.
        let chunk = count.div_ceil(threads::count() * 4);
        let chunks = out.chunks_mut(m * n * chunk).enumerate();
        let one = |i: usize, c: &mut [T::Acc]| {
            gemm(Isa::best(), a.get(i)?, b.get(i)?, MatMut::new(c, m, n, n)?, false)
        };
        let some = |(t, c): (usize, &mut [T::Acc])| {
            c.chunks_exact_mut(m * n).enumerate().try_for_each(|(i, c)| one(t * chunk + i, c))
        };
        return match m * n * k * count <= SMALL {
            true => report("matmul", chunks.into_iter().try_for_each(some)),
            false => report("matmul", threads::each_part(chunks.collect(), &some)),
        };
    }
    for (i, c) in out.chunks_exact_mut(m * n).enumerate() {
        let done = MatMut::new(c, m, n, n).and_then(|c| product(a.get(i)?, b.get(i)?, c));
        report("matmul", done)?;
    }
    Ok(())
}

/// Sums as elements of `y`, with a bias along the last axis, each rounded once.
pub(super) fn stored<A: Element>(sums: &[A], bias: Option<&[f32]>, y: RawMut<'_>) -> Result<()> {
    let sums_layout = Layout::of(y.layout.shape());
    let x = Raw { bytes: cast_slice(sums), size: size_of::<A>(), dtype: A::DTYPE, layout: sums_layout };
    let (isa, dtype, n, store) = (Isa::best(), y.dtype, y.layout.last(), store(y.bytes.len()));
    map("linear", [x], y, n, 1, &|[x], y| {
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
        dtype => report("matmul", Err(no_code(dtype))),
    }
}

/// `y = x · weightᵀ + bias`, `x` and the weight of types that are summed in f32.
fn linear<T: Input<Acc = f32> + Element, W: Input<Acc = f32> + Element>(
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
    stored(&sums, bias, y)
}

pub(super) fn linear_of(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    if weight.dtype.is_block() {
        return qlinear(x, weight, bias, y);
    }
    if x.dtype == DType::F64 || weight.dtype == DType::F64 {
        return linear_f64(x, weight, bias, y);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    on_vector!(x.dtype, T => on_vector!(weight.dtype, W => {
        linear::<T, W>(&x, &weight, bias.as_deref(), y)
    }, else report("linear", Err(no_code(weight.dtype)))), else report("linear", Err(no_code(x.dtype))))
}

/// With an operand of f64, everything in f64.
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
}
impl<T: Float> Kernel<Linear<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Linear<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, bias, y) = (Raw::of(&a.x), Raw::any_if(&a.bias), RawMut::of(&mut a.y));
        match a.weight.packing() {
            Some(_) => panels::linear(x, &a.weight, bias, y),
            None => linear_of(x, Raw::any(&a.weight), bias, y),
        }
    }
    // Kernels in panels and tiles sum in f32.
    fn reads(&self, _: &Linear<T>, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight" && *packing == panels::PANELS && T::DTYPE != DType::F64
    }
    fn pack(&self, _: &Linear<T>, operand: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        Ok(if operand == "weight" && T::DTYPE != DType::F64 { panels::pack(x) } else { x })
    }
}
