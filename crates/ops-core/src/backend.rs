//! A handle to an in-order queue on a device.
use crate::{
    AnyOf, AnyTensor, DType, Element, Error, Execute, Layout, Op, Result, Shape, Space, Tensor, TensorOf,
};
use std::sync::Arc;

/// Host memory with an owner, such as a mapped file. A backend may use it in place.
pub type HostMemory<T> = Arc<dyn AsRef<[T]> + Send + Sync>;

/// A cheap, cloneable handle to one in-order queue on one device.
///
/// Operations are enqueued; only [`read`](Backend::read) and [`synchronize`](Backend::synchronize) wait. A synchronous backend
/// has nothing to do in `synchronize`, `record` and `wait`, and its `fork` is a clone.
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
    /// Records an event at this point of the queue.
    ///
    /// # Errors
    /// A failure of the device.
    fn record(&self) -> Result<Self::Event>;
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

    /// Allocates a tensor of unspecified values.
    ///
    /// # Errors
    /// As [`alloc`](Backend::alloc).
    fn empty<T: Element>(&self, shape: Shape) -> Result<TensorOf<Self, T>> {
        Tensor::new(self.alloc(shape.len())?, Layout::of(shape))
    }

    /// Allocates a tensor of unspecified values whose element type is known only at run time.
    ///
    /// # Errors
    /// As [`alloc`](Backend::alloc).
    fn empty_any(&self, dtype: DType, shape: Shape) -> Result<AnyOf<Self>> {
        let too_large = || Error::TooLarge { dims: shape.dims().into() };
        let bytes = shape.len().checked_mul(dtype.size()).ok_or_else(too_large)?;
        AnyTensor::new(self.alloc(bytes)?, dtype, Layout::of(shape))
    }

    /// Makes a tensor of the elements in `bytes`, in row-major order, as stored in a model file.
    ///
    /// # Errors
    /// [`Error::Count`] if the number of elements does not match the extents; else as [`upload`](Backend::upload).
    fn any_tensor(&self, dtype: DType, dims: &[usize], bytes: &[u8]) -> Result<AnyOf<Self>> {
        let shape = Shape::new(dims)?;
        if shape.len().checked_mul(dtype.size()) != Some(bytes.len()) {
            return Err(Error::count(bytes.len() / dtype.size(), shape));
        }
        AnyTensor::new(self.upload(bytes)?, dtype, Layout::of(shape))
    }

    /// Makes a tensor of zeros.
    ///
    /// The default writes zeros repeatedly from a small buffer in host memory. Override it if the backend can fill memory.
    ///
    /// # Errors
    /// As [`Shape::new`], [`alloc`](Backend::alloc) and [`write`](Backend::write).
    fn zeros<T: Element>(&self, dims: &[usize]) -> Result<TensorOf<Self, T>> {
        let shape = Shape::new(dims)?;
        let mut buffer = self.alloc::<T>(shape.len())?;
        let piece = host_vec::<T>(shape.len().min(ZEROS / size_of::<T>().max(1) + 1))?;
        for start in (0..shape.len()).step_by(piece.len().max(1)) {
            let len = piece.len().min(shape.len() - start);
            self.write(&piece[..len], Self::Space::borrow_mut(&mut buffer), start)?;
        }
        Tensor::new(buffer, Layout::of(shape))
    }

    /// Makes a tensor of these elements, in row-major order.
    ///
    /// # Errors
    /// [`Error::Count`] if the number of elements does not match the extents; else as [`upload`](Backend::upload).
    fn tensor<T: Element>(&self, dims: &[usize], data: &[T]) -> Result<TensorOf<Self, T>> {
        let shape = Shape::new(dims)?;
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
        self.execute(crate::Call::check(self, op, &mut args)?)
    }
}

/// Bytes of the host memory that the default [`Backend::zeros`] writes from.
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
    let mut host = Vec::new();
    host.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        backend: "host",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: String::new(),
    })?;
    host.resize(len, T::zeroed());
    Ok(host)
}
