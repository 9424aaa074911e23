//! Normalisation.
use super::extents;
use crate::{
    AnyRef, AsAny, DType, Error, Execute, Float, Mut, Op, Operand, Ref, Result, Shape, TensorOf, View,
    operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y = x / sqrt(mean(x²) + eps) · weight`, the mean over the last axis.
///
/// Operands: `x[.., n]`, `weight[n]` of any float type; `y` as `x`.
/// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct RmsNorm<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> RmsNorm<T> {
    /// With this `eps`.
    pub fn eps(eps: f64) -> Self {
        RmsNorm { eps, types: PhantomData }
    }
}
operands!(pub mod rms_norm: RmsNorm<T: Float> { x: in T, weight: in any, y: out T });
impl<T: Float> Op for RmsNorm<T> {
    fn name(&self) -> &'static str {
        "rms_norm"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let RmsNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    #[inline]
    fn infer(&self, on: &rms_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        let n = last_axis(self.name(), on.x)?;
        weights(self.name(), Some(on.weight), n)?;
        Ok([on.x.shape()])
    }
}

/// `y = (x − mean) / sqrt(var + eps) · weight + bias` over the last axis, biased variance.
///
/// Operands: `x[.., n]`, `weight[n]` and `bias[n]` of any float types, both optional; `y` as `x`.
/// Ba, Kiros and Hinton, "Layer Normalization", 2016.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct LayerNorm<T> {
    /// Added to the variance, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> LayerNorm<T> {
    /// With this `eps`.
    pub fn eps(eps: f64) -> Self {
        LayerNorm { eps, types: PhantomData }
    }
}
operands!(pub mod layer_norm: LayerNorm<T: Float> { x: in T, weight: opt any, bias: opt any, y: out T });
impl<T: Float> Op for LayerNorm<T> {
    fn name(&self) -> &'static str {
        "layer_norm"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let LayerNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &layer_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        let n = last_axis(self.name(), on.x)?;
        weights(self.name(), on.weight, n)?;
        weights(self.name(), on.bias, n)?;
        Ok([on.x.shape()])
    }
}

/// `sum = x + residual`, rounded to `T`; `y = rms_norm(sum)`: the step between two layers.
///
/// Operands: `x[.., n]`, `residual` as `x`, `weight[n]` of any float type; `y` and `sum` as `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AddRmsNorm<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> AddRmsNorm<T> {
    /// With this `eps`.
    pub fn eps(eps: f64) -> Self {
        AddRmsNorm { eps, types: PhantomData }
    }
}
operands!(pub mod add_rms_norm: AddRmsNorm<T: Float> { x: in T, residual: in T, weight: in any, y: out T, sum: out T });
impl<T: Float> Op for AddRmsNorm<T> {
    fn name(&self) -> &'static str {
        "add_rms_norm"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let AddRmsNorm { eps, types: _ } = self;
        eps.to_bits().hash(state);
    }
    fn infer(&self, on: &add_rms_norm::Shapes<'_>) -> Result<[Shape; 2]> {
        let n = last_axis(self.name(), on.x)?;
        extents(self.name(), "residual", on.residual, on.x.dims())?;
        weights(self.name(), Some(on.weight), n)?;
        Ok([on.x.shape(), on.x.shape()])
    }
}

/// Layer norm over groups of channels: `x[b, c, ..]` is normalised over each run of `c / num_groups`
/// channels and all inner axes, then scaled and shifted per channel.
///
/// Operands: `x[b, c, ..]`, `weight[c]` and `bias[c]` of any float types, both optional; `y` as `x`.
/// Wu and He, "Group Normalization", 2018.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupNorm<T> {
    /// How many groups; divides the number of channels.
    pub num_groups: usize,
    /// Added to the variance, inside the root.
    pub eps: f64,
    types: PhantomData<T>,
}
impl<T> GroupNorm<T> {
    /// With this many groups and `eps`.
    pub fn new(num_groups: usize, eps: f64) -> Self {
        GroupNorm { num_groups, eps, types: PhantomData }
    }
}
operands!(pub mod group_norm: GroupNorm<T: Float> { x: in T, weight: opt any, bias: opt any, y: out T });
impl<T: Float> Op for GroupNorm<T> {
    fn name(&self) -> &'static str {
        "group_norm"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let GroupNorm { num_groups, eps, types: _ } = self;
        (num_groups, eps.to_bits()).hash(state);
    }
    fn infer(&self, on: &group_norm::Shapes<'_>) -> Result<[Shape; 1]> {
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

fn last_axis(op: &'static str, x: &crate::Layout) -> Result<usize> {
    x.dims().last().copied().ok_or_else(|| Error::shape(op, "x", x, "[.., n]"))
}

/// A weight or a bias: `n` numbers of a type that is computed in, if it was given.
fn weights(op: &'static str, given: Option<Operand<'_>>, n: usize) -> Result<()> {
    let Some(given) = given else { return Ok(()) };
    given.require(op, DType::is_computed, "f16, bf16, f32 or f64")?;
    extents(op, given.name, given.layout, &[n])
}

/// Normalisation of `T`, with weights of any float type.
pub trait NormOps<T: Float>:
    Execute<RmsNorm<T>> + Execute<LayerNorm<T>> + Execute<AddRmsNorm<T>> + Execute<GroupNorm<T>>
{
    /// [`RmsNorm`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn rms_norm_into(
        &self,
        x: Ref<'_, Self, T>,
        weight: impl AsAny<Self::Space>,
        mut y: Mut<'_, Self, T>,
        op: RmsNorm<T>,
    ) -> Result<()> {
        self.run(&op, rms_norm::Args { x: x.shorten(), weight: weight.any_view(), y: y.reborrow() })
    }
    /// [`RmsNorm`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn rms_norm(
        &self,
        x: Ref<'_, Self, T>,
        weight: impl AsAny<Self::Space>,
        op: RmsNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.rms_norm_into(x, weight, y.as_mut(), op)?;
        Ok(y)
    }

    /// [`LayerNorm`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn layer_norm_into(
        &self,
        x: Ref<'_, Self, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut y: Mut<'_, Self, T>,
        op: LayerNorm<T>,
    ) -> Result<()> {
        let (weight, bias) = (weight.map(|w| w.shorten()), bias.map(|b| b.shorten()));
        self.run(&op, layer_norm::Args { x: x.shorten(), weight, bias, y: y.reborrow() })
    }
    /// [`LayerNorm`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn layer_norm(
        &self,
        x: Ref<'_, Self, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        op: LayerNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.layer_norm_into(x, weight, bias, y.as_mut(), op)?;
        Ok(y)
    }

    /// [`AddRmsNorm`] into `y` and `sum`.
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn add_rms_norm_into(
        &self,
        x: Ref<'_, Self, T>,
        residual: Ref<'_, Self, T>,
        weight: impl AsAny<Self::Space>,
        mut y: Mut<'_, Self, T>,
        mut sum: Mut<'_, Self, T>,
        op: AddRmsNorm<T>,
    ) -> Result<()> {
        let (x, residual, weight) = (x.shorten(), residual.shorten(), weight.any_view());
        self.run(&op, add_rms_norm::Args { x, residual, weight, y: y.reborrow(), sum: sum.reborrow() })
    }
    /// [`AddRmsNorm`]: the normalised rows and the sum.
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn add_rms_norm(
        &self,
        x: Ref<'_, Self, T>,
        residual: Ref<'_, Self, T>,
        weight: impl AsAny<Self::Space>,
        op: AddRmsNorm<T>,
    ) -> Result<(TensorOf<Self, T>, TensorOf<Self, T>)> {
        let (mut y, mut sum) = (self.empty(x.shape())?, self.empty(x.shape())?);
        self.add_rms_norm_into(x, residual, weight, y.as_mut(), sum.as_mut(), op)?;
        Ok((y, sum))
    }

    /// [`GroupNorm`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`] and what the backend reports.
    fn group_norm_into(
        &self,
        x: Ref<'_, Self, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut y: Mut<'_, Self, T>,
        op: GroupNorm<T>,
    ) -> Result<()> {
        let (weight, bias) = (weight.map(|w| w.shorten()), bias.map(|b| b.shorten()));
        self.run(&op, group_norm::Args { x: x.shorten(), weight, bias, y: y.reborrow() })
    }
    /// [`GroupNorm`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Param`] and what the backend reports.
    fn group_norm(
        &self,
        x: Ref<'_, Self, T>,
        weight: Option<AnyRef<'_, Self::Space>>,
        bias: Option<AnyRef<'_, Self::Space>>,
        op: GroupNorm<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.group_norm_into(x, weight, bias, y.as_mut(), op)?;
        Ok(y)
    }
}
impl<T: Float, B> NormOps<T> for B where
    B: Execute<RmsNorm<T>> + Execute<LayerNorm<T>> + Execute<AddRmsNorm<T>> + Execute<GroupNorm<T>>
{
}
