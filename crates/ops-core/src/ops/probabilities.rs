//! Softmax and its logarithm.
use crate::{AsView, AsViewMut, Execute, Float, Op, Result, Shape, TensorOf, operands};
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
    /// [`Softmax`] along an axis.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) and what the backend reports.
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
    /// [`Error::Axis`](crate::Error::Axis) and what the backend reports.
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
        self.run(&op, softmax::Args { x: x.view(), y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<Softmax<T>>> SoftmaxOps<T> for B {}
