//! Owned tensors and the borrowed views that every op takes.
use crate::layout::extents;
use crate::{DType, Element, Error, IntoShape, Layout, Result, Space};

/// A buffer and the layout of its elements.
///
/// The methods that view it in another way borrow it. For a view to write to, call [`as_mut`](Self::as_mut) first. `Display` prints
/// the values.
///
/// ```
/// use rocm_ops::prelude::*;
/// let b = Cpu::new();
/// let mut x = b.tensor([2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// assert_eq!(x.transpose(0, 1)?.to_string(), "[[1.0 4.0]\n [2.0 5.0]\n [3.0 6.0]]");
/// b.fill(x.as_mut().step(1, 2)?, 0.0)?;
/// assert_eq!(x.to_vec(&b)?, [0.0, 2.0, 0.0, 0.0, 5.0, 0.0]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
pub struct Tensor<S: Space, T: Element> {
    buffer: S::Buffer<T>,
    layout: Layout,
}

/// A view for reading. `Copy`.
pub struct TensorRef<'a, S: Space, T: Element> {
    data: S::Ref<'a, T>,
    layout: Layout,
}

/// A view for writing.
pub struct TensorMut<'a, S: Space, T: Element> {
    data: S::Mut<'a, T>,
    layout: Layout,
}

/// The layout in memory that starts `by` elements later. An empty layout restarts at 0.
fn after(layout: Layout, by: usize) -> Layout {
    if layout.is_empty() { Layout::of(layout.shape()) } else { layout.rebase(by) }
}

pub(crate) fn bounds(operand: &'static str, layout: &Layout, len: usize) -> Result<()> {
    if layout.fits(len) {
        return Ok(());
    }
    Err(Error::OutOfBounds { op: "view", operand, layout: Box::new(*layout), len })
}

impl<S: Space, T: Element> Tensor<S, T> {
    /// A tensor over `buffer`.
    ///
    /// # Errors
    /// The layout reaches beyond the buffer.
    pub fn new(buffer: S::Buffer<T>, layout: Layout) -> Result<Self> {
        bounds("tensor", &layout, S::len(S::borrow(&buffer)))?;
        Ok(Tensor { buffer, layout })
    }
    /// The whole tensor, for reading.
    #[inline]
    pub fn as_ref(&self) -> TensorRef<'_, S, T> {
        TensorRef { data: S::borrow(&self.buffer), layout: self.layout }
    }
    /// The whole tensor, for writing.
    #[inline]
    pub fn as_mut(&mut self) -> TensorMut<'_, S, T> {
        TensorMut { data: S::borrow_mut(&mut self.buffer), layout: self.layout }
    }
    /// The element type as a value.
    pub fn dtype(&self) -> DType {
        DType::of::<T>()
    }
    /// The memory.
    pub fn buffer(&self) -> &S::Buffer<T> {
        &self.buffer
    }
    /// The memory, without the layout.
    pub fn into_buffer(self) -> S::Buffer<T> {
        self.buffer
    }
    /// The same elements in the same order under other extents, without a copy. The tensor is consumed; `x.as_ref().reshape(..)` is a
    /// view and leaves it.
    ///
    /// # Errors
    /// As [`Layout::reshape`].
    pub fn reshape(self, shape: impl IntoShape) -> Result<Self> {
        Ok(Tensor { layout: self.layout.reshape(shape)?, buffer: self.buffer })
    }
}

extents!([S: Space, T: Element] Tensor<S, T>);
extents!([S: Space, T: Element] TensorRef<'_, S, T>);
extents!([S: Space, T: Element] TensorMut<'_, S, T>);

impl<S: Space, T: Element> Clone for TensorRef<'_, S, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: Space, T: Element> Copy for TensorRef<'_, S, T> {}

impl<'a, S: Space, T: Element> TensorRef<'a, S, T> {
    /// A view of memory that is not in a [`Tensor`]; on the host, any slice.
    ///
    /// # Errors
    /// The layout reaches beyond the memory.
    pub fn new(data: S::Ref<'a, T>, layout: Layout) -> Result<Self> {
        bounds("view", &layout, S::len(data))?;
        Ok(TensorRef { data, layout })
    }
    /// A view whose layout is known to lie inside the memory.
    #[inline]
    pub(crate) fn within(data: S::Ref<'a, T>, layout: Layout) -> Self {
        TensorRef { data, layout }
    }
    /// The element type as a value.
    #[inline]
    pub fn dtype(&self) -> DType {
        DType::of::<T>()
    }
    /// The memory that the layout refers to.
    #[inline]
    pub fn data(&self) -> S::Ref<'a, T> {
        self.data
    }
    /// Number of elements in the viewed memory, whether or not the layout refers to them.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(self.data)
    }
    /// The same memory under another layout.
    ///
    /// # Errors
    /// The layout reaches beyond the memory in view.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        bounds("view", &layout, S::len(self.data))?;
        Ok(TensorRef { layout, ..self })
    }
    /// The same view, with a shorter lifetime.
    #[inline]
    pub fn shorten<'s>(self) -> TensorRef<'s, S, T>
    where
        'a: 's,
    {
        TensorRef { data: S::shorten(self.data), layout: self.layout }
    }
    /// Splits the view in two at `mid` along `axis`.
    ///
    /// # Errors
    /// As [`Layout::split_at`].
    pub fn split_at(self, axis: isize, mid: usize) -> Result<(Self, Self)> {
        let (left, right) = self.layout.split_at(axis, mid)?;
        Ok((TensorRef { layout: left, ..self }, TensorRef { layout: right, ..self }))
    }
}

impl<'a, S: Space, T: Element> TensorMut<'a, S, T> {
    /// A view, for writing, of memory that is not in a [`Tensor`]; on the host, any slice.
    ///
    /// # Errors
    /// The layout reaches beyond the memory.
    pub fn new(data: S::Mut<'a, T>, layout: Layout) -> Result<Self> {
        bounds("view", &layout, S::len(S::share(&data)))?;
        Ok(TensorMut { data, layout })
    }
    /// A view whose layout is known to lie inside the memory.
    #[inline]
    pub(crate) fn within(data: S::Mut<'a, T>, layout: Layout) -> Self {
        TensorMut { data, layout }
    }
    /// The element type as a value.
    #[inline]
    pub fn dtype(&self) -> DType {
        DType::of::<T>()
    }
    /// The memory that the layout refers to.
    #[inline]
    pub fn data_mut(&mut self) -> S::Mut<'_, T> {
        S::reborrow(&mut self.data)
    }
    /// The memory that the layout refers to, for reading.
    #[inline]
    pub fn data(&self) -> S::Ref<'_, T> {
        S::share(&self.data)
    }
    /// Consumes the view and returns the memory that the layout refers to.
    #[inline]
    pub(crate) fn into_data(self) -> S::Mut<'a, T> {
        self.data
    }
    /// Number of elements in the viewed memory, whether or not the layout refers to them.
    #[inline]
    pub fn data_len(&self) -> usize {
        S::len(S::share(&self.data))
    }
    /// The same view, for reading.
    #[inline]
    pub fn as_ref(&self) -> TensorRef<'_, S, T> {
        TensorRef { data: S::share(&self.data), layout: self.layout }
    }
    /// The same view, with a shorter lifetime.
    #[inline]
    pub fn reborrow(&mut self) -> TensorMut<'_, S, T> {
        TensorMut { data: S::reborrow(&mut self.data), layout: self.layout }
    }
    /// The same memory under another layout.
    ///
    /// # Errors
    /// The layout reaches beyond the memory in view.
    pub fn with_layout(self, layout: Layout) -> Result<Self> {
        bounds("view", &layout, S::len(S::share(&self.data)))?;
        Ok(TensorMut { layout, ..self })
    }
    /// Splits the view into two disjoint views at `mid` along `axis`, both for writing.
    ///
    /// # Errors
    /// As [`Layout::split_at`]. Also fails if the two halves interleave in memory; they never do along the outermost axis of a
    /// contiguous tensor.
    pub fn split_at(self, axis: isize, mid: usize) -> Result<(Self, Self)> {
        let (left, right) = self.layout.split_at(axis, mid)?;
        let (l, r) = (left.extent(), right.extent());
        if l.is_empty() || r.is_empty() || l.end <= r.start {
            let cut = if l.is_empty() { r.start } else { l.end };
            let (low, high) = S::split_at(self.data, cut);
            return Ok((
                TensorMut { data: low, layout: after(left, 0) },
                TensorMut { data: high, layout: after(right, cut) },
            ));
        }
        if r.end <= l.start {
            let (low, high) = S::split_at(self.data, l.start);
            let (left, right) = (
                TensorMut { data: high, layout: after(left, l.start) },
                TensorMut { data: low, layout: right },
            );
            return Ok((left, right));
        }
        Err(Error::View {
            of: None,
            view: "split_at",
            layout: Box::new(self.layout),
            why: format!(
                "the halves along axis {axis} interleave in memory; split the outermost axis, or write one after the other"
            ),
        })
    }
}

/// A tensor of `T` or a view of one, for an op to read.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of `{T}` in `{S}`",
    label = "expected a tensor of `{T}` or a view of one"
)]
pub trait AsView<S: Space, T: Element> {
    /// The view.
    fn view(&self) -> TensorRef<'_, S, T>;
}
impl<S: Space, T: Element, A: AsView<S, T> + ?Sized> AsView<S, T> for &A {
    #[inline]
    fn view(&self) -> TensorRef<'_, S, T> {
        (**self).view()
    }
}
impl<S: Space, T: Element> AsView<S, T> for Tensor<S, T> {
    #[inline]
    fn view(&self) -> TensorRef<'_, S, T> {
        self.as_ref()
    }
}
impl<S: Space, T: Element> AsView<S, T> for TensorRef<'_, S, T> {
    #[inline]
    fn view(&self) -> TensorRef<'_, S, T> {
        self.shorten()
    }
}
impl<S: Space, T: Element> AsView<S, T> for TensorMut<'_, S, T> {
    #[inline]
    fn view(&self) -> TensorRef<'_, S, T> {
        self.as_ref()
    }
}

/// A tensor of `T` or a view of one, for an op to write.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tensor of `{T}` in `{S}` that may be written",
    label = "expected `&mut` a tensor of `{T}`, or a view of one for writing"
)]
pub trait AsViewMut<S: Space, T: Element> {
    /// The view.
    fn view_mut(&mut self) -> TensorMut<'_, S, T>;
}
impl<S: Space, T: Element, A: AsViewMut<S, T> + ?Sized> AsViewMut<S, T> for &mut A {
    #[inline]
    fn view_mut(&mut self) -> TensorMut<'_, S, T> {
        (**self).view_mut()
    }
}
impl<S: Space, T: Element> AsViewMut<S, T> for Tensor<S, T> {
    #[inline]
    fn view_mut(&mut self) -> TensorMut<'_, S, T> {
        self.as_mut()
    }
}
impl<S: Space, T: Element> AsViewMut<S, T> for TensorMut<'_, S, T> {
    #[inline]
    fn view_mut(&mut self) -> TensorMut<'_, S, T> {
        self.reborrow()
    }
}
