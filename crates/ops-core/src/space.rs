//! Where bytes live.
use crate::Element;
use core::fmt::Debug;

/// Where bytes live: a type-level tag with the buffers of one kind of memory.
///
/// Tensors name a `Space`, not a backend, so that a backend and the combinators around it share
/// their tensors. Backends that can read each other's buffers share a `Space`.
///
/// The two views are associated types because they differ: on the host they are `&[T]` and
/// `&mut [T]`, on a device a pointer and a length that borrow their buffer. All functions here are
/// the moves that the borrow checker makes by itself for references.
pub trait Space: Copy + Debug + Send + Sync + 'static {
    /// Owned memory for elements.
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
}

/// A space whose views may be another space's views: what [`Either`](crate::Either) is made of.
/// `Side` keeps the two halves apart where both are of one type.
pub trait Contains<A: Space, Side>: Space {
    /// The view, if it is of that side.
    fn get<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<A::Ref<'a, T>>;
    /// The view, if it is of that side.
    fn get_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Option<A::Mut<'a, T>>;
}
