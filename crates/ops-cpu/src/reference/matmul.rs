//! Matrix products.
use super::Reference;
use super::quant::values;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Linear, LinearAdd, LinearSwiglu, MatMul, RmsNormLinear, RmsNormLinearSwiglu};
use ops_core::{Call, DType, Error, Float, Layout, Result};

/// The matrices of a stack: position of the first element, row stride and column stride.
fn matrices(stack: &Layout) -> impl Iterator<Item = (usize, [isize; 2])> + use<> {
    let r = stack.rank();
    let steps = [stack.strides()[r - 2], stack.strides()[r - 1]];
    let first =
        stack.narrow(-1, 0, stack.dims()[r - 1].min(1)).and_then(|l| l.narrow(-2, 0, l.dims()[r - 2].min(1)));
    first.into_iter().flat_map(|l| l.positions()).map(move |p| (p, steps))
}

/// The position of element `[i, j]` of a matrix.
fn at((first, [row, column]): (usize, [isize; 2]), i: usize, j: usize) -> usize {
    first.wrapping_add_signed(row * i as isize + column * j as isize)
}

fn matmul(a: Raw<'_>, b: Raw<'_>, mut c: RawMut<'_>) -> Result<()> {
    let [.., m, n] = *c.layout.dims() else {
        return Err(Error::shape("matmul", "c", &c.layout, "[.., m, n]"));
    };
    let k = a.layout.last();
    if k == 0 {
        c.scatter(c.layout.positions(), core::iter::repeat(0.0));
        return Ok(());
    }
    for ((ma, mb), mc) in matrices(&a.layout).zip(matrices(&b.layout)).zip(matrices(&c.layout)) {
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let dot = (0..k).map(|l| a.f64(at(ma, i, l)) * b.f64(at(mb, l, j))).sum();
            c.set(at(mc, i, j), dot);
        }
    }
    Ok(())
}

fn linear(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    let bias = bias.map(|b| b.values());
    let row = |j| {
        let row = weight.layout.narrow(0, j, 1)?;
        Ok(match weight.dtype {
            DType::Block(format) => values(format, weight, &row),
            _ => weight.gather(row.positions()),
        })
    };
    dot_rows(x, y, row, bias.as_deref())
}

/// A product in f64, in the order of `y`.
fn sums(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: &Layout) -> Result<Vec<f64>> {
    let mut sums = vec![0.0f64; y.len()];
    let (bytes, layout) = (bytemuck::cast_slice_mut(&mut sums), Layout::of(y.shape()));
    linear(x, weight, bias, RawMut { bytes, size: size_of::<f64>(), dtype: DType::F64, layout })?;
    Ok(sums)
}

/// `y = x · weightᵀ + residual`, rounded once.
fn linear_add(x: Raw<'_>, weight: Raw<'_>, residual: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let sums = sums(x, weight, None, &y.layout)?;
    y.scatter(y.layout.positions(), sums.into_iter().zip(residual.values()).map(|(sum, r)| sum + r));
    Ok(())
}

/// `y = silu(x · gateᵀ) · (x · upᵀ)`, rounded once.
fn linear_swiglu(x: Raw<'_>, gate: Raw<'_>, up: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let [gate, up] = [sums(x, gate, None, &y.layout)?, sums(x, up, None, &y.layout)?];
    let values = gate.into_iter().zip(up).map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up);
    y.scatter(y.layout.positions(), values);
    Ok(())
}

/// The rows of `x`, normed in f64.
struct Normed {
    values: Vec<f64>,
    layout: Layout,
}
impl Normed {
    fn new(x: Raw<'_>, weight: Raw<'_>, eps: f64) -> Self {
        let (mut values, weight) = (x.values(), weight.values());
        for row in values.chunks_mut(weight.len().max(1)) {
            let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
            row.iter_mut().zip(&weight).for_each(|(v, w)| *v *= w / (mean + eps).sqrt());
        }
        Normed { values, layout: Layout::of(x.layout.shape()) }
    }
    fn raw(&self) -> Raw<'_> {
        let bytes = bytemuck::cast_slice(&self.values);
        Raw { bytes, size: size_of::<f64>(), dtype: DType::F64, layout: self.layout }
    }
}

/// `y[.., j] = x[.., :] · row(j) + bias[j]`: a linear layer whose weight rows come from `row`.
fn dot_rows(
    x: Raw<'_>,
    mut y: RawMut<'_>,
    row: impl Fn(usize) -> Result<Vec<f64>>,
    bias: Option<&[f64]>,
) -> Result<()> {
    let (lx, ly) = (x.layout, y.layout);
    let (step_x, step_y) = (lx.last_stride(), ly.last_stride());
    for j in 0..ly.last() {
        let (w, bias) = (row(j)?, bias.map_or(0.0, |b| b[j]));
        for (px, py) in lx.rows().zip(ly.rows()) {
            let value = |l: usize| x.f64(px.wrapping_add_signed(step_x * l as isize));
            let dot: f64 = w.iter().enumerate().map(|(l, w)| value(l) * w).sum();
            y.set(py.wrapping_add_signed(step_y * j as isize), dot + bias);
        }
    }
    Ok(())
}

impl<T: Float> Kernel<MatMul<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, MatMul<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        matmul(Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.c))
    }
}
impl<T: Float> Kernel<Linear<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Linear<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        linear(Raw::of(&a.x), Raw::any(&a.weight), Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<LinearSwiglu<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearSwiglu<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        linear_swiglu(Raw::of(&a.x), Raw::any(&a.gate), Raw::any(&a.up), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<LinearAdd<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearAdd<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        linear_add(Raw::of(&a.x), Raw::any(&a.weight), Raw::of(&a.residual), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<RmsNormLinear<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RmsNormLinear<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Normed::new(Raw::of(&a.x), Raw::any(&a.norm), op.eps);
        linear(x.raw(), Raw::any(&a.weight), Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<RmsNormLinearSwiglu<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, RmsNormLinearSwiglu<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let x = Normed::new(Raw::of(&a.x), Raw::any(&a.norm), op.eps);
        linear_swiglu(x.raw(), Raw::any(&a.gate), Raw::any(&a.up), RawMut::of(&mut a.y))
    }
}
