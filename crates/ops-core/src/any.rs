//! Tensors whose element type is a value.
use crate::tensor::bounds;
use crate::{
    Backend, Contains, DType, Element, Error, Layout, Result, Space, Tensor, TensorMut, TensorRef, View,
};
use core::fmt;

/// A view for reading whose element type is a value: an operand that may be of several types, such as a weight. `Copy`.
///
/// Made from a typed view ([`TensorRef::any`]) or from bytes ([`AnyRef::new`]). It holds that the bytes start where an element
/// may start and that the layout, counted in elements, lies in them.
pub struct AnyRef<'a, S: Space> {
    bytes: S::Ref<'a, u8>,
    dtype: DType,
    layout: Layout,
}

/// A view for writing whose element type is a value. What holds for [`AnyRef`] holds here.
pub struct AnyMut<'a, S: Space> {
    bytes: S::Mut<'a, u8>,
    dtype: DType,
    layout: Layout,
}

/// A tensor whose element type is a value: a weight of any format.
pub struct AnyTensor<S: Space> {
    buffer: S::Buffer<u8>,
    dtype: DType,
    layout: Layout,
}

/// The untyped tensors of a backend.
pub type AnyOf<B> = AnyTensor<<B as Backend>::Space>;

/// What makes bytes a view of elements.
fn check<S: Space>(
    operand: &'static str,
    bytes: S::Ref<'_, u8>,
    dtype: DType,
    layout: &Layout,
) -> Result<()> {
    if !S::aligned(bytes, dtype.align()) {
        return Err(Error::Align { operand, dtype });
    }
    bounds(operand, layout, S::len(bytes) / dtype.size())
}

impl<S: Space> AnyTensor<S> {
    /// Bytes that hold elements of `dtype`, as a model file has them.
    ///
    /// # Errors
    /// The layout reaches beyond the buffer ([`Error::OutOfBounds`]), or the buffer is not aligned for the type
    /// ([`Error::Align`]).
    pub fn new(buffer: S::Buffer<u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("tensor", S::borrow(&buffer), dtype, &layout)?;
        Ok(AnyTensor { buffer, dtype, layout })
    }
    /// The whole tensor, for reading.
    #[inline]
    pub fn as_ref(&self) -> AnyRef<'_, S> {
        AnyRef { bytes: S::borrow(&self.buffer), dtype: self.dtype, layout: self.layout }
    }
    /// The whole tensor, for writing.
    #[inline]
    pub fn as_mut(&mut self) -> AnyMut<'_, S> {
        AnyMut { bytes: S::borrow_mut(&mut self.buffer), dtype: self.dtype, layout: self.layout }
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The layout, counted in elements.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// The extents, counted in elements.
    pub fn dims(&self) -> &[usize] {
        self.layout.dims()
    }
    /// The extents counted in values, of which a block has many.
    pub fn value_dims(&self) -> Vec<usize> {
        let mut dims = self.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = last.saturating_mul(self.dtype.values());
        }
        dims
    }
    /// A copy in another backend's memory.
    ///
    /// # Errors
    /// A transfer or an allocation fails.
    pub fn mirror<P: Backend<Space = S>, Q: Backend>(&self, from: &P, to: &Q) -> Result<AnyOf<Q>> {
        crate::mirror::copy_any(self.as_ref(), from, to)
    }
    /// Bytes of its elements.
    pub fn bytes(&self) -> usize {
        self.layout.len().saturating_mul(self.dtype.size())
    }
    /// The memory, without type and layout.
    pub fn into_buffer(self) -> S::Buffer<u8> {
        self.buffer
    }
}

impl<S: Space, T: Element> From<Tensor<S, T>> for AnyTensor<S> {
    fn from(x: Tensor<S, T>) -> Self {
        let layout = *x.layout();
        AnyTensor { buffer: S::into_bytes(x.into_buffer()), dtype: DType::of::<T>(), layout }
    }
}

impl<S: Space> Clone for AnyRef<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Space> Copy for AnyRef<'_, S> {}

impl<'a, S: Space> AnyRef<'a, S> {
    /// Bytes that hold elements of `dtype`: on the host, a part of a file.
    ///
    /// # Errors
    /// As [`AnyTensor::new`].
    pub fn new(bytes: S::Ref<'a, u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("view", bytes, dtype, &layout)?;
        Ok(AnyRef { bytes, dtype, layout })
    }
    /// The memory that the layout refers to, as bytes.
    #[inline]
    pub fn bytes(&self) -> S::Ref<'a, u8> {
        self.bytes
    }
    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Elements of memory in view, used by the layout or not.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(self.bytes) / self.dtype.size()
    }
    /// The view with a static type, if its elements are of that type.
    #[inline]
    pub fn typed<T: Element>(&self) -> Option<TensorRef<'a, S, T>> {
        if self.dtype != DType::of::<T>() {
            return None;
        }
        TensorRef::new(S::typed(self.bytes)?, self.layout).ok()
    }
    /// The same view, for a shorter time.
    #[inline]
    pub fn shorten<'s>(self) -> AnyRef<'s, S>
    where
        'a: 's,
    {
        AnyRef { bytes: S::shorten(self.bytes), ..self }
    }
    /// The view as one of another space, where its memory is of that space.
    pub fn side<A: Space, Side>(self) -> Option<AnyRef<'a, A>>
    where
        S: Contains<A, Side>,
    {
        Some(AnyRef { bytes: S::get(self.bytes)?, dtype: self.dtype, layout: self.layout })
    }
}

impl<S: Space> View for AnyRef<'_, S> {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn with_layout(self, layout: Layout) -> Result<Self> {
        bounds("view", &layout, self.data_len())?;
        Ok(AnyRef { layout, ..self })
    }
}

impl<'a, S: Space> AnyMut<'a, S> {
    /// Bytes that hold elements of `dtype`, to be written.
    ///
    /// # Errors
    /// As [`AnyTensor::new`].
    pub fn new(bytes: S::Mut<'a, u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("view", S::share(&bytes), dtype, &layout)?;
        Ok(AnyMut { bytes, dtype, layout })
    }
    /// The memory that the layout refers to, as bytes.
    #[inline]
    pub fn bytes_mut(&mut self) -> S::Mut<'_, u8> {
        S::reborrow(&mut self.bytes)
    }
    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Elements of memory in view, used by the layout or not.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(S::share(&self.bytes)) / self.dtype.size()
    }
    /// The same view, for reading.
    #[inline]
    pub fn as_ref(&self) -> AnyRef<'_, S> {
        AnyRef { bytes: S::share(&self.bytes), dtype: self.dtype, layout: self.layout }
    }
    /// The same view, for a shorter time.
    #[inline]
    pub fn reborrow(&mut self) -> AnyMut<'_, S> {
        AnyMut { bytes: S::reborrow(&mut self.bytes), dtype: self.dtype, layout: self.layout }
    }
    /// The view with a static type, if its elements are of that type.
    #[inline]
    pub fn typed<T: Element>(self) -> Option<TensorMut<'a, S, T>> {
        if self.dtype != DType::of::<T>() {
            return None;
        }
        TensorMut::new(S::typed_mut(self.bytes)?, self.layout).ok()
    }
    /// The view as one of another space, where its memory is of that space.
    pub fn side<A: Space, Side>(self) -> Option<AnyMut<'a, A>>
    where
        S: Contains<A, Side>,
    {
        Some(AnyMut { bytes: S::get_mut(self.bytes)?, dtype: self.dtype, layout: self.layout })
    }
}

impl<S: Space> View for AnyMut<'_, S> {
    fn layout(&self) -> &Layout {
        &self.layout
    }
    fn with_layout(self, layout: Layout) -> Result<Self> {
        bounds("view", &layout, self.data_len())?;
        Ok(AnyMut { layout, ..self })
    }
}

impl<'a, S: Space, T: Element> TensorRef<'a, S, T> {
    /// The same view with its element type as a value.
    #[inline]
    pub fn any(self) -> AnyRef<'a, S> {
        AnyRef { bytes: S::bytes(self.data()), dtype: DType::of::<T>(), layout: *View::layout(&self) }
    }
}

impl<'a, S: Space, T: Element> TensorMut<'a, S, T> {
    /// The same view with its element type as a value.
    #[inline]
    pub fn any(self) -> AnyMut<'a, S> {
        let layout = *View::layout(&self);
        AnyMut { bytes: S::bytes_mut(self.into_data()), dtype: DType::of::<T>(), layout }
    }
}

/// What a method takes for an operand of any element type: a tensor or a view, typed or not.
///
/// ```
/// use ops_core::{AnyRef, AsAny, Space, Tensor};
///
/// fn operands<S: Space>(typed: &Tensor<S, f32>, untyped: AnyRef<'_, S>) {
///     let _: [AnyRef<'_, S>; 3] = [typed.any_view(), typed.as_ref().any_view().shorten(), untyped.any_view()];
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor in `{S}`",
    label = "expected a tensor or a view of one, of any element type"
)]
pub trait AsAny<S: Space> {
    /// The view.
    fn any_view(&self) -> AnyRef<'_, S>;
}
impl<S: Space, A: AsAny<S> + ?Sized> AsAny<S> for &A {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        (**self).any_view()
    }
}
impl<S: Space> AsAny<S> for AnyRef<'_, S> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.shorten()
    }
}
impl<S: Space> AsAny<S> for AnyTensor<S> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.as_ref()
    }
}
impl<S: Space, T: Element> AsAny<S> for Tensor<S, T> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.as_ref().any()
    }
}
impl<S: Space, T: Element> AsAny<S> for TensorRef<'_, S, T> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.shorten().any()
    }
}
// For arguments in an `Option`: `Some((&bias).into())`.
impl<'a, S: Space> From<&'a AnyTensor<S>> for AnyRef<'a, S> {
    fn from(x: &'a AnyTensor<S>) -> Self {
        x.as_ref()
    }
}
impl<'a, S: Space, T: Element> From<&'a Tensor<S, T>> for AnyRef<'a, S> {
    fn from(x: &'a Tensor<S, T>) -> Self {
        x.as_ref().any()
    }
}
impl<'a, S: Space, T: Element> From<TensorRef<'a, S, T>> for AnyRef<'a, S> {
    fn from(x: TensorRef<'a, S, T>) -> Self {
        x.any()
    }
}

// Debug shows the type and layout, never the elements: they may live on a device.
impl<S: Space> fmt::Debug for AnyTensor<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyTensor<{}> {}", self.dtype, self.layout)
    }
}
impl<S: Space> fmt::Debug for AnyRef<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyRef<{}> {}", self.dtype, self.layout)
    }
}
impl<S: Space> fmt::Debug for AnyMut<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyMut<{}> {}", self.dtype, self.layout)
    }
}
