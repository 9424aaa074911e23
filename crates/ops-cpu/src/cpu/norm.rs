//! Normalisation.
use super::Cpu;
use super::rows::{Rows, each, each_pair, packed, with_packed};
use crate::{Host, Kernel};
use num_traits::Float as _;
use ops_core::ops::{
    AddRmsNorm, AddRmsNormArgs, GroupNorm, GroupNormArgs, LayerNorm, LayerNormArgs, RmsNorm, RmsNormArgs,
};
use ops_core::{Float, Layout, Result, Scalar, TensorMut, TensorRef, View};

/// Partial sums of a row, so that no running sum grows long and the loop can be vectorised.
const LANES: usize = 16;

/// `Σ f(x)` in the accumulator, pairwise over lanes.
pub(super) fn sum<T: Float>(x: &[T], f: impl Fn(T::Acc) -> T::Acc) -> T::Acc {
    let mut lanes = [T::Acc::default(); LANES];
    let chunks = x.chunks_exact(LANES);
    let tail = chunks.remainder();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane = *lane + f(v.acc());
        }
    }
    for (lane, v) in lanes.iter_mut().zip(tail) {
        *lane = *lane + f(v.acc());
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

fn count<A: Float>(n: usize) -> A {
    A::from_f64(n as f64)
}

/// Factor of a row in RMS norm.
fn rms_scale<T: Float>(x: &[T], eps: f64) -> T::Acc {
    let mean = sum(x, |v| v * v) / count(x.len());
    (mean + T::Acc::from_f64(eps)).sqrt().recip()
}

/// Mean and `1 / sqrt(var + eps)`, of values shifted by the first: a large mean costs no accuracy.
fn moments<T: Float>(x: &[T], eps: f64) -> (T::Acc, T::Acc, T::Acc) {
    let shift = x.first().map_or(T::Acc::default(), |v| v.acc());
    let n = count(x.len());
    let mean = sum(x, |v| v - shift) / n;
    let var = sum(x, |v| (v - shift - mean) * (v - shift - mean)) / n;
    (shift, mean, (var + T::Acc::from_f64(eps)).sqrt().recip())
}

/// A weight or bias in the accumulator's type.
fn widened<A: Float, W: Float>(x: &TensorRef<'_, Host, W>) -> Vec<A> {
    let data = x.data();
    x.layout().positions().map(|p| A::from_f64(data[p].to_f64())).collect()
}
fn widened_or<A: Float, W: Float>(x: &Option<TensorRef<'_, Host, W>>, n: usize, otherwise: f64) -> Vec<A> {
    x.as_ref().map_or_else(|| vec![A::from_f64(otherwise); n], widened)
}

impl<T: Float, W: Float> Kernel<RmsNorm<T, W>> for Cpu {
    fn compute(&self, op: &RmsNorm<T, W>, a: &mut RmsNormArgs<'_, Host, T, W>) -> Result<()> {
        let (x, weight) = (Rows::of(&a.x), widened::<T::Acc, W>(&a.weight));
        each(&mut a.y, 2 * weight.len(), Vec::new, |scratch, i, y| {
            let x = x.get(i, scratch);
            let scale = rms_scale(x, op.eps);
            for ((y, x), w) in y.iter_mut().zip(x).zip(&weight) {
                *y = T::from_acc(x.acc() * scale * *w);
            }
        });
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<LayerNorm<T, W>> for Cpu {
    fn compute(&self, op: &LayerNorm<T, W>, a: &mut LayerNormArgs<'_, Host, T, W>) -> Result<()> {
        let (x, n) = (Rows::of(&a.x), a.x.layout().last());
        let (weight, bias) =
            (widened_or::<T::Acc, W>(&a.weight, n, 1.0), widened_or::<T::Acc, W>(&a.bias, n, 0.0));
        each(&mut a.y, 3 * n, Vec::new, |scratch, i, y| {
            let x = x.get(i, scratch);
            let (shift, mean, scale) = moments(x, op.eps);
            for ((y, x), (w, b)) in y.iter_mut().zip(x).zip(weight.iter().zip(&bias)) {
                *y = T::from_acc((x.acc() - shift - mean) * scale * *w + *b);
            }
        });
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<AddRmsNorm<T, W>> for Cpu {
    fn compute(&self, op: &AddRmsNorm<T, W>, a: &mut AddRmsNormArgs<'_, Host, T, W>) -> Result<()> {
        let (x, residual, weight) = (Rows::of(&a.x), Rows::of(&a.residual), widened::<T::Acc, W>(&a.weight));
        let cost = 3 * weight.len();
        each_pair(&mut a.y, &mut a.sum, cost, <(Vec<T>, Vec<T>)>::default, |(sx, sr), i, y, sum| {
            for ((sum, x), r) in sum.iter_mut().zip(x.get(i, sx)).zip(residual.get(i, sr)) {
                *sum = x.add(*r);
            }
            // The norm is that of the rounded sum.
            let scale = rms_scale(sum, op.eps);
            for ((y, s), w) in y.iter_mut().zip(&*sum).zip(&weight) {
                *y = T::from_acc(s.acc() * scale * *w);
            }
        });
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<GroupNorm<T, W>> for Cpu {
    fn compute(&self, op: &GroupNorm<T, W>, a: &mut GroupNormArgs<'_, Host, T, W>) -> Result<()> {
        let &[batch, channels, ref inner @ ..] = a.x.dims() else { return Ok(()) };
        let (per_group, inner) = (channels / op.num_groups, inner.iter().product::<usize>());
        let (weight, bias) = (
            widened_or::<T::Acc, W>(&a.weight, channels, 1.0),
            widened_or::<T::Acc, W>(&a.bias, channels, 0.0),
        );
        // A group is a row of this shape.
        let groups = Layout::contiguous(&[batch * op.num_groups, per_group * inner])?;
        let x = packed(&a.x)?;
        let x = TensorRef::<Host, T>::new(&x, groups)?;
        with_packed(&mut a.y, |y| {
            let x = Rows::of(&x);
            each(&mut TensorMut::new(y, groups)?, 3 * groups.last(), Vec::new, |scratch, i, y| {
                let x = x.get(i, scratch);
                let (shift, mean, scale) = moments(x, op.eps);
                for (j, (y, x)) in y.iter_mut().zip(x).enumerate() {
                    let c = i % op.num_groups * per_group + j / inner;
                    *y = T::from_acc((x.acc() - shift - mean) * scale * weight[c] + bias[c]);
                }
            });
            Ok(())
        })
    }
}
