//! A backend chosen at run time.
use crate::{
    AnyTensor, Backend, Borrowed, Call, Contains, Determinism, Element, Error, Execute, HostMemory,
    IntoShape, Op, Operands, Packing, Reason, Result, Space, Tensor, TensorOf,
};
use core::marker::PhantomData;

/// One of two backends, chosen at run time. Each op costs one `match`.
#[derive(Clone, Copy, Debug)]
pub enum Either<L, R> {
    /// The first backend.
    Left(L),
    /// The second backend.
    Right(R),
}
use Either::{Left, Right};

/// The memory of an [`Either`]. Each tensor belongs to one side.
#[derive(Clone, Copy, Debug)]
pub struct EitherSpace<L, R>(PhantomData<(L, R)>);
/// The left side of an [`EitherSpace`], as a type-level marker.
#[derive(Clone, Copy, Debug)]
pub struct LeftSide;
/// The right side of an [`EitherSpace`], as a type-level marker.
#[derive(Clone, Copy, Debug)]
pub struct RightSide;

impl<L: Space, R: Space> Space for EitherSpace<L, R> {
    type Buffer<T: Element> = Either<L::Buffer<T>, R::Buffer<T>>;
    type Ref<'a, T: Element> = Either<L::Ref<'a, T>, R::Ref<'a, T>>;
    type Mut<'a, T: Element> = Either<L::Mut<'a, T>, R::Mut<'a, T>>;

    #[inline]
    fn len<T: Element>(view: Self::Ref<'_, T>) -> usize {
        match view {
            Left(v) => L::len(v),
            Right(v) => R::len(v),
        }
    }
    #[inline]
    fn borrow<T: Element>(buffer: &Self::Buffer<T>) -> Self::Ref<'_, T> {
        match buffer {
            Left(b) => Left(L::borrow(b)),
            Right(b) => Right(R::borrow(b)),
        }
    }
    #[inline]
    fn borrow_mut<T: Element>(buffer: &mut Self::Buffer<T>) -> Self::Mut<'_, T> {
        match buffer {
            Left(b) => Left(L::borrow_mut(b)),
            Right(b) => Right(R::borrow_mut(b)),
        }
    }
    #[inline]
    fn share<'s, T: Element>(view: &'s Self::Mut<'_, T>) -> Self::Ref<'s, T> {
        match view {
            Left(v) => Left(L::share(v)),
            Right(v) => Right(R::share(v)),
        }
    }
    #[inline]
    fn reborrow<'s, T: Element>(view: &'s mut Self::Mut<'_, T>) -> Self::Mut<'s, T> {
        match view {
            Left(v) => Left(L::reborrow(v)),
            Right(v) => Right(R::reborrow(v)),
        }
    }
    #[inline]
    fn shorten<'s, 'l: 's, T: Element>(view: Self::Ref<'l, T>) -> Self::Ref<'s, T> {
        match view {
            Left(v) => Left(L::shorten(v)),
            Right(v) => Right(R::shorten(v)),
        }
    }
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>) {
        match view {
            Left(v) => {
                let (a, b) = L::split_at(v, mid);
                (Left(a), Left(b))
            }
            Right(v) => {
                let (a, b) = R::split_at(v, mid);
                (Right(a), Right(b))
            }
        }
    }
    #[inline]
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8> {
        match view {
            Left(v) => Left(L::bytes(v)),
            Right(v) => Right(R::bytes(v)),
        }
    }
    #[inline]
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8> {
        match view {
            Left(v) => Left(L::bytes_mut(v)),
            Right(v) => Right(R::bytes_mut(v)),
        }
    }
    #[inline]
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>> {
        match bytes {
            Left(v) => L::typed(v).map(Left),
            Right(v) => R::typed(v).map(Right),
        }
    }
    #[inline]
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>> {
        match bytes {
            Left(v) => L::typed_mut(v).map(Left),
            Right(v) => R::typed_mut(v).map(Right),
        }
    }
    fn into_bytes<T: Element>(buffer: Self::Buffer<T>) -> Self::Buffer<u8> {
        match buffer {
            Left(b) => Left(L::into_bytes(b)),
            Right(b) => Right(R::into_bytes(b)),
        }
    }
    #[inline]
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool {
        match bytes {
            Left(v) => L::aligned(v, align),
            Right(v) => R::aligned(v, align),
        }
    }
    fn host<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<&'a [T]> {
        match view {
            Left(v) => L::host(v),
            Right(v) => R::host(v),
        }
    }
}

impl<L: Space, R: Space> Contains<L, LeftSide> for EitherSpace<L, R> {
    #[inline]
    fn get<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<L::Ref<'a, T>> {
        if let Left(v) = view { Some(v) } else { None }
    }
    #[inline]
    fn get_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Option<L::Mut<'a, T>> {
        if let Left(v) = view { Some(v) } else { None }
    }
}
impl<L: Space, R: Space> Contains<R, RightSide> for EitherSpace<L, R> {
    #[inline]
    fn get<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<R::Ref<'a, T>> {
        if let Right(v) = view { Some(v) } else { None }
    }
    #[inline]
    fn get_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Option<R::Mut<'a, T>> {
        if let Right(v) = view { Some(v) } else { None }
    }
}

impl<L: Backend, R: Backend> Backend for Either<L, R> {
    type Space = EitherSpace<L::Space, R::Space>;
    type Event = Either<L::Event, R::Event>;

    fn name(&self) -> &'static str {
        match self {
            Left(b) => b.name(),
            Right(b) => b.name(),
        }
    }
    fn alloc<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>> {
        match self {
            Left(b) => b.alloc(len).map(Left),
            Right(b) => b.alloc(len).map(Right),
        }
    }
    fn read<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        dst: &mut [T],
    ) -> Result<()> {
        match (self, src) {
            (Left(b), Left(src)) => b.read(src, start, dst),
            (Right(b), Right(src)) => b.read(src, start, dst),
            _ => Err(Error::WrongSide { call: "read" }),
        }
    }
    fn write<T: Element>(
        &self,
        src: &[T],
        dst: <Self::Space as Space>::Mut<'_, T>,
        start: usize,
    ) -> Result<()> {
        match (self, dst) {
            (Left(b), Left(dst)) => b.write(src, dst, start),
            (Right(b), Right(dst)) => b.write(src, dst, start),
            _ => Err(Error::WrongSide { call: "write" }),
        }
    }
    fn synchronize(&self) -> Result<()> {
        match self {
            Left(b) => b.synchronize(),
            Right(b) => b.synchronize(),
        }
    }
    fn fork(&self) -> Result<Self> {
        match self {
            Left(b) => b.fork().map(Left),
            Right(b) => b.fork().map(Right),
        }
    }
    fn mark(&self) -> Result<Self::Event> {
        match self {
            Left(b) => b.mark().map(Left),
            Right(b) => b.mark().map(Right),
        }
    }
    fn wait(&self, event: &Self::Event) -> Result<()> {
        match (self, event) {
            (Left(b), Left(e)) => b.wait(e),
            (Right(b), Right(e)) => b.wait(e),
            _ => Err(Error::WrongSide { call: "wait" }),
        }
    }
    fn capturing(&self) -> bool {
        match self {
            Left(b) => b.capturing(),
            Right(b) => b.capturing(),
        }
    }
    fn adopt<T: Element>(&self, memory: HostMemory<T>) -> Result<<Self::Space as Space>::Buffer<T>> {
        match self {
            Left(b) => b.adopt(memory).map(Left),
            Right(b) => b.adopt(memory).map(Right),
        }
    }
    fn free_memory(&self) -> Option<u64> {
        match self {
            Left(b) => b.free_memory(),
            Right(b) => b.free_memory(),
        }
    }

    // Forwards provided methods too: the chosen backend may override them.
    fn upload<T: Element>(&self, src: &[T]) -> Result<<Self::Space as Space>::Buffer<T>> {
        match self {
            Left(b) => b.upload(src).map(Left),
            Right(b) => b.upload(src).map(Right),
        }
    }
    fn read_vec<T: Element>(
        &self,
        src: <Self::Space as Space>::Ref<'_, T>,
        start: usize,
        len: usize,
    ) -> Result<Vec<T>> {
        match (self, src) {
            (Left(b), Left(src)) => b.read_vec(src, start, len),
            (Right(b), Right(src)) => b.read_vec(src, start, len),
            _ => Err(Error::WrongSide { call: "read" }),
        }
    }
    fn alloc_zeroed<T: Element>(&self, len: usize) -> Result<<Self::Space as Space>::Buffer<T>> {
        match self {
            Left(b) => b.alloc_zeroed(len).map(Left),
            Right(b) => b.alloc_zeroed(len).map(Right),
        }
    }
    fn empty<T: Element>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>> {
        match self {
            Left(b) => left(b.empty(shape)?),
            Right(b) => right(b.empty(shape)?),
        }
    }
    fn tensor<T: Element>(&self, shape: impl IntoShape, data: &[T]) -> Result<TensorOf<Self, T>> {
        match self {
            Left(b) => left(b.tensor(shape, data)?),
            Right(b) => right(b.tensor(shape, data)?),
        }
    }
}

/// Wraps a tensor of the left side.
fn left<L: Space, R: Space, T: Element>(x: Tensor<L, T>) -> Result<Tensor<EitherSpace<L, R>, T>> {
    let layout = *x.layout();
    Tensor::new(Left(x.into_buffer()), layout)
}

/// Wraps a tensor of the right side.
fn right<L: Space, R: Space, T: Element>(x: Tensor<R, T>) -> Result<Tensor<EitherSpace<L, R>, T>> {
    let layout = *x.layout();
    Tensor::new(Right(x.into_buffer()), layout)
}

impl<O: Op, L: Execute<O>, R: Execute<O>> Execute<O> for Either<L, R> {
    fn support(&self, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        match self {
            Left(b) => b.support(op, on),
            Right(b) => b.support(op, on),
        }
    }
    #[inline]
    fn execute(&self, mut call: Call<'_, '_, O, Self::Space>) -> Result<()> {
        let op = call.op();
        match self {
            Left(b) => b.execute(Call::assume(op, &mut side::<_, _, L::Space, LeftSide>(&mut call)?)),
            Right(b) => b.execute(Call::assume(op, &mut side::<_, _, R::Space, RightSide>(&mut call)?)),
        }
    }

    fn fuses(&self, op: &O, on: &dyn Operands) -> bool {
        match self {
            Left(b) => b.fuses(op, on),
            Right(b) => b.fuses(op, on),
        }
    }
    fn determinism(&self, op: &O, on: &dyn Operands) -> Determinism {
        match self {
            Left(b) => b.determinism(op, on),
            Right(b) => b.determinism(op, on),
        }
    }
    fn reads(&self, op: &O, operand: &'static str, packing: &'static Packing) -> bool {
        match self {
            Left(b) => b.reads(op, operand, packing),
            Right(b) => b.reads(op, operand, packing),
        }
    }
    fn pack(
        &self,
        op: &O,
        operand: &'static str,
        x: AnyTensor<Self::Space>,
    ) -> Result<AnyTensor<Self::Space>> {
        let (parts, buffer) = x.into_parts();
        match (self, buffer) {
            (Left(b), Left(buffer)) => {
                let (parts, buffer) = b.pack(op, operand, AnyTensor::from_parts(parts, buffer))?.into_parts();
                Ok(AnyTensor::from_parts(parts, Left(buffer)))
            }
            (Right(b), Right(buffer)) => {
                let (parts, buffer) = b.pack(op, operand, AnyTensor::from_parts(parts, buffer))?.into_parts();
                Ok(AnyTensor::from_parts(parts, Right(buffer)))
            }
            _ => Err(Error::WrongSide { call: "pack" }),
        }
    }
}

/// The arguments in one side's space. Fails unless all their memory belongs to that side.
#[inline(always)]
fn side<'s, O: Op, S: Contains<A, Side>, A: Space, Side>(
    call: &'s mut Call<'_, '_, O, S>,
) -> Result<O::Args<'s, A>> {
    let op = call.op();
    let args = call.map(|_, lent| {
        Some(match lent {
            Borrowed::Read(x) => Borrowed::Read(x.side::<A, Side>()?),
            Borrowed::Write(y) => Borrowed::Write(y.side::<A, Side>()?),
        })
    });
    args.ok_or_else(|| Error::WrongSide { call: op.name() })
}
