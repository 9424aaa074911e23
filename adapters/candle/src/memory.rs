//! How operands in host memory reach the memory of a backend, and how results come back.
use rocm_ops::combine::EitherSpace;
use rocm_ops::prelude::*;
use rocm_ops::{Host, Layout};

/// A memory that can exchange tensors with the host's: that of `Cpu` and `Reference`, which use candle's tensors in place, and those of
/// `Rocm` and `Either`, which copy.
pub trait Memory: Exchange {}
impl<S: Exchange> Memory for S {}

/// A host tensor as operand of a backend.
#[derive(Debug)]
pub enum Brought<'a, S: Space> {
    /// The tensor itself.
    InPlace(AnyRef<'a, S>),
    /// A copy.
    Copied(AnyTensor<S>),
}

impl<S: Space> Brought<'_, S> {
    pub(crate) fn view(&self) -> AnyRef<'_, S> {
        match self {
            Brought::InPlace(x) => x.shorten(),
            Brought::Copied(x) => x.as_ref(),
        }
    }
}

pub(crate) mod sealed {
    use super::*;

    /// What [`Memory`](super::Memory) does, out of the reach of other crates.
    pub trait Exchange: Space {
        /// An operand for reading.
        fn bring<'a, B: Backend<Space = Self>>(b: &B, x: AnyRef<'a, Host>) -> Result<Brought<'a, Self>>;
        /// An operand for writing: `compute` writes it, and may read what was there if it is `kept`.
        fn lend<B: Backend<Space = Self>, T: Element>(
            b: &B,
            y: TensorMut<'_, Host, T>,
            kept: bool,
            compute: impl FnOnce(TensorMut<'_, Self, T>) -> Result<()>,
        ) -> Result<()>;
    }
}
use sealed::Exchange;

impl Exchange for Host {
    fn bring<'a, B: Backend<Space = Host>>(_: &B, x: AnyRef<'a, Host>) -> Result<Brought<'a, Host>> {
        Ok(Brought::InPlace(x))
    }
    fn lend<B: Backend<Space = Host>, T: Element>(
        _: &B,
        y: TensorMut<'_, Host, T>,
        _: bool,
        compute: impl FnOnce(TensorMut<'_, Host, T>) -> Result<()>,
    ) -> Result<()> {
        compute(y)
    }
}

/// A memory that the host does not compute in: operands are copied to it, and results back.
macro_rules! by_copies {
    ([$($generics:tt)*] $Space:ty) => {
        impl<$($generics)*> Exchange for $Space {
            fn bring<'a, B: Backend<Space = Self>>(b: &B, x: AnyRef<'a, Host>) -> Result<Brought<'a, Self>> {
                let (size, extent) = (x.dtype().size(), x.layout().extent());
                let bytes = &x.bytes()[extent.start * size..extent.end * size];
                let copy = AnyTensor::new(b.upload(bytes)?, x.dtype(), after(x.layout(), extent.start)?)?;
                Ok(Brought::Copied(copy))
            }
            fn lend<B: Backend<Space = Self>, T: Element>(
                b: &B,
                mut y: TensorMut<'_, Host, T>,
                kept: bool,
                compute: impl FnOnce(TensorMut<'_, Self, T>) -> Result<()>,
            ) -> Result<()> {
                let (layout, extent) = (*y.layout(), y.layout().extent());
                let host = &mut y.data_mut()[extent.clone()];
                let copy = if kept { b.upload(host)? } else { b.alloc(host.len())? };
                let mut copy = Tensor::<Self, T>::new(copy, after(&layout, extent.start)?)?;
                compute(copy.as_mut())?;
                b.read(<$Space as Space>::borrow(copy.buffer()), 0, host)
            }
        }
    };
}
by_copies!([L: Space, R: Space] EitherSpace<L, R>);
#[cfg(feature = "rocm")]
by_copies!([] rocm_ops::rocm::HipSpace);

/// The layout in memory that starts `by` elements later.
fn after(layout: &Layout, by: usize) -> Result<Layout> {
    Layout::strided(layout.shape(), layout.strides(), layout.offset() - by)
}
