//! Gated activations and norms with more options than [`Glu`](super::Glu) and [`RmsNorm`](super::RmsNorm), and the L2 norm.
use super::extents;
use super::norm::{last_axis, valid_eps, weights};
use super::registry::OptionValue;
use crate::{AsAny, AsView, AsViewMut, Execute, Float, Op, Result, Shape, TensorOf, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

pub(super) mod args {
    use super::*;
    operands!(pub mod l2_norm: L2Norm<T: Float> { x: in T, y: out T });
    operands!(pub mod gated_rms_norm: GatedRmsNorm<T: Float> { x: in T, gate: in T, weight: in any, y: out T });
    operands!(pub mod swiglu_clamped: SwigluClamped<T: Float> { gate: in T, up: in T, y: out T });
}

/// `y = x / sqrt(Σx² + eps)`, with the sum over the last axis.
///
/// Operands: `x[.., n]`; `y` like `x`. Linear attention normalises queries and keys with it.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct L2Norm<T> {
    /// Added to the sum of squares, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> L2Norm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        L2Norm { eps, types: PhantomData }
    }
}
impl<T: Float> Op for L2Norm<T> {
    fn name(&self) -> &'static str {
        "l2_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let L2Norm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &args::l2_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        last_axis(self.name(), on.x)?;
        Ok([on.x.shape()])
    }
}

/// `y = rms_norm(x) · weight · silu(gate)`: [`RmsNorm`](super::RmsNorm) with a gate per element.
///
/// Operands: `x[.., n]`; `gate` like `x`; `weight[n]` of any float type; `y` like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GatedRmsNorm<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> GatedRmsNorm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        GatedRmsNorm { eps, types: PhantomData }
    }
}
impl<T: Float> Op for GatedRmsNorm<T> {
    fn name(&self) -> &'static str {
        "gated_rms_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let GatedRmsNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &args::gated_rms_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let n = last_axis(self.name(), on.x)?;
        extents(self.name(), "gate", on.gate, on.x.dims())?;
        weights(self.name(), Some(on.weight), n)?;
        Ok([on.x.shape()])
    }
}

/// `y = g · sigmoid(alpha · g) · (u + 1)`, with `g = min(gate, limit)` and `u = clamp(up, −limit, limit)`, element by element.
///
/// Operands: `gate` of any shape; `up` and `y` like `gate`. NaN in `gate` or `up` gives NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct SwigluClamped<T> {
    /// Multiplies the gate inside the sigmoid.
    pub alpha: f64,
    /// The largest gate, and the largest magnitude of `up`.
    pub limit: f64,
    types: PhantomData<T>,
}
impl<T> SwigluClamped<T> {
    /// The op with this `alpha` and `limit`.
    pub fn new(alpha: f64, limit: f64) -> Self {
        SwigluClamped { alpha, limit, types: PhantomData }
    }
}
impl<T: Float> Op for SwigluClamped<T> {
    fn name(&self) -> &'static str {
        "swiglu_clamped"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("alpha", self.alpha.into()), ("limit", self.limit.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let SwigluClamped { alpha, limit, types: _ } = self;
        (alpha.to_bits(), limit.to_bits()).hash(state);
    }
    fn infer(&self, on: &args::swiglu_clamped::Shapes<'_>) -> Result<[Shape; 1]> {
        extents(self.name(), "up", on.up, on.gate.dims())?;
        Ok([on.gate.shape()])
    }
}

/// The L2 norm, the gated norm and the clamped gated activation in `T`.
pub trait GatedOps<T: Float>:
    Execute<L2Norm<T>> + Execute<GatedRmsNorm<T>> + Execute<SwigluClamped<T>>
{
    /// [`L2Norm`] of every row of `x`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 3], &[2.0f32, -4.0, 4.0])?;
    /// // 2² + 4² + 4² + 28 is 8².
    /// let y = b.l2_norm(&x, L2Norm::eps(28.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.25, -0.5, 0.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn l2_norm(&self, x: impl AsView<Self::Space, T>, op: L2Norm<T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.l2_norm_into(x, &mut y, op)?;
        Ok(y)
    }
    /// [`l2_norm`](Self::l2_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 3], &[2.0f32, -4.0, 4.0])?;
    /// let mut y = b.zeros(&[1, 3])?;
    /// b.l2_norm_into(&x, &mut y, L2Norm::eps(28.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.25, -0.5, 0.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn l2_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: L2Norm<T>,
    ) -> Result<()> {
        self.run(&op, args::l2_norm::Args { x: x.view(), y: y.view_mut() })
    }
    /// [`GatedRmsNorm`] of every row of `x`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
    /// let gate = b.tensor(&[1, 2], &[0.0f32, 100.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 5.0])?;
    /// let y = b.gated_rms_norm(&x, &gate, &weight, GatedRmsNorm::eps(0.0))?.to_vec(&b)?;
    /// // The root of the mean square of 1 and 7 is 5; silu of 0 is 0, and of 100 it is 100.
    /// assert!(y[0] == 0.0 && (y[1] - 700.0).abs() < 1e-3);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn gated_rms_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        gate: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        op: GatedRmsNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.gated_rms_norm_into(x, gate, weight, &mut y, op)?;
        Ok(y)
    }
    /// [`gated_rms_norm`](Self::gated_rms_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
    /// let gate = b.tensor(&[1, 2], &[0.0f32, 0.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 5.0])?;
    /// let mut y = b.zeros(&[1, 2])?;
    /// b.gated_rms_norm_into(&x, &gate, &weight, &mut y, GatedRmsNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 0.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn gated_rms_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        gate: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: GatedRmsNorm<T>,
    ) -> Result<()> {
        let (x, gate, weight) = (x.view(), gate.view(), weight.any_view());
        self.run(&op, args::gated_rms_norm::Args { x, gate, weight, y: y.view_mut() })
    }
    /// [`SwigluClamped`] of every element.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, -100.0])?;
    /// // 7 · sigmoid(700) · (1 − 7)
    /// let y = b.swiglu_clamped(&gate, &up, SwigluClamped::new(100.0, 7.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, -42.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn swiglu_clamped(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        op: SwigluClamped<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.view().shape())?;
        self.swiglu_clamped_into(gate, up, &mut y, op)?;
        Ok(y)
    }
    /// [`swiglu_clamped`](Self::swiglu_clamped) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, -100.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.swiglu_clamped_into(&gate, &up, &mut y, SwigluClamped::new(100.0, 7.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, -42.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn swiglu_clamped_into(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: SwigluClamped<T>,
    ) -> Result<()> {
        self.run(&op, args::swiglu_clamped::Args { gate: gate.view(), up: up.view(), y: y.view_mut() })
    }
}
impl<T: Float, B> GatedOps<T> for B where
    B: Execute<L2Norm<T>> + Execute<GatedRmsNorm<T>> + Execute<SwigluClamped<T>>
{
}
