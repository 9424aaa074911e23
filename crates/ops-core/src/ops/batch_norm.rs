//! Batch normalisation with given statistics.
use super::declare::{family, ops};
use super::norm::valid_eps;
use crate::{AnyRef, AsAny, AsView, AsViewMut, Backend, Execute, Float, Op, Result, TensorOf};

ops! {
    /// `y = (x − mean) / sqrt(var + eps) · weight + bias` per channel, with mean and variance as operands: the form for inference.
    ///
    /// Operands: `x[b, c, ..]`; optional `weight[c]` and `bias[c]`; `mean[c]` and `var[c]`; each of these of any float type; `y`
    /// like `x`. Ioffe and Szegedy, "Batch Normalization", 2015.
    pub struct BatchNorm<T: Float> {
        /// Added to the variance, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands batch_norm {
        x: in T [b, c, ..], weight: opt any(floats) [c], bias: opt any(floats) [c], mean: in any(floats) [c],
        var: in any(floats) [c], y: out T [b, c, ..]
    }
}
impl<T: Float> Op for BatchNorm<T> {
    fn check_options(&self) -> Result<()> {
        valid_eps(self.name(), self.eps)
    }
}

/// The weight and bias of a batch norm; either may be missing.
#[derive(Clone, Copy, Debug)]
pub struct ScaleShift<'a, S: crate::Space> {
    /// Multiplies the normalised values of each channel.
    pub weight: Option<AnyRef<'a, S>>,
    /// Added to them.
    pub bias: Option<AnyRef<'a, S>>,
}
impl<S: crate::Space> ScaleShift<'_, S> {
    /// No weight and no bias.
    pub const NONE: Self = ScaleShift { weight: None, bias: None };
}
impl<'a, S: crate::Space> ScaleShift<'a, S> {
    /// Both.
    pub fn new(weight: AnyRef<'a, S>, bias: AnyRef<'a, S>) -> Self {
        ScaleShift { weight: Some(weight), bias: Some(bias) }
    }
}

family! {
    /// Batch normalisation of `T`, with parameters of any float type.
    pub trait BatchNormOps<T: Float>: Execute<BatchNorm<T>>;
    methods BatchNormMethods;
}

/// The methods of [`BatchNormOps`].
pub trait BatchNormMethods: Backend {
    /// [`BatchNorm`] of `x[b, c, ..]`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape), [`Error::DType`](crate::Error::DType) and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // Two channels of two values each.
    /// let x = b.tensor(&[1, 2, 2], &[1.0f32, 3.0, 10.0, 30.0])?;
    /// let (mean, var) = (b.tensor(&[2], &[1.0f32, 20.0])?, b.tensor(&[2], &[4.0f32, 25.0])?);
    /// let y = b.batch_norm(&x, ScaleShift::NONE, &mean, &var, 0.0)?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 1.0, -2.0, 2.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn batch_norm<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        affine: ScaleShift<'_, Self::Space>,
        mean: impl AsAny<Self::Space>,
        var: impl AsAny<Self::Space>,
        op: impl Into<BatchNorm<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: BatchNormOps<T>,
    {
        let op = op.into();
        let mut y = self.empty(x.view().shape())?;
        self.batch_norm_into(x, affine, mean, var, &mut y, op)?;
        Ok(y)
    }
    /// [`batch_norm`](Self::batch_norm) into `y`.
    ///
    /// # Errors
    /// As [`batch_norm`](Self::batch_norm), and for an output of another shape.
    fn batch_norm_into<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        affine: ScaleShift<'_, Self::Space>,
        mean: impl AsAny<Self::Space>,
        var: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: impl Into<BatchNorm<T>>,
    ) -> Result<()>
    where
        Self: BatchNormOps<T>,
    {
        let op = op.into();
        let (weight, bias) = (affine.weight.map(|w| w.shorten()), affine.bias.map(|b| b.shorten()));
        let (x, mean, var) = (x.view(), mean.any_view(), var.any_view());
        self.run(&op, args::batch_norm::Args { x, weight, bias, mean, var, y: y.view_mut() })
    }
}
