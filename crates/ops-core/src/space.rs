//! Kinds of memory.
use crate::Element;
use core::fmt::Debug;

/// A kind of memory: a type-level tag that defines its buffers and views.
///
/// Tensors name a `Space`, not a backend, so a backend and the combinators around it share tensors. Backends that can read each
/// other's buffers use the same `Space`.
///
/// The views are associated types because they differ. On the host they are `&[T]` and `&mut [T]`; on a device each is a pointer
/// and a length that borrow their buffer. The functions reborrow views, as the borrow checker does implicitly for references,
/// and convert between views with a static element type and views with a dynamic one ([`AnyRef`](crate::AnyRef)).
pub trait Space: Copy + Debug + Send + Sync + 'static {
    /// Owned memory for elements, aligned for every element type, not just `T`.
    type Buffer<T: Element>: Send + Sync + 'static;
    /// Shared view of a run of elements.
    type Ref<'a, T: Element>: Copy + Send + Sync;
    /// Exclusive view of a run of elements.
    type Mut<'a, T: Element>: Send + Sync;

    /// Number of elements in the view.
    fn len<T: Element>(view: Self::Ref<'_, T>) -> usize;
    /// A view of the whole buffer.
    fn borrow<T: Element>(buffer: &Self::Buffer<T>) -> Self::Ref<'_, T>;
    /// A view of the whole buffer, for writing.
    fn borrow_mut<T: Element>(buffer: &mut Self::Buffer<T>) -> Self::Mut<'_, T>;
    /// The same elements, for reading only.
    fn share<'s, T: Element>(view: &'s Self::Mut<'_, T>) -> Self::Ref<'s, T>;
    /// The same elements, with a shorter lifetime.
    fn reborrow<'s, T: Element>(view: &'s mut Self::Mut<'_, T>) -> Self::Mut<'s, T>;
    /// The same elements, with a shorter lifetime.
    fn shorten<'s, 'l: 's, T: Element>(view: Self::Ref<'l, T>) -> Self::Ref<'s, T>;
    /// Splits the view in two at `mid`, which is at most its length.
    fn split_at<T: Element>(view: Self::Mut<'_, T>, mid: usize) -> (Self::Mut<'_, T>, Self::Mut<'_, T>);

    /// The same memory as bytes.
    fn bytes<'a, T: Element>(view: Self::Ref<'a, T>) -> Self::Ref<'a, u8>;
    /// The same memory as bytes, for writing.
    fn bytes_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Self::Mut<'a, u8>;
    /// The bytes as elements; `None` if they do not start and end on element boundaries.
    fn typed<'a, T: Element>(bytes: Self::Ref<'a, u8>) -> Option<Self::Ref<'a, T>>;
    /// The bytes as elements, for writing; `None` as for [`typed`](Space::typed).
    fn typed_mut<'a, T: Element>(bytes: Self::Mut<'a, u8>) -> Option<Self::Mut<'a, T>>;
    /// The buffer as bytes.
    fn into_bytes<T: Element>(buffer: Self::Buffer<T>) -> Self::Buffer<u8>;
    /// Whether the bytes start at a multiple of `align`.
    fn aligned(bytes: Self::Ref<'_, u8>, align: usize) -> bool;
    /// The elements as a slice, if the host can read the memory as it is and nothing enqueued still writes to it. `Debug` and
    /// `Display` of tensors print them. The default is `None`.
    fn host<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<&'a [T]> {
        let _ = view;
        None
    }
}

/// A space whose views may be views of another space `A`, such as the space of an [`Either`](crate::Either).
/// `Side` distinguishes the two halves even if both are of one type.
pub trait Contains<A: Space, Side>: Space {
    /// The view, if it belongs to this side.
    fn get<'a, T: Element>(view: Self::Ref<'a, T>) -> Option<A::Ref<'a, T>>;
    /// The view, if it belongs to this side.
    fn get_mut<'a, T: Element>(view: Self::Mut<'a, T>) -> Option<A::Mut<'a, T>>;
}
