//! Batch normalisation with given statistics.
use super::norm::{valid_eps, weights};
use super::registry::OptionValue;
use crate::{AnyRef, AsAny, AsView, AsViewMut, Error, Execute, Float, Op, Result, Shape, TensorOf, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y = (x − mean) / sqrt(var + eps) · weight + bias` per channel, with mean and variance as operands: the form for inference.
///
/// Operands: `x[b, c, ..]`; optional `weight[c]` and `bias[c]`; `mean[c]` and `var[c]`; each of these of any float type; `y`
/// like `x`. Ioffe and Szegedy, "Batch Normalization", 2015.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct BatchNorm<T> {
    /// Added to the variance, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> BatchNorm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        BatchNorm { eps, types: PhantomData }
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod batch_norm: BatchNorm<T: Float> { x: in T, weight: opt any, bias: opt any, mean: in any, var: in any, y: out T });
}
impl<T: Float> Op for BatchNorm<T> {
    fn name(&self) -> &'static str {
        "batch_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let BatchNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &args::batch_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let &[_, c, ..] = on.x.dims() else {
            return Err(Error::shape(self.name(), "x", on.x, "[b, c, ..]"));
        };
        for given in [on.weight, on.bias, Some(on.mean), Some(on.var)] {
            weights(self.name(), given, c)?;
        }
        Ok([on.x.shape()])
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

/// Batch normalisation of `T`, with parameters of any float type.
pub trait BatchNormOps<T: Float>: Execute<BatchNorm<T>> {
    /// [`BatchNorm`] of `x[b, c, ..]`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// // Two channels of two values each.
    /// let x = b.tensor(&[1, 2, 2], &[1.0f32, 3.0, 10.0, 30.0])?;
    /// let (mean, var) = (b.tensor(&[2], &[1.0f32, 20.0])?, b.tensor(&[2], &[4.0f32, 25.0])?);
    /// let y = b.batch_norm(&x, ScaleShift::NONE, &mean, &var, BatchNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 1.0, -2.0, 2.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn batch_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        affine: ScaleShift<'_, Self::Space>,
        mean: impl AsAny<Self::Space>,
        var: impl AsAny<Self::Space>,
        op: BatchNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.batch_norm_into(x, affine, mean, var, &mut y, op)?;
        Ok(y)
    }
    /// [`batch_norm`](Self::batch_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 1], &[1.0f32, 3.0])?;
    /// let (mean, var) = (b.tensor(&[1], &[1.0f32])?, b.tensor(&[1], &[4.0f32])?);
    /// let (weight, bias) = (b.tensor(&[1], &[10.0f32])?, b.tensor(&[1], &[0.5f32])?);
    /// let mut y = b.zeros(&[2, 1])?;
    /// let affine = ScaleShift::new(weight.any(), bias.any());
    /// b.batch_norm_into(&x, affine, &mean, &var, &mut y, BatchNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.5, 10.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn batch_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        affine: ScaleShift<'_, Self::Space>,
        mean: impl AsAny<Self::Space>,
        var: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: BatchNorm<T>,
    ) -> Result<()> {
        let (weight, bias) = (affine.weight.map(|w| w.shorten()), affine.bias.map(|b| b.shorten()));
        let (x, mean, var) = (x.view(), mean.any_view(), var.any_view());
        self.run(&op, args::batch_norm::Args { x, weight, bias, mean, var, y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<BatchNorm<T>>> BatchNormOps<T> for B {}
