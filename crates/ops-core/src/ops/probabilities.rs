//! Softmax and its logarithm.
use crate::{Execute, Float, Mut, Op, Ref, Result, Shape, TensorOf, View, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y = exp(x − max) / Σ exp(x − max)` along an axis, or its logarithm.
///
/// Operands: `x` of any shape; `y` as `x`. A row of −∞ gives NaN, as does a row with NaN or +∞.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Softmax<T> {
    /// Along which axis; negative counts from the end.
    pub axis: isize,
    /// Whether `y = x − max − log Σ exp(x − max)` is wanted instead.
    pub log: bool,
    types: PhantomData<T>,
}
impl<T> Softmax<T> {
    /// Softmax along an axis; `-1` is the last.
    pub fn axis(axis: isize) -> Self {
        Softmax { axis, log: false, types: PhantomData }
    }
    /// The logarithm of it, without the loss of computing it so.
    pub fn log(self) -> Self {
        Softmax { log: true, ..self }
    }
}
operands!(pub mod softmax: Softmax<T: Float> { x: in T, y: out T });
impl<T: Float> Op for Softmax<T> {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Softmax { axis, log, types: _ } = self;
        (axis, log).hash(state);
    }
    fn infer(&self, on: &softmax::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis)?;
        Ok([on.x.shape()])
    }
}

/// Softmax of `T`.
pub trait SoftmaxOps<T: Float>: Execute<Softmax<T>> {
    /// [`Softmax`] into `y`.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis), [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn softmax_into(&self, x: Ref<'_, Self, T>, mut y: Mut<'_, Self, T>, op: Softmax<T>) -> Result<()> {
        self.run(&op, softmax::Args { x: x.shorten(), y: y.reborrow() })
    }
    /// [`Softmax`].
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) and what the backend reports.
    fn softmax(&self, x: Ref<'_, Self, T>, op: Softmax<T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.softmax_into(x, y.as_mut(), op)?;
        Ok(y)
    }
}
impl<T: Float, B: Execute<Softmax<T>>> SoftmaxOps<T> for B {}
