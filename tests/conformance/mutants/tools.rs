//! What mutants are written with: operands as rows of f64, and roundings to narrow types.
use rocm_ops::{Backend, Element, Host, Layout, Reference, Scalar, Shape, Tensor, View, bf16, f16};

/// The elements in row-major order, as f64.
pub(super) fn values<T: Scalar>(x: &Tensor<Host, T>) -> Vec<f64> {
    x.layout().positions().map(|p| x.buffer()[p].to_f64()).collect()
}

pub(super) fn optional<T: Scalar>(x: &Option<Tensor<Host, T>>) -> Option<Vec<f64>> {
    x.as_ref().map(values)
}

/// Stores f64, each rounded once.
pub(super) fn set<T: Scalar>(y: &mut Tensor<Host, T>, values: impl IntoIterator<Item = f64>) {
    let layout = *y.layout();
    let mut view = y.as_mut();
    for (p, v) in layout.positions().zip(values) {
        view.data_mut()[p] = T::from_f64(v);
    }
}

/// Changes elements where they are, by their number in row-major order.
pub(super) fn edit<T: Element>(y: &mut Tensor<Host, T>, f: impl Fn(usize, T) -> T) {
    let layout = *y.layout();
    let mut view = y.as_mut();
    for (n, p) in layout.positions().enumerate() {
        let old = view.data_mut()[p];
        view.data_mut()[p] = f(n, old);
    }
}

/// Length of a row.
pub(super) fn last<T: Element>(x: &Tensor<Host, T>) -> usize {
    x.dims().last().copied().unwrap_or(1).max(1)
}

/// The same memory under another layout, if that stays inside.
pub(super) fn relayout<T: Element>(x: &mut Tensor<Host, T>, f: impl Fn(&Layout) -> Option<Layout>) {
    let Some(layout) = f(x.layout()).filter(|l| l.fits(x.buffer().len())) else { return };
    let nothing = Reference::new().empty(Shape::SCALAR).expect("a scalar");
    let old = std::mem::replace(x, nothing);
    *x = Tensor::new(old.into_buffer(), layout).expect("a layout that fits");
}

/// The elements as they would be read if strides were forgotten.
pub(super) fn forget_strides(layout: &Layout) -> Option<Layout> {
    let contiguous = Layout::contiguous(layout.dims()).ok()?;
    Layout::strided(layout.dims(), contiguous.strides(), layout.offset()).ok()
}

pub(super) fn half(v: f64) -> f64 {
    f16::from_f64(v).to_f64()
}
pub(super) fn brain(v: f64) -> f64 {
    bf16::from_f64(v).to_f64()
}
pub(super) fn single(v: f64) -> f64 {
    f64::from(v as f32)
}

/// A sum that is rounded at every step.
pub(super) fn sum_rounded(values: impl IntoIterator<Item = f64>, round: fn(f64) -> f64) -> f64 {
    values.into_iter().fold(0.0, |sum, v| round(sum + v))
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}
