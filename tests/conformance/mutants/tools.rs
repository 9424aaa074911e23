//! Tools for mutants: operands as rows of f64, and rounding to narrow types.
use rocm_ops::{
    AnyTensor, AsAny, Backend, DType, Element, F8E4M3, Host, Layout, Reference, Scalar, Shape, TensorMut,
    TensorRef, bf16, f16,
};

/// The elements in row-major order, as f64.
pub(super) fn values(x: impl AsAny<Host>) -> Vec<f64> {
    let x = x.any_view();
    assert!(x.packing().is_none(), "a packed tensor has no elements here");
    let (dtype, size, bytes) = (x.dtype(), x.dtype().size(), x.bytes());
    let number = |p: usize| dtype.number(&bytes[p * size..][..size]);
    let value = |p| number(p).unwrap_or_else(|| panic!("{dtype} is not a number")).to_f64();
    x.layout().positions().map(value).collect()
}

pub(super) fn optional(x: Option<&AnyTensor<Host>>) -> Option<Vec<f64>> {
    x.map(values)
}

/// A typed view of a tensor whose type the mutant knows.
///
/// # Panics
/// The tensor has another type.
pub(super) fn typed<T: Element>(x: &AnyTensor<Host>) -> TensorRef<'_, Host, T> {
    x.as_ref().typed().unwrap_or_else(|| panic!("{x:?} read as {}", T::DTYPE))
}

fn typed_mut<T: Element>(y: &mut AnyTensor<Host>) -> TensorMut<'_, Host, T> {
    let what = format!("{y:?} written as {}", T::DTYPE);
    y.as_mut().and_then(|y| y.typed()).unwrap_or_else(|| panic!("{what}"))
}

/// Changes elements in place, with their index in row-major order.
///
/// # Panics
/// The tensor does not have type `T`.
pub(super) fn edit<T: Element>(y: &mut AnyTensor<Host>, f: impl Fn(usize, T) -> T) {
    let layout = *y.layout();
    let mut view = typed_mut::<T>(y);
    for (n, p) in layout.positions().enumerate() {
        let old = view.data_mut()[p];
        view.data_mut()[p] = f(n, old);
    }
}

/// Changes elements if they have type `T`; a call with another type runs unchanged.
pub(super) fn edit_if<T: Element>(y: &mut AnyTensor<Host>, f: impl Fn(usize, T) -> T) {
    if y.dtype() == T::DTYPE {
        edit(y, f);
    }
}

/// Changes floats of any float type, rounding each once.
pub(super) fn edit_floats(y: &mut AnyTensor<Host>, f: impl Fn(f64) -> f64) {
    fn scalars<T: Scalar>(y: &mut AnyTensor<Host>, f: impl Fn(f64) -> f64) {
        edit::<T>(y, |_, v| T::from_f64(f(v.to_f64())));
    }
    match y.dtype() {
        DType::F16 => scalars::<f16>(y, f),
        DType::BF16 => scalars::<bf16>(y, f),
        DType::F32 => scalars::<f32>(y, f),
        DType::F64 => scalars::<f64>(y, f),
        other => panic!("{other} is not a float"),
    }
}

/// Stores f64 values, each rounded once to the tensor's type.
pub(super) fn set(y: &mut AnyTensor<Host>, values: impl IntoIterator<Item = f64>) {
    fn scalars<T: Scalar>(y: &mut AnyTensor<Host>, values: impl IntoIterator<Item = f64>) {
        let layout = *y.layout();
        let mut view = typed_mut::<T>(y);
        for (p, v) in layout.positions().zip(values) {
            view.data_mut()[p] = T::from_f64(v);
        }
    }
    match y.dtype() {
        DType::F64 => scalars::<f64>(y, values),
        DType::F32 => scalars::<f32>(y, values),
        DType::F16 => scalars::<f16>(y, values),
        DType::BF16 => scalars::<bf16>(y, values),
        DType::F8E4M3 => scalars::<F8E4M3>(y, values),
        DType::I64 => scalars::<i64>(y, values),
        DType::I32 => scalars::<i32>(y, values),
        DType::I16 => scalars::<i16>(y, values),
        DType::I8 => scalars::<i8>(y, values),
        DType::U32 => scalars::<u32>(y, values),
        DType::U8 => scalars::<u8>(y, values),
        other => panic!("{other} is not a number"),
    }
}

/// Length of a row.
pub(super) fn last(x: &AnyTensor<Host>) -> usize {
    x.dims().last().copied().unwrap_or(1).max(1)
}

/// The same memory with another layout, if it stays within the memory.
pub(super) fn relayout(x: &mut AnyTensor<Host>, f: impl Fn(&Layout) -> Option<Layout>) {
    assert!(x.packing().is_none(), "a packed tensor has no other layouts");
    let Some(layout) = f(x.layout()).filter(|l| l.fits(x.as_ref().data_len())) else { return };
    let dtype = x.dtype();
    let nothing = Reference::new().empty::<u8>(Shape::SCALAR).expect("a scalar");
    let old = std::mem::replace(x, nothing.into());
    *x = AnyTensor::new(old.into_buffer(), dtype, layout).expect("a layout that fits");
}

/// The elements as they would be read without strides.
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
