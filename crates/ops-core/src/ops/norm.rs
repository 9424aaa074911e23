//! Normalisation.
use super::extents;
use super::registry::OptionValue;
use crate::{
    AnyRef, AsAny, AsView, AsViewMut, DType, Error, Execute, Float, Op, Operand, Result, Shape, TensorOf,
    operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

pub(super) mod args {
    use super::*;
    operands!(pub mod rms_norm: RmsNorm<T: Float> { x: in T, weight: in any, y: out T });
    operands!(pub mod layer_norm: LayerNorm<T: Float> { x: in T, weight: opt any, bias: opt any, y: out T });
    operands!(pub mod add_rms_norm: AddRmsNorm<T: Float> { x: in T, residual: in T, weight: in any, y: out T, sum: out T });
    operands!(pub mod group_norm: GroupNorm<T: Float> { x: in T, weight: opt any, bias: opt any, y: out T });
}

/// `y = x / sqrt(mean(x²) + eps) · weight`, with the mean over the last axis.
///
/// Operands: `x[.., n]`; `weight[n]` of any float type; `y` like `x`.
/// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RmsNorm<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> RmsNorm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        RmsNorm { eps, types: PhantomData }
    }
}
impl<T: Float> Op for RmsNorm<T> {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let RmsNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    #[inline]
    fn infer(&self, on: &args::rms_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let n = last_axis(self.name(), on.x)?;
        weights(self.name(), Some(on.weight), n)?;
        Ok([on.x.shape()])
    }
}

/// `y = (x − mean) / sqrt(var + eps) · weight + bias` over the last axis, with the biased variance.
///
/// Operands: `x[.., n]`; optional `weight[n]` and `bias[n]`, each of any float type; `y` like `x`.
/// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerNorm<T> {
    /// Added to the variance, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> LayerNorm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        LayerNorm { eps, types: PhantomData }
    }
}
impl<T: Float> Op for LayerNorm<T> {
    fn name(&self) -> &'static str {
        "layer_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let LayerNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &args::layer_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let n = last_axis(self.name(), on.x)?;
        weights(self.name(), on.weight, n)?;
        weights(self.name(), on.bias, n)?;
        Ok([on.x.shape()])
    }
}

/// `sum = x + residual`, rounded to `T`, and `y = rms_norm(sum)`: the step between two layers.
///
/// Operands: `x[.., n]`; `residual` like `x`; `weight[n]` of any float type; `y` and `sum` like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AddRmsNorm<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> AddRmsNorm<T> {
    /// Normalises with this `eps`.
    pub fn eps(eps: f64) -> Self {
        AddRmsNorm { eps, types: PhantomData }
    }
}
impl<T: Float> Op for AddRmsNorm<T> {
    fn name(&self) -> &'static str {
        "add_rms_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let AddRmsNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &args::add_rms_norm::Shapes<'_>) -> Result<[Shape; 2]> {
        valid_eps(self.name(), self.eps)?;
        let n = last_axis(self.name(), on.x)?;
        extents(self.name(), "residual", on.residual, on.x.dims())?;
        weights(self.name(), Some(on.weight), n)?;
        Ok([on.x.shape(), on.x.shape()])
    }
}

/// Layer norm over groups of channels. Each run of `c / num_groups` channels of `x[b, c, ..]` is normalised together with all
/// inner axes, then scaled and shifted per channel.
///
/// Operands: `x[b, c, ..]`; optional `weight[c]` and `bias[c]`, each of any float type; `y` like `x`.
/// Wu and He, "Group Normalization", 2018.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupNorm<T> {
    /// Number of groups; must divide the number of channels.
    pub num_groups: usize,
    /// Added to the variance, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> GroupNorm<T> {
    /// Normalises `num_groups` groups with this `eps`.
    pub fn new(num_groups: usize, eps: f64) -> Self {
        GroupNorm { num_groups, eps, types: PhantomData }
    }
}
impl<T: Float> Op for GroupNorm<T> {
    fn name(&self) -> &'static str {
        "group_norm"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("num_groups", self.num_groups.into()), ("eps", self.eps.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let GroupNorm { num_groups, eps, types: _ } = self;
        (num_groups, eps.to_bits()).hash(state);
    }
    fn infer(&self, on: &args::group_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let &[_, c, ..] = on.x.dims() else {
            return Err(Error::shape(self.name(), "x", on.x, "[b, c, ..]"));
        };
        if self.num_groups == 0 || c % self.num_groups != 0 {
            return Err(Error::param(
                self.name(),
                "num_groups",
                self.num_groups,
                format!("a divisor of the {c} channels"),
            ));
        }
        weights(self.name(), on.weight, c)?;
        weights(self.name(), on.bias, c)?;
        Ok([on.x.shape()])
    }
}

pub(super) fn last_axis(op: &'static str, x: &crate::Layout) -> Result<usize> {
    x.dims().last().copied().ok_or_else(|| Error::shape(op, "x", x, "[.., n]"))
}

/// Checks the number that a norm adds inside its root.
pub(super) fn valid_eps(op: &'static str, eps: f64) -> Result<()> {
    if eps >= 0.0 { Ok(()) } else { Err(Error::param(op, "eps", eps, "0 or more")) }
}

/// Checks a weight or bias, if given: `n` numbers of a float type.
pub(super) fn weights(op: &'static str, given: Option<Operand<'_>>, n: usize) -> Result<()> {
    let Some(given) = given else { return Ok(()) };
    given.require(op, DType::is_computed, "f16, bf16, f32 or f64")?;
    extents(op, given.name, given.layout, &[n])
}

/// Normalisation of `T`, with weights of any float type.
pub trait NormOps<T: Float>:
    Execute<RmsNorm<T>> + Execute<LayerNorm<T>> + Execute<AddRmsNorm<T>> + Execute<GroupNorm<T>>
{
    /// [`RmsNorm`] of every row of `x`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// let y = b.rms_norm(&x, &weight, RmsNorm::eps(0.0))?;
    /// // The root of the mean square of 1 and 7 is 5.
    /// assert_eq!(y.to_vec(&b)?, [0.2, 2.8]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn rms_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        op: RmsNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.rms_norm_into(x, weight, &mut y, op)?;
        Ok(y)
    }
    /// [`rms_norm`](Self::rms_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// let mut y = b.zeros(&[1, 2])?;
    /// b.rms_norm_into(&x, &weight, &mut y, RmsNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [0.2, 2.8]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn rms_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: RmsNorm<T>,
    ) -> Result<()> {
        self.run(&op, args::rms_norm::Args { x: x.view(), weight: weight.any_view(), y: y.view_mut() })
    }
    /// [`LayerNorm`] of every row of `x`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 3.0])?;
    /// let bias = b.tensor(&[2], &[10.0f32, 20.0])?;
    /// let y = b.layer_norm(&x, None, Some(bias.any()), LayerNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [9.0, 21.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn layer_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        op: LayerNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.layer_norm_into(x, weight, bias, &mut y, op)?;
        Ok(y)
    }
    /// [`layer_norm`](Self::layer_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 3.0])?;
    /// let mut y = b.zeros(&[1, 2])?;
    /// b.layer_norm_into(&x, None, None, &mut y, LayerNorm::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [-1.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn layer_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: LayerNorm<T>,
    ) -> Result<()> {
        let (weight, bias) = (weight.map(|w| w.shorten()), bias.map(|b| b.shorten()));
        self.run(&op, args::layer_norm::Args { x: x.view(), weight, bias, y: y.view_mut() })
    }
    /// [`AddRmsNorm`]: returns the normalised rows and the sum.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[0.0f32, 3.0])?;
    /// let residual = b.tensor(&[1, 2], &[1.0f32, 4.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// let (y, sum) = b.add_rms_norm(&x, &residual, &weight, AddRmsNorm::eps(0.0))?;
    /// assert_eq!(sum.to_vec(&b)?, [1.0, 7.0]);
    /// assert_eq!(y.to_vec(&b)?, [0.2, 2.8]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn add_rms_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        residual: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        op: AddRmsNorm<T>,
    ) -> Result<(TensorOf<Self, T>, TensorOf<Self, T>)> {
        let shape = x.view().shape();
        let (mut y, mut sum) = (self.empty(shape)?, self.empty(shape)?);
        self.add_rms_norm_into(x, residual, weight, &mut y, &mut sum, op)?;
        Ok((y, sum))
    }
    /// [`add_rms_norm`](Self::add_rms_norm) into `y` and `sum`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2], &[0.0f32, 3.0])?;
    /// let residual = b.tensor(&[1, 2], &[1.0f32, 4.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// let (mut y, mut sum) = (b.zeros(&[1, 2])?, b.zeros(&[1, 2])?);
    /// b.add_rms_norm_into(&x, &residual, &weight, &mut y, &mut sum, AddRmsNorm::eps(0.0))?;
    /// assert_eq!(sum.to_vec(&b)?, [1.0, 7.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn add_rms_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        residual: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        mut sum: impl AsViewMut<Self::Space, T>,
        op: AddRmsNorm<T>,
    ) -> Result<()> {
        let (x, residual, weight) = (x.view(), residual.view(), weight.any_view());
        self.run(&op, args::add_rms_norm::Args { x, residual, weight, y: y.view_mut(), sum: sum.view_mut() })
    }
    /// [`GroupNorm`] of `x[b, c, ..]`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// // Two groups of two channels each.
    /// let x = b.tensor(&[1, 4, 1], &[1.0f32, 3.0, 10.0, 30.0])?;
    /// let y = b.group_norm(&x, None, None, GroupNorm::new(2, 0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn group_norm(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        op: GroupNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.group_norm_into(x, weight, bias, &mut y, op)?;
        Ok(y)
    }
    /// [`group_norm`](Self::group_norm) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2, 1], &[1.0f32, 3.0])?;
    /// let mut y = b.zeros(&[1, 2, 1])?;
    /// b.group_norm_into(&x, None, None, &mut y, GroupNorm::new(1, 0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [-1.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn group_norm_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: GroupNorm<T>,
    ) -> Result<()> {
        let (weight, bias) = (weight.map(|w| w.shorten()), bias.map(|b| b.shorten()));
        self.run(&op, args::group_norm::Args { x: x.view(), weight, bias, y: y.view_mut() })
    }
}
impl<T: Float, B> NormOps<T> for B where
    B: Execute<RmsNorm<T>> + Execute<LayerNorm<T>> + Execute<AddRmsNorm<T>> + Execute<GroupNorm<T>>
{
}
