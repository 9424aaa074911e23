//! Products of matrices.
use super::Cpu;
use super::rows::{map, packed, widened, zeros};
use super::vectors::{on_vector, store, sure, told};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Linear, LinearArgs, MatMul, MatMulArgs};
use ops_core::{DType, Element, Error, Float, Layout, Result};
use ops_simd::Isa;
use ops_simd::gemm::{Input, Mat, MatMut, gemm};
use std::borrow::Cow;

/// Multiplications below which a product stays on the caller's thread.
const SMALL: usize = 1 << 18;

/// Columns of a task are a multiple of this: whole vectors, whole cache lines.
const COLUMNS: usize = 64;

/// `c = a · b`, cut over threads by the longer side of `c`.
pub(super) fn product<A: Input, B: Input<Acc = A::Acc>>(
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    tasks: usize,
) -> core::result::Result<(), ops_simd::Error> {
    let (m, k, n) = (a.rows(), a.cols(), b.cols());
    if tasks <= 1 || m.saturating_mul(k).saturating_mul(n) <= SMALL {
        return gemm(Isa::best(), a, b, c, false);
    }
    if n >= m && n >= 2 * COLUMNS {
        let mid = (n / 2).next_multiple_of(COLUMNS);
        let (left, right) = c.split_at_col(mid);
        let (bl, br) = (b.col_range(0, mid)?, b.col_range(mid, n)?);
        let (l, r) =
            rayon::join(|| product(a, bl, left, tasks / 2), || product(a, br, right, tasks - tasks / 2));
        return l.and(r);
    }
    if m < 2 {
        return gemm(Isa::best(), a, b, c, false);
    }
    let mid = m / 2;
    let (top, bottom) = c.split_at_row(mid);
    let (at, ab) = (a.row_range(0, mid)?, a.row_range(mid, m)?);
    let (t, d) = rayon::join(|| product(at, b, top, tasks / 2), || product(ab, b, bottom, tasks - tasks / 2));
    t.and(d)
}

/// As many tasks as threads.
pub(super) fn tasks() -> usize {
    rayon::current_num_threads()
}

/// Matrices of a stack, in place where their strides allow it, else copied.
struct Stack<'a, T: Clone> {
    data: Cow<'a, [T]>,
    /// First elements.
    firsts: Vec<usize>,
    dims: [usize; 2],
    strides: [usize; 2],
}

impl<'a, T: Element> Stack<'a, T> {
    fn of(x: &Raw<'a>) -> Result<Self> {
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
    fn get(&self, i: usize) -> core::result::Result<Mat<'_, T>, ops_simd::Error> {
        let [m, n] = self.dims;
        let data = if m == 0 || n == 0 { &[][..] } else { &self.data[self.firsts[i]..] };
        Mat::new(data, m, n, self.strides[0], self.strides[1])
    }
}

/// `c[..] = a[..] · b[..]` for stacks whose products are summed in `A::Acc`.
fn stacked<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, c: RawMut<'_>) -> Result<()> {
    let &[ref batch @ .., m, n] = c.layout.dims() else { return Ok(()) };
    let (a, b) = (Stack::<T>::of(a)?, Stack::<T>::of(b)?);
    let mut out = zeros::<T::Acc>(c.layout.len())?;
    if out.is_empty() {
        return Ok(());
    }
    let count: usize = batch.iter().product();
    let one = |i: usize, c: &mut [T::Acc], tasks: usize| {
        product(a.get(i)?, b.get(i)?, MatMut::new(c, m, n, n)?, tasks)
    };
    if count >= tasks() && m * n * a.dims[1] <= SMALL * 8 {
        // Many products: each on one thread.
        use rayon::prelude::*;
        let cut = count.div_ceil(tasks() * 4);
        let done = out.par_chunks_mut(m * n * cut).enumerate().map(|(t, c)| {
            c.chunks_exact_mut(m * n).enumerate().try_for_each(|(i, c)| one(t * cut + i, c, 1))
        });
        told("matmul", done.reduce(|| Ok(()), |a, b| a.and(b)))?;
    } else {
        for (i, c) in out.chunks_exact_mut(m * n).enumerate() {
            told("matmul", one(i, c, tasks()))?;
        }
    }
    stored(&out, None, c)
}

/// Sums as elements of `y`, with a bias along the last axis, each rounded once.
pub(super) fn stored<A: Element>(sums: &[A], bias: Option<&[f32]>, y: RawMut<'_>) -> Result<()> {
    let sums_layout = Layout::of(y.layout.shape());
    let x = Raw { bytes: cast_slice(sums), size: size_of::<A>(), dtype: A::DTYPE, layout: sums_layout };
    let (isa, dtype, n, store) = (Isa::best(), y.dtype, y.layout.last(), store(y.bytes.len()));
    map([x], y, n, 1, &|[x], y| {
        on_vector!(dtype, T => {
            let x = cast_slice::<u8, f32>(x);
            match bias {
                None => sure(ops_simd::cast(isa, x, cast_slice_mut::<u8, T>(y), store)),
                Some(bias) => {
                    let rows = x.chunks_exact(n).zip(cast_slice_mut::<u8, T>(y).chunks_exact_mut(n));
                    for (x, y) in rows {
                        let added = x.iter().zip(bias).map(|(x, b)| x + b);
                        y.iter_mut().zip(added).for_each(|(y, v)| *y = <T as ops_simd::Element>::from_f32(v));
                    }
                }
            }
        }, else y.copy_from_slice(x))
    });
    Ok(())
}

fn matmul(a: Raw<'_>, b: Raw<'_>, c: RawMut<'_>) -> Result<()> {
    match a.dtype {
        DType::F32 => stacked::<f32>(&a, &b, c),
        DType::F16 => stacked::<ops_core::f16>(&a, &b, c),
        DType::BF16 => stacked::<ops_core::bf16>(&a, &b, c),
        _ => stacked::<f64>(&a, &b, c),
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
        let mut product = || {
            product(Mat::row_major(&x, m, k)?, weight.get(0)?.transposed(), MatMut::new(c, m, n, n)?, tasks())
        };
        told("linear", product())
    };
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = zeros::<f32>(y.layout.len())?;
    multiply(&mut sums)?;
    stored(&sums, bias, y)
}

fn linear_of(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    if x.dtype == DType::F64 || weight.dtype == DType::F64 {
        return linear_f64(x, weight, bias, y);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    on_vector!(x.dtype, T => on_vector!(weight.dtype, W => {
        linear::<T, W>(&x, &weight, bias.as_deref(), y)
    }, else Err(no_kernel("weight", weight.dtype))), else Err(no_kernel("x", x.dtype)))
}

fn no_kernel(operand: &'static str, dtype: DType) -> Error {
    Error::Unsupported { op: "linear", backend: "cpu", reason: ops_core::Reason::DType { operand, dtype } }
}

/// With an operand of f64, everything in f64.
fn linear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let (k, n) = (x.layout.last(), y.layout.last());
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let (x, weight, bias) = (x.values(), weight.values(), bias.map(|b| b.values()));
    let mut sums = zeros::<f64>(y.layout.len())?;
    let mut product = || {
        let (a, w) = (Mat::row_major(&x[..], m, k)?, Mat::row_major(&weight[..], n, k)?);
        product(a, w.transposed(), MatMut::new(&mut sums, m, n, n)?, tasks())
    };
    told("linear", product())?;
    let bias = |i: usize| bias.as_ref().map_or(0.0, |b| b[i % n]);
    y.scatter(y.layout.positions(), sums.iter().enumerate().map(|(i, v)| v + bias(i)));
    Ok(())
}

impl<T: Float> Kernel<MatMul<T>> for Cpu {
    fn compute(&self, _: &MatMul<T>, a: &mut MatMulArgs<'_, Host, T>) -> Result<()> {
        matmul(Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.c))
    }
}
impl<T: Float, W: Float, A: Float> Kernel<Linear<T, W, A>> for Cpu {
    fn compute(&self, _: &Linear<T, W, A>, a: &mut LinearArgs<'_, Host, T, W, A>) -> Result<()> {
        linear_of(Raw::of(&a.x), Raw::of(&a.weight), Raw::optional(&a.bias), RawMut::of(&mut a.y))
    }
}
