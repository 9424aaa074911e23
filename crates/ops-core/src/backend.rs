//! A handle to an in-order queue on a device, and the trait that connects it to ops.
use crate::{
    AnyTensor, Call, DType, Determinism, Element, Error, IntoShape, Layout, Op, Operands, Packing, Reason,
    Result, Space, Tensor, TensorMut, TensorRef,
};
use bytemuck::allocation::try_zeroed_vec;
use std::sync::Arc;

/// Host memory with an owner, such as a mapped file. A backend may use it in place.
pub type HostMemory<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

/// The tensors of a backend.
pub type TensorOf<B, T> = Tensor<<B as Backend>::Space, T>;
/// A view that a backend reads.
pub type Ref<'a, B, T> = TensorRef<'a, <B as Backend>::Space, T>;
/// A view that a backend writes.
pub type Mut<'a, B, T> = TensorMut<'a, <B as Backend>::Space, T>;
/// The untyped tensors of a backend.
pub type AnyOf<B> = AnyTensor<<B as Backend>::Space>;

/// A cheap, cloneable handle to one in-order queue on one device.
///
/// Operations are enqueued; only [`read`](Backend::read) and [`synchronize`](Backend::synchronize) wait. A synchronous backend
/// has nothing to do in `synchronize`, `mark` and `wait`, and its `fork` is a clone.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Where its tensors live.
    type Space: Space;
    /// A point in this queue that another queue of the same device can wait for.
    type Event: Send + Sync + 'static;

    /// The name in messages: `cpu`, `rocm`.
    fn name(&self) -> &'static str;

    /// Allocates memory for `len` elements of unspecified values.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    fn alloc<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>>;

    /// Waits for everything enqueued so far, then copies `dst.len()` elements from `start` on to the host.
    ///
    /// # Errors
    /// [`Error::Range`], a failed transfer, or an earlier failure of the queue.
    fn read<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        dst: &mut [T],
    ) -> Result<()>;

    /// Copies `src` to the elements from `start` on, in queue order. The caller may reuse `src` as soon as this returns.
    ///
    /// # Errors
    /// [`Error::Range`] or a failed transfer.
    fn write<T: Element>(
        &self,
        src: &[T],
        dst: <Self::Space as Space>::Mut<'_, T>,
        start: usize,
    ) -> Result<()>;

    /// Waits until everything enqueued has finished.
    ///
    /// # Errors
    /// The first failure of anything enqueued since the last call.
    fn synchronize(&self) -> Result<()>;
    /// Makes a new queue on the same device, ordered after everything enqueued here so far.
    ///
    /// # Errors
    /// The device has no more queues.
    fn fork(&self) -> Result<Self>;
    /// Marks this point of the queue with an event.
    ///
    /// # Errors
    /// A failure of the device.
    fn mark(&self) -> Result<Self::Event>;
    /// Makes everything enqueued from here on wait for `event`.
    ///
    /// # Errors
    /// A failure of the device.
    fn wait(&self, event: &Self::Event) -> Result<()>;

    /// Whether this thread is recording calls of this queue instead of running them, see
    /// [`Replay`](crate::Replay). Calls that copy operands to the host are then refused.
    fn capturing(&self) -> bool {
        false
    }

    /// Makes a buffer of `memory`, without a copy if the backend can compute on host memory.
    ///
    /// # Errors
    /// As [`upload`](Backend::upload).
    fn adopt<T: Element>(&self, memory: HostMemory<T>) -> Result<<Self::Space as Space>::Buffer<T>> {
        self.upload((*memory).as_ref())
    }

    /// Bytes of the device's memory that tensors can still take; `None` if that is not known, and for host memory.
    fn free_memory(&self) -> Option<u64> {
        None
    }

    // Everything below is provided.

    /// Makes a buffer with a copy of `src`.
    ///
    /// # Errors
    /// As [`alloc`](Backend::alloc) and [`write`](Backend::write).
    fn upload<T: Element>(&self, src: &[T]) -> Result<<Self::Space as Space>::Buffer<T>> {
        let mut buffer = self.alloc(src.len())?;
        self.write(src, Self::Space::borrow_mut(&mut buffer), 0)?;
        Ok(buffer)
    }

    /// Reads `len` elements from `start` on into a vector.
    ///
    /// # Errors
    /// As [`read`](Backend::read).
    fn read_vec<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        range("read", start, len, Self::Space::len(src))?;
        let mut host = host_vec(len)?;
        self.read(src, start, &mut host)?;
        Ok(host)
    }

    /// Makes a buffer of `len` zeros.
    ///
    /// The default writes zeros repeatedly from a small buffer in host memory. Override it if the backend can fill memory.
    ///
    /// # Errors
    /// As [`alloc`](Backend::alloc) and [`write`](Backend::write).
    fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>> {
        let mut buffer = self.alloc::<T>(len)?;
        let piece = host_vec::<T>(len.min(ZEROS / size_of::<T>().max(1) + 1))?;
        for start in (0..len).step_by(piece.len().max(1)) {
            let part = &piece[..piece.len().min(len - start)];
            self.write(part, Self::Space::borrow_mut(&mut buffer), start)?;
        }
        Ok(buffer)
    }

    /// Allocates a tensor of unspecified values.
    ///
    /// # Errors
    /// As [`IntoShape::into_shape`] and [`alloc`](Backend::alloc).
    fn empty<T: Element>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>> {
        let shape = shape.into_shape()?;
        Tensor::new(self.alloc(shape.len())?, Layout::of(shape))
    }

    /// Allocates a tensor of unspecified values whose element type is known only at run time.
    ///
    /// # Errors
    /// As [`empty`](Backend::empty).
    fn empty_any(&self, dtype: DType, shape: impl IntoShape) -> Result<AnyOf<Self>> {
        let shape = shape.into_shape()?;
        let too_large = || Error::TooLarge { dims: shape.dims().into() };
        let bytes = shape.len().checked_mul(dtype.size()).ok_or_else(too_large)?;
        AnyTensor::new(self.alloc(bytes)?, dtype, Layout::of(shape))
    }

    /// Makes a tensor of the elements in `bytes`, in row-major order, as stored in a model file.
    ///
    /// # Errors
    /// As [`tensor`](Backend::tensor).
    fn any_tensor(&self, dtype: DType, shape: impl IntoShape, bytes: &[u8]) -> Result<AnyOf<Self>> {
        let shape = shape.into_shape()?;
        if shape.len().checked_mul(dtype.size()) != Some(bytes.len()) {
            return Err(Error::count(bytes.len() / dtype.size(), shape));
        }
        AnyTensor::new(self.upload(bytes)?, dtype, Layout::of(shape))
    }

    /// Makes a tensor of zeros.
    ///
    /// # Errors
    /// As [`IntoShape::into_shape`] and [`alloc_zeroed`](Backend::alloc_zeroed).
    fn zeros<T: Element>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>> {
        let shape = shape.into_shape()?;
        Tensor::new(self.alloc_zeroed(shape.len())?, Layout::of(shape))
    }

    /// Makes a tensor of these elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Count`] if the number of elements does not match the extents; else as [`IntoShape::into_shape`] and
    /// [`upload`](Backend::upload).
    fn tensor<T: Element>(&self, shape: impl IntoShape, data: &[T]) -> Result<TensorOf<Self, T>> {
        let shape = shape.into_shape()?;
        if shape.len() != data.len() {
            return Err(Error::count(data.len(), shape));
        }
        Tensor::new(self.upload(data)?, Layout::of(shape))
    }

    /// Checks the arguments once, for every backend, then runs.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::OutOfBounds`] and [`Error::Overlap`] before anything ran;
    /// [`Error::Unsupported`] with no output touched; and what the op itself reports.
    #[inline(always)]
    fn run<O: Op>(&self, op: &O, mut args: O::Args<'_, Self::Space>) -> Result<()>
    where
        Self: Execute<O>,
    {
        let reads = |operand, packing| self.reads(op, operand, packing);
        self.execute(Call::check(op, &mut args, self.name(), reads)?)
    }
}

/// A backend's kernel for one operation.
#[diagnostic::on_unimplemented(
    message = "backend `{Self}` has no kernel for `{O}`",
    label = "no kernel for `{O}` on this backend",
    note = "wrap the backend as `Fallback::new(backend, Cpu::new())`, or write `impl Execute<{O}> for {Self}`",
    note = "`Checked`, `Fallback` and `Either` have a kernel if both of their backends have one",
    note = "in a function generic over the backend, require the op family instead, such as `B: NormOps<T>` or `B: Transformer<T>`"
)]
pub trait Execute<O: Op>: Backend {
    /// Checks whether `execute` would run. Must not allocate or enqueue. If this returns `Ok`, `execute` must not return
    /// [`Error::Unsupported`](crate::Error::Unsupported).
    ///
    /// # Errors
    /// The reason why it would not run.
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason>;

    /// Enqueues the operation. The arguments have already been checked.
    ///
    /// # Errors
    /// [`Error::Unsupported`](crate::Error::Unsupported) guarantees that no output was written.
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()>;

    /// [`support`](Execute::support) and [`execute`](Execute::execute) in one: runs the call, or returns it with the reason
    /// why it would not run. A backend whose decision costs something overrides this so that it decides once.
    ///
    /// # Errors
    /// As [`execute`](Execute::execute).
    #[inline]
    fn try_execute<'c, 'a>(
        &self,
        call: Call<'c, 'a, O, Self::Space>,
    ) -> Result<Tried<'c, 'a, O, Self::Space>> {
        match self.support(call.op(), call.operands()) {
            Ok(()) => self.execute(call).map(|()| Tried::Done),
            Err(reason) => Ok(Tried::Declined(call, reason)),
        }
    }

    /// Whether a single kernel computes a fused op for these operands, so that calling it pays off. Otherwise
    /// the call runs as its [`Parts`](crate::Parts), or not at all.
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        self.support(op, on).is_ok()
    }

    /// Whether this backend's kernels can read `operand` in this packing. If not, the call is refused before `execute`.
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        let _ = (op, operand, packing);
        false
    }
    /// The determinism that this backend guarantees for this call. The default is [`Determinism::Run`].
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        let _ = (op, on);
        Determinism::Run
    }
    /// Repacks `x` into the layout in which this backend reads `operand` of this op fastest. Returns `x`
    /// unchanged if there is no such layout, if it would not be faster, or if there is no memory for it.
    /// Meant for weights: pack once, when a model is loaded.
    ///
    /// The result is used like any other tensor: it goes through the same methods, checks and combinators.
    ///
    /// # Errors
    /// A failed transfer.
    fn pack(
        &self,
        op: &O,
        operand: &'static str,
        x: AnyTensor<Self::Space>,
    ) -> Result<AnyTensor<Self::Space>> {
        let _ = (op, operand);
        Ok(x)
    }
}

/// What became of a call passed to [`Execute::try_execute`].
pub enum Tried<'c, 'a, O: Op, S: Space> {
    /// It is enqueued.
    Done,
    /// The backend does not run it. No output was written.
    Declined(Call<'c, 'a, O, S>, Reason),
}

/// Checks that a backend's kernels can read every operand in its packing. A backend that implements
/// [`reads`](Execute::reads) should call this first in `support`.
///
/// # Errors
/// [`Reason::Packed`] with the first operand that the backend cannot read.
pub fn reads_all<O: Op, B: Execute<O>>(backend: &B, op: &O, on: &dyn Operands) -> Result<(), Reason> {
    all_read(on, &|operand, packing| backend.reads(op, operand, packing))
}

fn all_read(on: &dyn Operands, reads: &dyn Fn(&'static str, &'static Packing) -> bool) -> Result<(), Reason> {
    on.iter().try_for_each(|operand| match operand.packing {
        Some(packing) if !reads(operand.name, packing) => Err(packing.declined(&operand)),
        _ => Ok(()),
    })
}

/// Declares that a backend leaves ops to a fallback: `unsupported!(MyGpu: RmsNorm<f64>, Rope<f64>)`.
///
/// For generic ops, put the parameters first: `unsupported!(<T: Float> MyGpu: RmsNorm<T>, Rope<T>)`.
#[macro_export]
macro_rules! unsupported {
    (<$($g:ident: $bound:path),+> $backend:ty: $($op:ty),+ $(,)?) => {
        $crate::unsupported!(@each [$($g: $bound),+] $backend: $($op),+);
    };
    (@each $generics:tt $backend:ty: $($op:ty),+) => {
        $($crate::unsupported!(@one $generics $backend, $op);)+
    };
    (@one [$($g:ident: $bound:path),*] $backend:ty, $op:ty) => {
        impl<$($g: $bound),*> $crate::Execute<$op> for $backend {
            fn support(&self, _: &$op, _: &dyn $crate::Operands) -> $crate::Result<(), $crate::Reason> {
                Err($crate::Reason::Missing)
            }
            fn execute(&self, call: $crate::Call<'_, '_, $op, <Self as $crate::Backend>::Space>) -> $crate::Result<()> {
                Err($crate::Error::Unsupported {
                    op: call.name(),
                    backend: $crate::Backend::name(self),
                    reason: $crate::Reason::Missing,
                })
            }
        }
    };
    ($backend:ty: $($op:ty),+ $(,)?) => {
        $($crate::unsupported!(@one [] $backend, $op);)+
    };
}

/// Bytes of the host memory that the default [`Backend::alloc_zeroed`] writes from.
const ZEROS: usize = 64 << 10;

/// Checks a transfer of `count` elements at `start` against a buffer of `len`.
///
/// # Errors
/// [`Error::Range`].
pub fn range(call: &'static str, start: usize, count: usize, len: usize) -> Result<()> {
    match start.checked_add(count) {
        Some(end) if end <= len => Ok(()),
        _ => Err(Error::Range { call, start, count, len }),
    }
}

/// Zeroed host memory, or an error where `Vec` would abort.
pub(crate) fn host_vec<T: Element>(len: usize) -> Result<Vec<T>> {
    try_zeroed_vec(len).map_err(|()| Error::OutOfMemory {
        backend: "host",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: String::new(),
    })
}
