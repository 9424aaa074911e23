//! candle's names for things, and ours.
use candle_core::{CpuStorage, Layout as CandleLayout, Storage, Tensor, WithDType};
use rocm_ops::prelude::*;
use rocm_ops::{Host, Layout};

/// An operand's name and tensor.
pub(crate) type Named<'t> = (&'static str, &'t Tensor);
/// The same, if it is given.
pub(crate) type Optional<'t> = (&'static str, Option<&'t Tensor>);

/// A float type that both libraries compute in.
pub(crate) trait Number: Float + WithDType {
    /// New elements.
    fn zeros(len: usize) -> Vec<Self>;
    /// The elements of a storage of this type.
    fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}
macro_rules! numbers {
    ($($T:ty = $Variant:ident),*) => {$(
        impl Number for $T {
            fn zeros(len: usize) -> Vec<Self> {
                vec![Default::default(); len]
            }
            fn slice_mut(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                if let CpuStorage::$Variant(data) = storage { Some(data) } else { None }
            }
        }
    )*};
}
numbers!(f16 = F16, bf16 = BF16, f32 = F32, f64 = F64);

/// Results of ours as results of candle's.
pub(crate) trait OrCandle<T> {
    fn or_candle(self) -> candle_core::Result<T>;
}
impl<T, E: std::error::Error + Send + Sync + 'static> OrCandle<T> for Result<T, E> {
    fn or_candle(self) -> candle_core::Result<T> {
        self.map_err(candle_core::Error::wrap)
    }
}

/// An error of the adapter itself: what the operand is, and what the op takes.
pub(crate) fn refused(
    op: &str,
    operand: &str,
    got: impl std::fmt::Display,
    want: &str,
) -> candle_core::Error {
    candle_core::Error::msg(format!("{op}: {operand} is {got}, expected {want}"))
}

/// The elements of a locked tensor where they are.
pub(crate) fn view<'a>(
    op: &str,
    operand: &str,
    storage: &'a Storage,
    layout: &CandleLayout,
) -> candle_core::Result<AnyRef<'a, Host>> {
    fn of<'a, T: Element>(data: &'a [T], layout: &CandleLayout) -> Result<AnyRef<'a, Host>> {
        Ok(TensorRef::<Host, T>::new(data, strided(layout)?)?.any())
    }
    let Storage::Cpu(storage) = storage else { return Err(elsewhere(op, operand)) };
    match storage {
        CpuStorage::U8(data) => of(data, layout),
        CpuStorage::U32(data) => of(data, layout),
        CpuStorage::I16(data) => of(data, layout),
        CpuStorage::I32(data) => of(data, layout),
        CpuStorage::I64(data) => of(data, layout),
        CpuStorage::BF16(data) => of(data, layout),
        CpuStorage::F16(data) => of(data, layout),
        CpuStorage::F32(data) => of(data, layout),
        CpuStorage::F64(data) => of(data, layout),
        _ => return Err(refused(op, operand, "of an 8-bit or smaller float type", "another type")),
    }
    .or_candle()
}

/// The error for a tensor that is not in host memory.
pub(crate) fn elsewhere(op: &str, operand: &str) -> candle_core::Error {
    refused(op, operand, "on a GPU", "a tensor on Device::Cpu; use to_device")
}

/// A layout of candle's as one of ours.
pub(crate) fn strided(layout: &CandleLayout) -> Result<Layout> {
    // A stride that does not fit reaches beyond any memory, so the layout is refused.
    let strides: Vec<isize> =
        layout.stride().iter().map(|stride| isize::try_from(*stride).unwrap_or(isize::MAX)).collect();
    Layout::strided(layout.dims(), &strides, layout.start_offset())
}

/// The view as one of `T`.
pub(crate) fn typed<'a, T: Element, S: Space>(
    op: &'static str,
    operand: &'static str,
    x: AnyRef<'a, S>,
) -> Result<TensorRef<'a, S, T>> {
    let (got, want) = (x.dtype(), <T as Element>::DTYPE.name());
    x.typed().ok_or(Error::DType { op, operand, got, want })
}

/// The extents of `x` with another last one.
pub(crate) fn with_last(x: &Tensor, last: usize) -> Vec<usize> {
    let mut dims = x.dims().to_vec();
    if let Some(d) = dims.last_mut() {
        *d = last;
    }
    dims
}
