//! Host memory as a [`Space`], and what the two host backends share.
use ops_core::{
    AnyTensor, Backend, Call, Determinism, Element, Error, Execute, IntoShape, Layout, Op, Operands, Packing,
    Reason, Result, Space, Tensor, TensorMut, TensorRef,
};

mod buffer;
mod queue;
pub(crate) mod raw;
mod recycle;
pub(crate) mod sequences;
pub(crate) mod types;

pub use buffer::HostBuffer;
pub(crate) use queue::host_backend;
pub(crate) use recycle::trim;

/// The memory of this process.
#[derive(Clone, Copy, Debug)]
pub struct Host;

impl Host {
    /// Views a slice as a row-major tensor, without a copy.
    ///
    /// # Errors
    /// [`Error::Count`] if `shape` has another number of elements than the slice; as [`IntoShape::into_shape`].
    pub fn view<'a, T: Element>(data: &'a [T], shape: impl IntoShape) -> Result<TensorRef<'a, Host, T>> {
        TensorRef::new(data, layout_of(data.len(), shape)?)
    }
    /// A row-major tensor of the vector's elements, in its memory, without a copy. [`HostBuffer::into_vec`] gives it back.
    ///
    /// # Errors
    /// [`Error::Count`] if `shape` has another number of elements than the vector; as [`IntoShape::into_shape`].
    ///
    /// ```
    /// # use rocm_ops::ops::*;
    /// # use rocm_ops::{Cpu, Host};
    /// let mut x = Host::tensor(vec![1.0f32, 2.0, 3.0], 3)?;
    /// Cpu::new().affine_inplace(&mut x, 2.0, 1.0)?;
    /// assert_eq!(x.into_buffer().into_vec()?, [3.0, 5.0, 7.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    pub fn tensor<T: Element>(data: Vec<T>, shape: impl IntoShape) -> Result<Tensor<Host, T>> {
        let layout = layout_of(data.len(), shape)?;
        Tensor::new(HostBuffer::from(data), layout)
    }
    /// Views a mutable slice as a row-major tensor, without a copy.
    ///
    /// # Errors
    /// [`Error::Count`] if `shape` has another number of elements than the slice; as [`IntoShape::into_shape`].
    pub fn view_mut<'a, T: Element>(
        data: &'a mut [T],
        shape: impl IntoShape,
    ) -> Result<TensorMut<'a, Host, T>> {
        let layout = layout_of(data.len(), shape)?;
        TensorMut::new(data, layout)
    }
}

fn layout_of(len: usize, shape: impl IntoShape) -> Result<Layout> {
    let layout = Layout::contiguous(shape)?;
    if layout.len() == len { Ok(layout) } else { Err(Error::count(len, layout.shape())) }
}

impl Space for Host {
    type Buffer<T: Element> = HostBuffer<T>;
    type Ref<'a, T: Element> = &'a [T];
    type Mut<'a, T: Element> = &'a mut [T];

    #[inline]
    fn len<T: Element>(view: &[T]) -> usize {
        view.len()
    }
    #[inline]
    fn borrow<T: Element>(buffer: &HostBuffer<T>) -> &[T] {
        buffer
    }
    #[inline]
    fn borrow_mut<T: Element>(buffer: &mut HostBuffer<T>) -> &mut [T] {
        buffer.as_mut_slice()
    }
    #[inline]
    fn share<'s, T: Element>(view: &'s &mut [T]) -> &'s [T] {
        view
    }
    #[inline]
    fn reborrow<'s, T: Element>(view: &'s mut &mut [T]) -> &'s mut [T] {
        view
    }
    #[inline]
    fn shorten<'s, 'l: 's, T: Element>(view: &'l [T]) -> &'s [T] {
        view
    }
    #[inline]
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        view.split_at_mut(mid)
    }
    #[inline]
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        bytemuck::cast_slice(view)
    }
    #[inline]
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        bytemuck::cast_slice_mut(view)
    }
    #[inline]
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        bytemuck::try_cast_slice(bytes).ok()
    }
    #[inline]
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        bytemuck::try_cast_slice_mut(bytes).ok()
    }
    fn into_bytes<T: Element>(buffer: HostBuffer<T>) -> HostBuffer<u8> {
        buffer.into_bytes()
    }
    #[inline]
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        bytes.as_ptr().addr().is_multiple_of(align)
    }
    fn host<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<&'a [T]> {
        Some(view)
    }
}

/// A kernel for `O` on host memory that accepts every layout. It is all that a CPU backend needs for an op:
/// [`Execute`](ops_core::Execute) follows from it.
///
/// A crate with its own ops implements this for [`Reference`](crate::Reference), as the definition, and for [`Cpu`](crate::Cpu), which may take the same code.
pub trait Kernel<O: Op>: Backend<Space = Host> {
    /// Computes the op. The arguments are already checked: shapes match, views lie inside their memory, and no output
    /// overlaps itself. Only [`Backend::run`] creates a [`Call`], so a kernel cannot be given unchecked arguments.
    ///
    /// Nothing else is promised: views have any strides and begin anywhere in their memory, an input may repeat an element (stride 0), and
    /// any extent may be 0. Outputs hold arbitrary values. [`Layout::positions`](ops_core::Layout::positions) walks over any of them.
    ///
    /// # Errors
    /// Only those that depend on values, such as [`ops_core::Error::Index`]: shapes are checked already.
    fn compute(&self, call: Call<'_, '_, O, Host>) -> Result<()>;
    /// See [`Execute::fuses`](ops_core::Execute::fuses).
    fn fuses(&self, op: &O) -> bool {
        let _ = op;
        true
    }
    /// The determinism that the kernel guarantees; ops with an exact tolerance are always [`Exact`](Determinism::Exact), so the
    /// kernel need not say so. The default is right for kernels that compute each row of their output
    /// independently.
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        let _ = (op, on);
        Determinism::Batch
    }
    /// See [`Execute::reads`](ops_core::Execute::reads).
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        let _ = (op, operand, packing);
        false
    }
    /// See [`Execute::pack`](ops_core::Execute::pack).
    ///
    /// # Errors
    /// A transfer failed.
    fn pack(&self, op: &O, operand: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        let _ = (op, operand);
        Ok(x)
    }
}

/// Whether a backend guarantees at least the level `wanted` for a call's results.
#[inline]
pub(crate) fn promises<O: Op, B: Execute<O>>(
    backend: &B,
    wanted: Determinism,
    op: &O,
    on: &dyn Operands,
) -> Result<(), Reason> {
    if wanted == Determinism::Run {
        return Ok(());
    }
    let available = backend.determinism(op, on);
    if available < wanted { Err(Reason::Determinism { wanted, available }) } else { Ok(()) }
}

/// The error for a call that a backend does not run.
#[cold]
pub(crate) fn declined<O: Op>(call: &Call<'_, '_, O, Host>, backend: &'static str, reason: Reason) -> Error {
    Error::Unsupported { op: call.name(), backend, reason }
}

/// Implements [`Execute`] for every op that the backend has a [`Kernel`] for; `$run` calls the kernel.
macro_rules! execute_kernels {
    ($backend:ty, |$self:ident, $kernel:ident| $run:expr) => {
        impl<O: ops_core::Op> ops_core::Execute<O> for $backend
        where
            $backend: $crate::host::Kernel<O>,
        {
            #[inline]
            fn support(&self, op: &O, on: &dyn ops_core::Operands) -> ops_core::Result<(), ops_core::Reason> {
                ops_core::reads_all(self, op, on)?;
                $crate::host::promises(self, self.wanted(), op, on)
            }
            #[inline]
            fn execute(&self, call: ops_core::Call<'_, '_, O, $crate::host::Host>) -> ops_core::Result<()> {
                $crate::host::promises(self, self.wanted(), call.op(), call.operands())
                    .map_err(|reason| $crate::host::declined(&call, ops_core::Backend::name(self), reason))?;
                let ($self, $kernel) = (self, || $crate::host::Kernel::compute(self, call));
                $run
            }
            fn determinism(&self, op: &O, on: &dyn ops_core::Operands) -> ops_core::Determinism {
                ops_core::Determinism::of_call(op, on, $crate::host::Kernel::determinism(self, op, on))
            }
            #[inline]
            fn fuses(&self, op: &O, on: &dyn ops_core::Operands) -> bool {
                $crate::host::Kernel::fuses(self, op) && ops_core::reads_all(self, op, on).is_ok()
            }
            #[inline]
            fn reads(&self, op: &O, operand: &'static str, packing: &'static ops_core::Packing) -> bool {
                $crate::host::Kernel::reads(self, op, operand, packing)
            }
            fn pack(
                &self,
                op: &O,
                operand: &'static str,
                x: ops_core::AnyTensor<$crate::host::Host>,
            ) -> ops_core::Result<ops_core::AnyTensor<$crate::host::Host>> {
                let ($self, $kernel) = (self, || $crate::host::Kernel::pack(self, op, operand, x));
                $run
            }
        }
    };
}
pub(crate) use execute_kernels;
