//! Softmax and log-softmax.
use super::declare::{family, methods, ops};
use crate::error::About;
use crate::{Backend, Execute, Float, Op, Result, Shape};

ops! {
    /// `y = exp(x − max) / Σ exp(x − max)` along an axis, or the logarithm of that.
    ///
    /// Operands: `x` of any shape; `y` like `x`. A row gives NaN if all its elements are −∞, or if any element is
    /// NaN or +∞.
    pub struct Softmax<T: Float> {
        /// The axis to normalise over; negative counts from the end.
        pub axis: isize [or -1],
    }
    variant {
        /// Whether to compute `y = x − max − log Σ exp(x − max)` instead.
        pub log: bool = false
    }
    /// Softmax along `axis`; `-1` is the last axis.
    fn axis;
    operands softmax { x: in T [.., n], y: out T [.., n] }
}
impl<T> Softmax<T> {
    /// Computes the logarithm directly, without the precision loss of `log(softmax(x))`.
    pub fn log(self) -> Self {
        Softmax { log: true, ..self }
    }
}
impl<T: Float> Op for Softmax<T> {
    fn name(&self) -> &'static str {
        if self.log { "log_softmax" } else { "softmax" }
    }
    fn infer(&self, on: &args::softmax::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis).about(self.name(), "x")?;
        Ok([on.x.shape()])
    }
}

family! {
    /// Softmax of `T`.
    pub trait SoftmaxOps<T: Float>: Execute<Softmax<T>>;
    methods SoftmaxMethods;
}

/// The methods of [`SoftmaxOps`].
pub trait SoftmaxMethods: Backend {
    methods! {
        SoftmaxOps<T: Float>;
        /// [`Softmax`] of `x`.
        example
        /// let x = b.tensor(&[2, 2], &[0.0f32, 0.0, 7.0, 7.0])?;
        /// let y = b.softmax(&x, -1)?;
        /// assert_eq!(y.to_vec(&b)?, [0.5; 4]);
        fn softmax, softmax_into(x: in T; y: T; op: impl Into<Softmax<T>>) = softmax(op.into());
    }
}
