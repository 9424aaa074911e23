//! Backends made of other backends. Each has one implementation that covers all ops, present and future.
use crate::{
    AnyTensor, Backend, Call, Determinism, Element, Execute, IntoShape, Op, Operands, Packing, Reason,
    Result, Space, TensorOf,
};

mod checked;
mod either;
mod fallback;
mod replay;
mod timed;
mod traced;

pub use checked::{Checked, OnMismatch};
pub use either::{Either, EitherSpace, LeftSide, RightSide};
pub use fallback::{Fallback, FallbackEvent};
pub use timed::{OpTime, Timed};
pub use traced::{Recorder, Traced, TracedCall, TracedOperand};

/// A backend that wraps another and computes in its memory.
///
/// A wrapper is a [`Backend`] with the memory and the queue of [`inner`](Wrapper::inner). What it does with calls is left to
/// [`Intercept`].
pub trait Wrapper: Clone + Send + Sync + 'static {
    /// The backend in whose memory this one computes.
    type Inner: Backend;
    /// The wrapped backend.
    fn inner(&self) -> &Self::Inner;
    /// The same wrapper around another queue.
    fn around(&self, inner: Self::Inner) -> Self;
}

/// What a [`Wrapper`] does with the calls of an op. Everything except [`execute`](Intercept::execute) goes to the wrapped
/// backend unless the wrapper overrides it.
///
/// A wrapper that implements this for an op implements [`Execute`] for it.
pub trait Intercept<O: Op>: Wrapper<Inner: Execute<O>> {
    /// See [`Execute::execute`].
    ///
    /// # Errors
    /// As [`Execute::execute`].
    fn execute(&self, call: Call<'_, '_, O, <Self::Inner as Backend>::Space>) -> Result<()>;
    /// See [`Execute::support`].
    ///
    /// # Errors
    /// As [`Execute::support`].
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        self.inner().support(op, on)
    }
    /// See [`Execute::fuses`].
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        self.inner().fuses(op, on)
    }
    /// See [`Execute::reads`].
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        self.inner().reads(op, operand, packing)
    }
    /// See [`Execute::determinism`].
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        self.inner().determinism(op, on)
    }
    /// See [`Execute::pack`].
    ///
    /// # Errors
    /// As [`Execute::pack`].
    fn pack(
        &self,
        op: &O,
        operand: &'static str,
        x: AnyTensor<<Self::Inner as Backend>::Space>,
    ) -> Result<AnyTensor<<Self::Inner as Backend>::Space>> {
        self.inner().pack(op, operand, x)
    }
}

// So that messages about a missing kernel speak of `Execute`.
#[diagnostic::do_not_recommend]
impl<O: Op, W: Intercept<O>> Execute<O> for W {
    #[inline]
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        Intercept::support(self, op, on)
    }
    #[inline]
    fn execute(&self, call: Call<'_, '_, O, Self::Space>) -> Result<()> {
        Intercept::execute(self, call)
    }
    #[inline]
    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        Intercept::fuses(self, op, on)
    }
    #[inline]
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        Intercept::reads(self, op, operand, packing)
    }
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        Intercept::determinism(self, op, on)
    }
    fn pack(
        &self,
        op: &O,
        operand: &'static str,
        x: AnyTensor<Self::Space>,
    ) -> Result<AnyTensor<Self::Space>> {
        Intercept::pack(self, op, operand, x)
    }
}

impl<W: Wrapper> Backend for W {
    type Space = <W::Inner as Backend>::Space;
    type Event = <W::Inner as Backend>::Event;

    fn name(&self) -> &'static str {
        self.inner().name()
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>> {
        self.inner().alloc(len)
    }
    fn read<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        dst: &mut [T],
    ) -> Result<()> {
        self.inner().read(src, start, dst)
    }
    fn write<T: Element>(
        &self,
        src: &[T],
        dst: <Self::Space as Space>::Mut<'_, T>,
        start: usize,
    ) -> Result<()> {
        self.inner().write(src, dst, start)
    }
    fn synchronize(&self) -> Result<()> {
        self.inner().synchronize()
    }
    fn fork(&self) -> Result<Self> {
        Ok(self.around(self.inner().fork()?))
    }
    fn mark(&self) -> Result<Self::Event> {
        self.inner().mark()
    }
    fn wait(&self, event: &Self::Event) -> Result<()> {
        self.inner().wait(event)
    }
    fn capturing(&self) -> bool {
        self.inner().capturing()
    }
    fn adopt<T: Element>(&self, memory: crate::HostMemory<T>) -> Result<<Self::Space as Space>::Buffer<T>> {
        self.inner().adopt(memory)
    }
    fn free_memory(&self) -> Option<u64> {
        self.inner().free_memory()
    }

    // Forwards provided methods too: the inner backend may override them.
    fn upload<T: Element>(&self, src: &[T]) -> Result<<Self::Space as Space>::Buffer<T>> {
        self.inner().upload(src)
    }
    fn read_vec<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        self.inner().read_vec(src, start, len)
    }
    fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>> {
        self.inner().alloc_zeroed(len)
    }
    fn empty<T: Element>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>> {
        self.inner().empty(shape)
    }
    fn tensor<T: Element>(&self, shape: impl IntoShape, data: &[T]) -> Result<TensorOf<Self, T>> {
        self.inner().tensor(shape, data)
    }
}
