//! Views: the same memory under another layout.
use crate::{
    AnyMut, AnyRef, AnyTensor, Element, IntoShape, Layout, Result, Space, Tensor, TensorMut, TensorRef,
};

/// What [`TensorRef`], [`TensorMut`], [`AnyRef`] and [`AnyMut`] have in common, for code that is generic over them.
///
/// Their own methods ([`narrow`](TensorRef::narrow), [`transpose`](TensorRef::transpose), …) need no import. Generic code changes
/// the [`Layout`] and applies the result:
///
/// ```
/// use rocm_ops::{Result, View};
///
/// /// Row `i`, without its axis.
/// fn row<V: View>(x: V, i: usize) -> Result<V> {
///     let layout = x.layout().narrow(0, i, 1)?.squeeze(0)?;
///     x.with_layout(layout)
/// }
/// ```
pub trait View: Sized {
    /// Where the elements are.
    fn layout(&self) -> &Layout;
    /// The same memory under another layout.
    ///
    /// # Errors
    /// The layout reaches beyond the memory in view, or the elements are packed.
    fn with_layout(self, layout: Layout) -> Result<Self>;
}

/// The methods that view a tensor or a view in another way. Each applies the [`Layout`] method of the same name.
///
/// `views!([generics] Type: (self) -> View = self)` gives the receiver, the type of the result, and the view of the receiver.
macro_rules! views {
    ([$($generics:tt)*] $type:ty: ($($self:tt)+) -> $view:ty = $x:expr) => {
        impl<$($generics)*> $type {
            /// The `len` indices of `axis` from `start` on: `y[.., i, ..] = x[.., start + i, ..]`.
            ///
            /// # Errors
            /// As [`Layout::narrow`].
            #[inline]
            pub fn narrow($($self)+, axis: isize, start: usize, len: usize) -> Result<$view> {
                let x = $x;
                let layout = x.layout().narrow(axis, start, len)?;
                x.with_layout(layout)
            }
            /// Every `n`-th index of `axis`, from 0 on: `y[.., i, ..] = x[.., n·i, ..]`.
            ///
            /// # Errors
            /// As [`Layout::step`].
            #[inline]
            pub fn step($($self)+, axis: isize, n: usize) -> Result<$view> {
                let x = $x;
                let layout = x.layout().step(axis, n)?;
                x.with_layout(layout)
            }
            /// Axes `a` and `b` exchanged; for a matrix `y[i, j] = x[j, i]`.
            ///
            /// # Errors
            /// As [`Layout::transpose`].
            #[inline]
            pub fn transpose($($self)+, a: isize, b: isize) -> Result<$view> {
                let x = $x;
                let layout = x.layout().transpose(a, b)?;
                x.with_layout(layout)
            }
            /// The axes in another order: axis `i` of the view is axis `order[i]`.
            ///
            /// # Errors
            /// As [`Layout::permute`].
            #[inline]
            pub fn permute($($self)+, order: &[usize]) -> Result<$view> {
                let x = $x;
                let layout = x.layout().permute(order)?;
                x.with_layout(layout)
            }
            /// The same elements repeated along new outer axes and axes of extent 1.
            ///
            /// # Errors
            /// As [`Layout::broadcast`].
            #[inline]
            pub fn broadcast($($self)+, shape: impl IntoShape) -> Result<$view> {
                let x = $x;
                let layout = x.layout().broadcast(shape)?;
                x.with_layout(layout)
            }
            /// Without `axis`, whose extent must be 1.
            ///
            /// # Errors
            /// As [`Layout::squeeze`].
            #[inline]
            pub fn squeeze($($self)+, axis: isize) -> Result<$view> {
                let x = $x;
                let layout = x.layout().squeeze(axis)?;
                x.with_layout(layout)
            }
            /// With a new axis of extent 1 before `axis`; `-1` makes it the innermost.
            ///
            /// # Errors
            /// As [`Layout::unsqueeze`].
            #[inline]
            pub fn unsqueeze($($self)+, axis: isize) -> Result<$view> {
                let x = $x;
                let layout = x.layout().unsqueeze(axis)?;
                x.with_layout(layout)
            }
        }
    };
}
views!([S: Space, T: Element] Tensor<S, T>: (&self) -> TensorRef<'_, S, T> = self.as_ref());
views!([S: Space] AnyTensor<S>: (&self) -> AnyRef<'_, S> = self.as_ref());
views!([S: Space, T: Element] TensorRef<'_, S, T>: (self) -> Self = self);
views!([S: Space, T: Element] TensorMut<'_, S, T>: (self) -> Self = self);
views!([S: Space] AnyRef<'_, S>: (self) -> Self = self);
views!([S: Space] AnyMut<'_, S>: (self) -> Self = self);

/// [`View`], and `reshape`, which tensors have of their own: it consumes them, so that results of ops take their final extents
/// without a copy.
macro_rules! view {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> View for $type {
            fn layout(&self) -> &Layout {
                self.layout()
            }
            fn with_layout(self, layout: Layout) -> Result<Self> {
                self.with_layout(layout)
            }
        }
        impl<$($generics)*> $type {
            /// The same elements in the same order under other extents.
            ///
            /// # Errors
            /// As [`Layout::reshape`].
            #[inline]
            pub fn reshape(self, shape: impl IntoShape) -> Result<Self> {
                let layout = self.layout().reshape(shape)?;
                self.with_layout(layout)
            }
        }
    };
}
view!([S: Space, T: Element] TensorRef<'_, S, T>);
view!([S: Space, T: Element] TensorMut<'_, S, T>);
view!([S: Space] AnyRef<'_, S>);
view!([S: Space] AnyMut<'_, S>);
