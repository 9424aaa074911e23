//! Values, layouts and comparisons that the tests share.
use candle_core::{DType, Device, Tensor, WithDType};
use rocm_ops::backend::Tolerance;
use rocm_ops::prelude::{Backend, Cpu, Element, Float, Reference, TensorOf};
use rocm_ops::{Either, Host};
use rocm_ops_candle::Ops;

/// A type of both libraries.
pub(crate) trait Number: Float + WithDType {}
impl<T: Float + WithDType> Number for T {}

/// The fast backend, which reads candle's memory in place.
pub(crate) fn cpu() -> Ops<Cpu> {
    Ops::new(Cpu::new())
}

/// The same backend behind a memory that the adapter copies to and from, as for a GPU.
pub(crate) fn copying() -> Ops<Either<Cpu, Reference>> {
    Ops::new(Either::Left(Cpu::new()))
}

/// Different values between -1 and 1.
pub(crate) fn values(dims: &[usize], seed: usize) -> Tensor {
    let n: usize = dims.iter().product();
    let value = |i| ((i * 7919 + seed * 104_729) as f64 * 0.618_033_988_75).fract() * 2.0 - 1.0;
    Tensor::from_vec((0..n).map(value).collect::<Vec<f64>>(), dims, &Device::Cpu).unwrap()
}

/// The same in `T`.
pub(crate) fn of<T: WithDType>(dims: &[usize], seed: usize) -> Tensor {
    values(dims, seed).to_dtype(T::DTYPE).unwrap()
}

pub(crate) fn indices(dims: &[usize], values: &[u32]) -> Tensor {
    Tensor::from_slice(values, dims, &Device::Cpu).unwrap()
}

/// The same values as `x` in other layouts.
pub(crate) fn layouts(x: &Tensor) -> Vec<(&'static str, Tensor)> {
    let mut all = vec![("contiguous", x.clone())];
    let last = x.rank() - 1;
    if last > 0 {
        let turned = x.transpose(0, last).unwrap().force_contiguous().unwrap();
        all.push(("transposed", turned.transpose(0, last).unwrap()));
    }
    let n = x.dim(last).unwrap();
    if n > 0 {
        let wide = Tensor::cat(&[x, x, x], last).unwrap();
        // Other values around it.
        let around = (wide.affine(-1.0, 3.0).unwrap(), wide.narrow(last, n, n).unwrap());
        let parts = [around.0.narrow(last, 0, n).unwrap(), around.1, around.0.narrow(last, n, n).unwrap()];
        all.push(("narrowed", Tensor::cat(&parts, last).unwrap().narrow(last, n, n).unwrap()));
    }
    all
}

/// The first row of `x` for all rows: a layout with strides of 0.
pub(crate) fn repeated(x: &Tensor) -> Tensor {
    let row = x.narrow(0, 0, 1).unwrap().contiguous().unwrap();
    row.broadcast_as(x.dims()).unwrap()
}

/// The elements in row-major order.
pub(crate) fn elements<T: WithDType>(x: &Tensor) -> Vec<T> {
    x.flatten_all().unwrap().to_vec1().unwrap()
}

/// A copy in our own tensor, which shares no code with the adapter.
pub(crate) fn ours<T: Element + WithDType>(x: &Tensor) -> TensorOf<Reference, T> {
    Reference::new().tensor(x.dims(), &elements::<T>(x)).unwrap()
}

fn bytes<T: Element>(x: &[T]) -> &[u8] {
    use rocm_ops::backend::Space;
    <Host as Space>::bytes(x)
}

/// Fails unless the result has these extents and, within the tolerance, these values.
pub(crate) fn assert_close<T: Number>(
    got: &Tensor,
    dims: &[usize],
    want: &[T],
    within: Tolerance,
    what: &str,
) {
    assert_eq!((got.dims(), got.dtype()), (dims, <T as WithDType>::DTYPE), "{what}");
    assert!(got.is_contiguous(), "{what}");
    let verdict = within.judge_pair(<T as Element>::DTYPE, bytes(&elements::<T>(got)), bytes(want));
    assert!(verdict.passes(), "{what} in {}: {verdict:?}", <T as Element>::DTYPE);
}

/// The tolerance of sums, and for candle's own results, whose sums are in f32 and rounded in between.
pub(crate) fn summed<T: Element>() -> Tolerance {
    Tolerance::summed(T::DTYPE)
}
pub(crate) const CANDLES: Tolerance = Tolerance::Nmse { base: 1e-10, rounding: 16.0 };

/// Compares with a result of `Reference`.
pub(crate) fn matches<T: Number>(got: &Tensor, want: &TensorOf<Reference, T>, what: &str) {
    let values = want.to_vec(&Reference::new()).unwrap();
    assert_close::<T>(got, want.dims(), &values, summed::<T>(), what);
}

/// Compares with a result of candle's.
pub(crate) fn matches_candle<T: Number>(got: &Tensor, want: &Tensor, what: &str) {
    assert_close::<T>(got, want.dims(), &elements::<T>(want), CANDLES, what);
}

/// Whether candle has kernels for norms and rope in this type.
pub(crate) fn candle_has<T: WithDType>() -> bool {
    T::DTYPE != DType::F64
}

/// A test in every type that ops compute in.
macro_rules! in_every_type {
    ($(#[$about:meta])* fn $name:ident<$T:ident>() $body:block) => {
        $(#[$about])*
        #[test]
        fn $name() {
            fn of_type<$T: $crate::compare::Number>() $body
            of_type::<f32>();
            of_type::<f64>();
            of_type::<rocm_ops::f16>();
            of_type::<rocm_ops::bf16>();
        }
    };
}
pub(crate) use in_every_type;
