//! Products of matrices.
use super::Cpu;
use super::rows::{Rows, each, scratch, with_packed};
use crate::{Host, Kernel};
use ops_core::ops::{Linear, LinearArgs, MatMul, MatMulArgs};
use ops_core::{Float, Layout, Result, Scalar, TensorMut, TensorRef, View};

/// Partial sums of a dot product.
const LANES: usize = 32;

/// `a · b` in the accumulator.
pub(super) fn dot<A: num_traits::Float + Default>(a: &[A], b: &[A]) -> A {
    let mut lanes = [A::default(); LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail = a_chunks.remainder().iter().zip(b_chunks.remainder());
    for (a, b) in a_chunks.zip(b_chunks) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane = *lane + *a * *b;
        }
    }
    for (lane, (a, b)) in lanes.iter_mut().zip(tail) {
        *lane = *lane + *a * *b;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = lanes[i] + lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The elements in the accumulator's type, in row-major order.
pub(super) fn widened<A: Float, T: Float>(x: &TensorRef<'_, Host, T>) -> Result<Vec<A>> {
    let (data, mut wide) = (x.data(), scratch(x.layout().len())?);
    wide.extend(x.layout().positions().map(|p| A::from_f64(data[p].to_f64())));
    Ok(wide)
}

/// `y[i, j] = x[i, :] · row(j)`, `+ bias[j]`: `x` is `[m, k]` and already widened, `y` is `[m, n]`.
///
/// Rows of the weight are widened once for all rows of `x`; the output is filled column by column
/// and transposed at the end where there are several rows.
pub(super) fn products<T: Float, S>(
    x: &[T::Acc],
    k: usize,
    y: &mut [T],
    n: usize,
    bias: Option<&[T::Acc]>,
    state: impl Fn() -> S + Sync,
    row: impl Fn(&mut S, usize, &mut Vec<T::Acc>) + Sync,
) -> Result<()> {
    let m = y.len() / n.max(1);
    let columns = Layout::contiguous(&[n, m])?;
    let mut transposed = scratch::<T>(if m == 1 { 0 } else { n * m })?;
    transposed.resize(if m == 1 { 0 } else { n * m }, T::zeroed());
    let to: &mut [T] = if m == 1 { &mut *y } else { &mut transposed };
    let state = || (state(), Vec::with_capacity(k));
    each(&mut TensorMut::new(to, columns)?, m * k, state, |(state, w), j, column| {
        w.clear();
        row(state, j, w);
        let bias = bias.map_or(T::Acc::default(), |b| b[j]);
        for (i, y) in column.iter_mut().enumerate() {
            *y = T::from_acc(dot(&x[i * k..][..k], w) + bias);
        }
    });
    for (i, y) in y.iter_mut().enumerate().take(transposed.len()) {
        *y = transposed[i % n * m + i / n];
    }
    Ok(())
}

impl<T: Float, W: Float, A: Float> Kernel<Linear<T, W, A>> for Cpu {
    fn compute(&self, _: &Linear<T, W, A>, a: &mut LinearArgs<'_, Host, T, W, A>) -> Result<()> {
        let bias = a.bias.as_ref().map(widened::<T::Acc, A>).transpose()?;
        let (x, k, n) = (widened::<T::Acc, T>(&a.x)?, a.x.layout().last(), a.y.layout().last());
        let weight = Rows::of(&a.weight);
        with_packed(&mut a.y, |y| {
            products(&x, k, y, n, bias.as_deref(), Vec::new, |scratch, j, w| {
                w.extend(weight.get(j, scratch).iter().map(|v| T::Acc::from_f64(v.to_f64())));
            })
        })
    }
}

impl<T: Float> Kernel<MatMul<T>> for Cpu {
    fn compute(&self, _: &MatMul<T>, args: &mut MatMulArgs<'_, Host, T>) -> Result<()> {
        // The columns of `b` are rows of its transpose.
        let b = args.b.transpose(-1, -2)?;
        let [.., m, n] = *args.c.dims() else { return Ok(()) };
        let (k, a) = (args.a.layout().last(), widened::<T::Acc, T>(&args.a)?);
        let b = Rows::of(&b);
        with_packed(&mut args.c, |c| {
            for (stack, c) in c.chunks_exact_mut((m * n).max(1)).enumerate() {
                products(&a[stack * m * k..][..m * k], k, c, n, None, Vec::new, |scratch, j, w| {
                    w.extend(b.get(stack * n + j, scratch).iter().map(|v| v.acc()));
                })?;
            }
            Ok(())
        })
    }
}
