//! Products of matrices.
use super::{Reference, vector};
use crate::{Host, Kernel};
use ops_core::ops::{Linear, LinearArgs, MatMul, MatMulArgs};
use ops_core::{Float, Layout, Result, View};

/// The matrices of a stack: layouts of rank 2.
fn matrices(stack: &Layout) -> impl Iterator<Item = (usize, [isize; 2])> + use<> {
    let r = stack.rank();
    let steps = [stack.strides()[r - 2], stack.strides()[r - 1]];
    let first =
        stack.narrow(-1, 0, stack.dims()[r - 1].min(1)).and_then(|l| l.narrow(-2, 0, l.dims()[r - 2].min(1)));
    first.into_iter().flat_map(|l| l.positions()).map(move |p| (p, steps))
}

/// The position of an element of a matrix.
fn at((first, [row, column]): (usize, [isize; 2]), i: usize, j: usize) -> usize {
    first.wrapping_add_signed(row * i as isize + column * j as isize)
}

impl<T: Float> Kernel<MatMul<T>> for Reference {
    fn compute(&self, _: &MatMul<T>, args: &mut MatMulArgs<'_, Host, T>) -> Result<()> {
        let (la, lb, lc) = (*args.a.layout(), *args.b.layout(), *args.c.layout());
        let (a, b, c) = (args.a.data(), args.b.data(), args.c.data_mut());
        let [.., m, n] = *lc.dims() else { return Ok(()) };
        let k = la.last();
        if k == 0 {
            lc.positions().for_each(|p| c[p] = T::from_f64(0.0));
            return Ok(());
        }
        for ((ma, mb), mc) in matrices(&la).zip(matrices(&lb)).zip(matrices(&lc)) {
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let dot: f64 = (0..k).map(|l| a[at(ma, i, l)].to_f64() * b[at(mb, l, j)].to_f64()).sum();
                c[at(mc, i, j)] = T::from_f64(dot);
            }
        }
        Ok(())
    }
}

impl<T: Float, W: Float, A: Float> Kernel<Linear<T, W, A>> for Reference {
    fn compute(&self, _: &Linear<T, W, A>, args: &mut LinearArgs<'_, Host, T, W, A>) -> Result<()> {
        let bias = args.bias.as_ref().map(vector);
        let (lw, weight) = (*args.weight.layout(), args.weight.data());
        let row = |j: usize| lw.narrow(0, j, 1).map(|l| l.positions().map(|p| weight[p].to_f64()).collect());
        dot_rows(args.x, &mut args.y, row, bias.as_deref())
    }
}

/// `y[.., j] = x[.., :] · row(j) + bias[j]`: linear layers, whatever their rows are made of.
pub(super) fn dot_rows<T: Float>(
    x: super::In<'_, T>,
    y: &mut super::Out<'_, T>,
    row: impl Fn(usize) -> Result<Vec<f64>>,
    bias: Option<&[f64]>,
) -> Result<()> {
    let (lx, ly) = (*x.layout(), *y.layout());
    let (xs, step_x, step_y, k) = (x.data(), lx.last_stride(), ly.last_stride(), lx.last());
    let out = y.data_mut();
    for j in 0..ly.last() {
        let w = row(j)?;
        let bias = bias.map_or(0.0, |b| b[j]);
        for (px, py) in lx.rows().zip(ly.rows()) {
            let dot: f64 =
                (0..k).map(|l| xs[px.wrapping_add_signed(step_x * l as isize)].to_f64() * w[l]).sum();
            out[py.wrapping_add_signed(step_y * j as isize)] = T::from_f64(dot + bias);
        }
    }
    Ok(())
}
