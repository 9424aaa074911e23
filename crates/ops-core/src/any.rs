//! Tensors whose element type is known only at run time.
use crate::layout::extents;
use crate::tensor::bounds;
use crate::{
    Contains, DType, Element, Error, IntoShape, Layout, Packing, Result, Shape, Space, Tensor, TensorMut,
    TensorRef,
};

mod argument;

pub use argument::{AsAny, AsOptional};

/// A view for reading whose element type is known only at run time. It is used for operands of several types, such as weights.
/// `Copy`.
///
/// Made from a typed view ([`TensorRef::any`]) or from bytes ([`AnyRef::new`]). Invariants: the bytes are aligned for the
/// element type, and the layout, counted in elements, lies inside them.
pub struct AnyRef<'a, S: Space> {
    bytes: S::Ref<'a, u8>,
    dtype: DType,
    layout: Layout,
    packing: Option<&'static Packing>,
}

/// A view for writing whose element type is known only at run time. It has the invariants of [`AnyRef`].
pub struct AnyMut<'a, S: Space> {
    bytes: S::Mut<'a, u8>,
    dtype: DType,
    layout: Layout,
}

/// A tensor whose element type is known only at run time, such as a weight of any format.
pub struct AnyTensor<S: Space> {
    buffer: S::Buffer<u8>,
    dtype: DType,
    layout: Layout,
    packing: Option<&'static Packing>,
}

/// A tensor without its memory: element type, layout and packing.
pub(crate) type RawParts = (DType, Layout, Option<&'static Packing>);

/// Checks that `bytes` can be viewed as elements: the alignment, and that the layout lies inside.
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

/// Checks that `bytes` hold a packed tensor, and returns its layout.
fn check_packed<S: Space>(
    bytes: S::Ref<'_, u8>,
    dtype: DType,
    shape: Shape,
    packing: &'static Packing,
) -> Result<Layout> {
    let layout = Layout::of(shape);
    let Some(want) = packing.bytes(dtype, shape.dims()) else {
        let why = format!("the packing {packing:?} does not support {dtype}");
        return Err(Error::View { of: None, view: "pack", layout: Box::new(layout), why });
    };
    if !S::aligned(bytes, packing.align()) {
        return Err(Error::Align { operand: "packed", dtype });
    }
    if S::len(bytes) < want {
        let (layout, len) = (Box::new(layout), S::len(bytes) / dtype.size());
        return Err(Error::OutOfBounds { op: "pack", operand: "tensor", layout, len });
    }
    Ok(layout)
}

impl<S: Space> AnyTensor<S> {
    /// Makes a tensor of bytes that hold elements of `dtype`, as stored in a model file.
    ///
    /// # Errors
    /// The layout reaches beyond the buffer ([`Error::OutOfBounds`]), or the buffer is not aligned for the type
    /// ([`Error::Align`]).
    pub fn new(buffer: S::Buffer<u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("tensor", S::borrow(&buffer), dtype, &layout)?;
        Ok(AnyTensor { buffer, dtype, layout, packing: None })
    }
    /// Makes a tensor of bytes that hold elements of `dtype` in a backend's packing.
    ///
    /// # Errors
    /// Fewer bytes than a packed tensor of this type and these extents takes ([`Error::OutOfBounds`]), misaligned bytes
    /// ([`Error::Align`]), or a type and extents that the packing does not support ([`Error::View`]).
    pub fn packed(
        buffer: S::Buffer<u8>,
        dtype: DType,
        shape: Shape,
        packing: &'static Packing,
    ) -> Result<Self> {
        let layout = check_packed::<S>(S::borrow(&buffer), dtype, shape, packing)?;
        Ok(AnyTensor { buffer, dtype, layout, packing: Some(packing) })
    }
    /// The whole tensor, for reading.
    #[inline]
    pub fn as_ref(&self) -> AnyRef<'_, S> {
        let AnyTensor { buffer, dtype, layout, packing } = self;
        AnyRef { bytes: S::borrow(buffer), dtype: *dtype, layout: *layout, packing: *packing }
    }
    /// The whole tensor, for writing; `None` if it is packed, since packed tensors are read-only.
    #[inline]
    pub fn as_mut(&mut self) -> Option<AnyMut<'_, S>> {
        let AnyTensor { buffer, dtype, layout, packing: None } = self else { return None };
        Some(AnyMut { bytes: S::borrow_mut(buffer), dtype: *dtype, layout: *layout })
    }
    /// The packing of the elements, if they are packed.
    pub fn packing(&self) -> Option<&'static Packing> {
        self.packing
    }
    /// Splits the tensor into its description and its memory.
    pub(crate) fn into_parts(self) -> (RawParts, S::Buffer<u8>) {
        ((self.dtype, self.layout, self.packing), self.buffer)
    }
    /// Rebuilds a tensor from its description, over the same memory as seen by another space.
    pub(crate) fn from_parts((dtype, layout, packing): RawParts, buffer: S::Buffer<u8>) -> Self {
        AnyTensor { buffer, dtype, layout, packing }
    }
    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// The extents with the last one counted in values: a block holds several.
    pub fn value_dims(&self) -> Vec<usize> {
        let mut dims = self.dims().to_vec();
        if let Some(last) = dims.last_mut() {
            *last = last.saturating_mul(self.dtype.values());
        }
        dims
    }
    /// Size of the elements in bytes, as stored.
    pub fn bytes(&self) -> usize {
        let packed = self.packing.and_then(|packing| packing.bytes(self.dtype, self.dims()));
        packed.unwrap_or_else(|| self.layout.len().saturating_mul(self.dtype.size()))
    }
    /// The same elements in the same order under other extents, without a copy.
    ///
    /// # Errors
    /// As [`Layout::reshape`]; the elements are packed.
    pub fn reshape(self, shape: impl IntoShape) -> Result<Self> {
        let layout = *self.as_ref().reshape(shape)?.layout();
        Ok(AnyTensor { layout, ..self })
    }
    /// The memory, without element type and layout.
    pub fn into_buffer(self) -> S::Buffer<u8> {
        self.buffer
    }
}

impl<S: Space, T: Element> From<Tensor<S, T>> for AnyTensor<S> {
    fn from(x: Tensor<S, T>) -> Self {
        let layout = *x.layout();
        AnyTensor { buffer: S::into_bytes(x.into_buffer()), dtype: DType::of::<T>(), layout, packing: None }
    }
}

impl<S: Space> Clone for AnyRef<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Space> Copy for AnyRef<'_, S> {}

impl<'a, S: Space> AnyRef<'a, S> {
    /// A view of bytes that hold elements of `dtype`; on the host, for example, part of a file.
    ///
    /// # Errors
    /// As [`AnyTensor::new`].
    pub fn new(bytes: S::Ref<'a, u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("view", bytes, dtype, &layout)?;
        Ok(AnyRef { bytes, dtype, layout, packing: None })
    }
    /// A view of bytes that hold elements of `dtype` in a backend's packing.
    ///
    /// # Errors
    /// As [`AnyTensor::packed`].
    pub fn packed(
        bytes: S::Ref<'a, u8>,
        dtype: DType,
        shape: Shape,
        packing: &'static Packing,
    ) -> Result<Self> {
        let layout = check_packed::<S>(bytes, dtype, shape, packing)?;
        Ok(AnyRef { bytes, dtype, layout, packing: Some(packing) })
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
    /// The packing of the elements, if they are packed.
    #[inline]
    pub fn packing(&self) -> Option<&'static Packing> {
        self.packing
    }
    /// Number of elements in the viewed memory, whether or not the layout refers to them.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(self.bytes) / self.dtype.size()
    }
    /// The view with a static type; `None` if the elements are of another type, or packed.
    #[inline]
    pub fn typed<T: Element>(&self) -> Option<TensorRef<'a, S, T>> {
        if self.packing.is_some() || self.dtype != DType::of::<T>() {
            return None;
        }
        // No check needed: the layout was checked against the bytes when this view was made.
        Some(TensorRef::within(S::typed(self.bytes)?, self.layout))
    }
    /// The same view, with a shorter lifetime.
    #[inline]
    pub fn shorten<'s>(self) -> AnyRef<'s, S>
    where
        'a: 's,
    {
        AnyRef { bytes: S::shorten(self.bytes), ..self }
    }
    /// The same memory under another layout.
    ///
    /// # Errors
    /// The layout reaches beyond the memory in view, or the elements are packed.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        if let Some(packing) = self.packing {
            let why = format!("its elements are packed as {packing:?}, and a packed tensor has no views");
            return Err(Error::View { of: None, view: "view", layout: Box::new(self.layout), why });
        }
        bounds("view", &layout, self.data_len())?;
        Ok(AnyRef { layout, ..self })
    }
    /// The view in another space, if its memory belongs to that space.
    #[inline]
    pub fn side<A: Space, Side>(self) -> Option<AnyRef<'a, A>>
    where
        S: Contains<A, Side>,
    {
        let AnyRef { bytes, dtype, layout, packing } = self;
        Some(AnyRef { bytes: S::get(bytes)?, dtype, layout, packing })
    }
}

extents!([S: Space] AnyTensor<S>);
extents!([S: Space] AnyRef<'_, S>);
extents!([S: Space] AnyMut<'_, S>);

impl<'a, S: Space> AnyMut<'a, S> {
    /// A view, for writing, of bytes that hold elements of `dtype`.
    ///
    /// # Errors
    /// As [`AnyTensor::new`].
    pub fn new(bytes: S::Mut<'a, u8>, dtype: DType, layout: Layout) -> Result<Self> {
        check::<S>("view", S::share(&bytes), dtype, &layout)?;
        Ok(AnyMut { bytes, dtype, layout })
    }
    /// The memory that the layout refers to, as bytes.
    #[inline]
    pub fn bytes(&self) -> S::Ref<'_, u8> {
        S::share(&self.bytes)
    }
    /// The memory that the layout refers to, as bytes, for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> S::Mut<'_, u8> {
        S::reborrow(&mut self.bytes)
    }
    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Number of elements in the viewed memory, whether or not the layout refers to them.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(S::share(&self.bytes)) / self.dtype.size()
    }
    /// The same view, for reading.
    #[inline]
    pub fn as_ref(&self) -> AnyRef<'_, S> {
        AnyRef { bytes: S::share(&self.bytes), dtype: self.dtype, layout: self.layout, packing: None }
    }
    /// The same view, with a shorter lifetime.
    #[inline]
    pub fn reborrow(&mut self) -> AnyMut<'_, S> {
        AnyMut { bytes: S::reborrow(&mut self.bytes), dtype: self.dtype, layout: self.layout }
    }
    /// The view with a static type; `None` if the elements are of another type.
    #[inline]
    pub fn typed<T: Element>(self) -> Option<TensorMut<'a, S, T>> {
        if self.dtype != DType::of::<T>() {
            return None;
        }
        // No check needed, as for reading.
        Some(TensorMut::within(S::typed_mut(self.bytes)?, self.layout))
    }
    /// The same memory under another layout.
    ///
    /// # Errors
    /// The layout reaches beyond the memory in view.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        bounds("view", &layout, self.data_len())?;
        Ok(AnyMut { layout, ..self })
    }
    /// The view in another space, if its memory belongs to that space.
    #[inline]
    pub fn side<A: Space, Side>(self) -> Option<AnyMut<'a, A>>
    where
        S: Contains<A, Side>,
    {
        Some(AnyMut { bytes: S::get_mut(self.bytes)?, dtype: self.dtype, layout: self.layout })
    }
}

impl<S: Space, T: Element> Tensor<S, T> {
    /// The whole tensor as a view with a dynamic element type.
    #[inline]
    pub fn any(&self) -> AnyRef<'_, S> {
        self.as_ref().any()
    }
}

impl<'a, S: Space, T: Element> TensorRef<'a, S, T> {
    /// The same view with a dynamic element type.
    #[inline]
    pub fn any(self) -> AnyRef<'a, S> {
        let (dtype, layout) = (DType::of::<T>(), *self.layout());
        AnyRef { bytes: S::bytes(self.data()), dtype, layout, packing: None }
    }
}

impl<'a, S: Space, T: Element> TensorMut<'a, S, T> {
    /// The same view with a dynamic element type.
    #[inline]
    pub fn any(self) -> AnyMut<'a, S> {
        let layout = *self.layout();
        AnyMut { bytes: S::bytes_mut(self.into_data()), dtype: DType::of::<T>(), layout }
    }
}
