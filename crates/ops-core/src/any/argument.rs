//! Tensors and views as arguments for operands of any element type.
use crate::{AnyMut, AnyRef, AnyTensor, Element, Space, Tensor, TensorMut, TensorRef};

/// An argument for an operand of any element type: a tensor or a view, typed or not.
///
/// ```
/// use rocm_ops::{AnyRef, AsAny, Tensor};
/// use rocm_ops::backend::Space;
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
impl<S: Space, T: Element> AsAny<S> for TensorMut<'_, S, T> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.as_ref().any()
    }
}
impl<S: Space> AsAny<S> for AnyMut<'_, S> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.as_ref()
    }
}
impl<S: Space, T: Element> AsAny<S> for TensorRef<'_, S, T> {
    #[inline]
    fn any_view(&self) -> AnyRef<'_, S> {
        self.shorten().any()
    }
}

/// An argument for an optional operand: a tensor or a view, or `None`.
///
/// ```
/// use rocm_ops::prelude::*;
/// let b = Cpu::new();
/// let x = b.tensor(&[1, 2], &[1.0f32, 3.0])?;
/// let bias = b.tensor(&[2], &[10.0f32, 20.0])?;
/// assert_eq!(b.layer_norm(&x, None, &bias, 0.0)?.to_vec(&b)?, [9.0, 21.0]);
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither a tensor in `{S}` nor `None`",
    label = "expected a tensor or a view of one, or `None`"
)]
pub trait AsOptional<S: Space> {
    /// The view; `None` if the operand is left out.
    fn optional_view(&self) -> Option<AnyRef<'_, S>>;
}
impl<S: Space> AsOptional<S> for Option<AnyRef<'_, S>> {
    #[inline]
    fn optional_view(&self) -> Option<AnyRef<'_, S>> {
        self.map(AnyRef::shorten)
    }
}
impl<S: Space> AsOptional<S> for AnyRef<'_, S> {
    #[inline]
    fn optional_view(&self) -> Option<AnyRef<'_, S>> {
        Some(self.shorten())
    }
}
impl<S: Space, T: Element> AsOptional<S> for TensorRef<'_, S, T> {
    #[inline]
    fn optional_view(&self) -> Option<AnyRef<'_, S>> {
        Some(self.any_view())
    }
}
impl<S: Space, A: AsAny<S>> AsOptional<S> for &A {
    #[inline]
    fn optional_view(&self) -> Option<AnyRef<'_, S>> {
        Some(self.any_view())
    }
}
// For options of tensors: `bias.as_ref().map(AnyRef::from)`.
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
