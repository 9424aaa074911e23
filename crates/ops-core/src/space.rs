//! Where bytes live.
use crate::Element;
use core::fmt::Debug;

/// Where bytes live: a type-level tag with the buffers of one kind of memory.
///
/// Tensors name a `Space`, not a backend, so that a backend and the combinators around it share
/// their tensors. Backends that can read each other's buffers share a `Space`.
///
/// The two views are associated types because they differ: on the host they are `&[T]` and
/// `&mut [T]`, on a device a pointer and a length that borrow their buffer. The functions here are
/// the moves that the borrow checker makes by itself for references, and the way from a view whose element type is
/// static to one whose type is a value ([`AnyRef`](crate::AnyRef)) and back.
pub trait Space: Copy + Debug + Send + Sync + 'static {
    /// Owned memory for elements, aligned for every element type, whatever its own is.
    type Buffer<T: Element>: Send + Sync + 'static;
    /// Shared view of a run of elements.
    type Ref<'a, T: Element>: Copy + Send + Sync;
    /// Exclusive view of a run of elements.
    type Mut<'a, T: Element>: Send + Sync;

    /// Elements in view.
    fn len<T: Element>(view: Self::Ref<'_, T>) -> usize;
    /// The whole buffer.
    fn borrow<T: Element>(buffer: &Self::Buffer<T>) -> Self::Ref<'_, T>;
    /// The whole buffer, to be written.
    fn borrow_mut<T: Element>(buffer: &mut Self::Buffer<T>) -> Self::Mut<'_, T>;
    /// The same run, for reading only.
    fn share<'s, T: Element>(view: &'s Self::Mut<'_, T>) -> Self::Ref<'s, T>;
    /// The same run, for a shorter time.
    fn reborrow<'s, T: Element>(view: &'s mut Self::Mut<'_, T>) -> Self::Mut<'s, T>;
    /// The same run, for a shorter time.
    fn shorten<'s, 'l: 's, T: Element>(view: Self::Ref<'l, T>) -> Self::Ref<'s, T>;
    /// Two runs that meet at `mid`, which is at most the length.
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>);

    /// The same memory as bytes.
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8>;
    /// The same memory as bytes, to be written.
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8>;
    /// The bytes as elements; `None` where they do not start and end where an element does.
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>>;
    /// The bytes as elements to be written; `None` as for [`typed`](Space::typed).
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>>;
    /// The buffer without its type.
    fn into_bytes<T: Element>(buffer: Self::Buffer<T>) -> Self::Buffer<u8>;
    /// Whether the bytes start at a multiple of `align`.
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool;
}

/// A space whose views may be another space's views: what [`Either`](crate::Either) is made of.
/// `Side` keeps the two halves apart where both are of one type.
pub trait Contains<A: Space, Side>: Space {
    /// The view, if it is of that side.
    fn get<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<A::Ref<'a, T>>;
    /// The view, if it is of that side.
    fn get_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Option<A::Mut<'a, T>>;
}
