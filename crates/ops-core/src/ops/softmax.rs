//! Softmax and log-softmax.
use super::registry::OptionValue;
use crate::error::About;
use crate::{AsView, AsViewMut, Execute, Float, Op, Result, Shape, TensorOf, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y = exp(x − max) / Σ exp(x − max)` along an axis, or the logarithm of that.
///
/// Operands: `x` of any shape; `y` like `x`. A row gives NaN if all its elements are −∞, or if any element is
/// NaN or +∞.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Softmax<T> {
    /// The axis to normalise over; negative counts from the end.
    pub axis: isize,
    /// Whether to compute `y = x − max − log Σ exp(x − max)` instead.
    pub log: bool,
    types: PhantomData<T>,
}
impl<T> Softmax<T> {
    /// Softmax along `axis`; `-1` is the last axis.
    pub fn axis(axis: isize) -> Self {
        Softmax { axis, log: false, types: PhantomData }
    }
    /// Computes the logarithm directly, without the precision loss of `log(softmax(x))`.
    pub fn log(self) -> Self {
        Softmax { log: true, ..self }
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod softmax: Softmax<T: Float> { x: in T, y: out T });
}
impl<T: Float> Op for Softmax<T> {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("axis", self.axis.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Softmax { axis, log, types: _ } = self;
        (axis, log).hash(state);
    }
    fn infer(&self, on: &args::softmax::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis).about(self.name(), "x")?;
        Ok([on.x.shape()])
    }
}

/// Softmax of `T`.
pub trait SoftmaxOps<T: Float>: Execute<Softmax<T>> {
    /// [`Softmax`] of `x`.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 2], &[0.0f32, 0.0, 7.0, 7.0])?;
    /// let y = b.softmax(&x, Softmax::axis(-1))?;
    /// assert_eq!(y.to_vec(&b)?, [0.5; 4]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn softmax(&self, x: impl AsView<Self::Space, T>, op: Softmax<T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.softmax_into(x, &mut y, op)?;
        Ok(y)
    }
    /// [`softmax`](Self::softmax) into `y`.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[3.0f32, 3.0])?;
    /// let mut y = b.zeros(&[1, 2])?;
    /// b.softmax_into(&x, &mut y, Softmax::axis(-1))?;
    /// assert_eq!(y.to_vec(&b)?, [0.5; 2]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn softmax_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: Softmax<T>,
    ) -> Result<()> {
        self.run(&op, args::softmax::Args { x: x.view(), y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<Softmax<T>>> SoftmaxOps<T> for B {}
