//! What mutants are written with: operands as rows of f64, and roundings to narrow types.
use rocm_ops::{
    AnyTensor, Backend, DType, Element, Host, Layout, Reference, Scalar, Shape, Tensor, TensorRef, View,
    bf16, f16,
};

/// An operand whose elements are numbers, of a type that is static or a value.
pub(super) trait Numbers {
    fn numbers(&self) -> Vec<f64>;
}
fn numbers<T: Scalar>(x: TensorRef<'_, Host, T>) -> Vec<f64> {
    x.layout().positions().map(|p| x.data()[p].to_f64()).collect()
}
impl<T: Scalar> Numbers for Tensor<Host, T> {
    fn numbers(&self) -> Vec<f64> {
        numbers(self.as_ref())
    }
}
impl Numbers for AnyTensor<Host> {
    fn numbers(&self) -> Vec<f64> {
        fn of<T: Scalar>(x: &AnyTensor<Host>) -> Option<Vec<f64>> {
            x.as_ref().typed::<T>().map(numbers)
        }
        let floats = of::<f32>(self).or_else(|| of::<f16>(self)).or_else(|| of::<bf16>(self));
        let integers = || of::<u8>(self).or_else(|| of::<u32>(self)).or_else(|| of::<i32>(self));
        let wide = || of::<f64>(self).or_else(|| of::<i64>(self));
        floats.or_else(integers).or_else(wide).unwrap_or_else(|| panic!("{} is no number here", self.dtype()))
    }
}

/// The elements in row-major order, as f64.
pub(super) fn values(x: &impl Numbers) -> Vec<f64> {
    x.numbers()
}

pub(super) fn optional(x: &Option<impl Numbers>) -> Option<Vec<f64>> {
    x.as_ref().map(values)
}

/// Changes elements of a type that is a value, if it is `T`.
pub(super) fn edit_if<T: Element>(y: &mut AnyTensor<Host>, f: impl Fn(usize, T) -> T) {
    let layout = *y.layout();
    let Some(mut view) = y.as_mut().typed::<T>() else { return };
    for (n, p) in layout.positions().enumerate() {
        let old = view.data_mut()[p];
        view.data_mut()[p] = f(n, old);
    }
}

/// Changes floats of a type that is a value, each rounded once.
pub(super) fn edit_floats(y: &mut AnyTensor<Host>, f: impl Fn(f64) -> f64) {
    fn scalars<T: Scalar>(y: &mut AnyTensor<Host>, f: impl Fn(f64) -> f64) {
        edit_if::<T>(y, |_, v| T::from_f64(f(v.to_f64())));
    }
    match y.dtype() {
        DType::F16 => scalars::<f16>(y, f),
        DType::BF16 => scalars::<bf16>(y, f),
        DType::F32 => scalars::<f32>(y, f),
        DType::F64 => scalars::<f64>(y, f),
        other => panic!("{other} is no float"),
    }
}

/// The same memory under another layout, if that stays inside, of a type that is a value.
pub(super) fn relayout_any(x: &mut AnyTensor<Host>, f: impl Fn(&Layout) -> Option<Layout>) {
    let Some(layout) = f(x.layout()).filter(|l| l.fits(x.as_ref().data_len())) else { return };
    let dtype = x.dtype();
    let nothing: Tensor<Host, u8> = Reference::new().empty(Shape::SCALAR).expect("a scalar");
    let old = std::mem::replace(x, nothing.into());
    *x = AnyTensor::new(old.into_buffer(), dtype, layout).expect("a layout that fits");
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
