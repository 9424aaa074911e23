//! Normalisation.
use super::declare::{family, methods, ops};
use super::extents;
use crate::{Backend, DType, Error, Execute, Float, Op, Operand, Result, Shape};

ops! {
    /// `y = x / sqrt(mean(x²) + eps) · weight`, with the mean over the last axis.
    ///
    /// Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019.
    pub struct RmsNorm<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands rms_norm { x: in T [.., n], weight: in any(floats) [n], y: out T [.., n] }

    /// `y = (x − mean) / sqrt(var + eps) · weight + bias` over the last axis, with the biased variance.
    ///
    /// Ba, Kiros and Hinton, "Layer Normalization", 2016.
    pub struct LayerNorm<T: Float> {
        /// Added to the variance, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands layer_norm { x: in T [.., n], weight: opt any(floats) [n], bias: opt any(floats) [n], y: out T [.., n] }

    /// `sum = x + residual`, rounded to `T`, and `y = rms_norm(sum)`: the step between two layers.
    pub struct AddRmsNorm<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands add_rms_norm {
        x: in T [.., n], residual: in T [.., n], weight: in any(floats) [n], y: out T [.., n], sum: out T [.., n]
    }

    /// Layer norm over groups of channels. Each run of `c / num_groups` channels of `x[b, c, ..]` is normalised together with all
    /// inner axes, then scaled and shifted per channel.
    ///
    /// Wu and He, "Group Normalization", 2018.
    pub struct GroupNorm<T: Float> {
        /// Number of groups; must divide the number of channels.
        pub num_groups: usize,
        /// Added to the variance, inside the root.
        pub eps: f64,
    }
    /// Normalises `num_groups` groups with this `eps`.
    fn new;
    operands group_norm {
        x: in T [b, c, ..], weight: opt any(floats) [c], bias: opt any(floats) [c], y: out T [b, c, ..]
    }
}

impl<T: Float> Op for RmsNorm<T> {
    // The rule by declared extents takes 170 instructions more, a fifth of what a call may take.
    #[inline]
    fn infer(&self, on: &args::rms_norm::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let Some(n) = on.x.dims().last() else {
            return Err(Error::shape(self.name(), "x", on.x, "[.., n]"));
        };
        weights(self.name(), Some(on.weight), *n)?;
        Ok([on.x.shape()])
    }
}
impl<T: Float> Op for LayerNorm<T> {
    fn check_options(&self) -> Result<()> {
        valid_eps(self.name(), self.eps)
    }
}
impl<T: Float> Op for AddRmsNorm<T> {
    fn check_options(&self) -> Result<()> {
        valid_eps(self.name(), self.eps)
    }
}
impl<T: Float> Op for GroupNorm<T> {
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

family! {
    /// Normalisation of `T`, with weights of any float type.
    pub trait NormOps<T: Float>: Execute<RmsNorm<T>>, Execute<LayerNorm<T>>, Execute<AddRmsNorm<T>>, Execute<GroupNorm<T>>;
    methods NormMethods;
}

/// The methods of [`NormOps`].
pub trait NormMethods: Backend {
    methods! {
        NormOps<T: Float>;
        /// [`RmsNorm`] of every row of `x`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
        /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
        /// let y = b.rms_norm(&x, &weight, 0.0)?;
        /// // The root of the mean square of 1 and 7 is 5.
        /// assert_eq!(y.to_vec(&b)?, [0.2, 2.8]);
        fn rms_norm, rms_norm_into(x: in T, weight: in any; y: T; op: impl Into<RmsNorm<T>>) = rms_norm(op.into());

        /// [`LayerNorm`] of every row of `x`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 3.0])?;
        /// let bias = b.tensor(&[2], &[10.0f32, 20.0])?;
        /// let y = b.layer_norm(&x, None, &bias, 0.0)?;
        /// assert_eq!(y.to_vec(&b)?, [9.0, 21.0]);
        fn layer_norm, layer_norm_into(x: in T, weight: opt any, bias: opt any; y: T; op: impl Into<LayerNorm<T>>) = layer_norm(op.into());

        /// [`AddRmsNorm`]: returns the normalised rows and the sum.
        example
        /// let x = b.tensor(&[1, 2], &[0.0f32, 3.0])?;
        /// let residual = b.tensor(&[1, 2], &[1.0f32, 4.0])?;
        /// let weight = b.tensor(&[2], &[1.0f32, 2.0])?;
        /// let (y, sum) = b.add_rms_norm(&x, &residual, &weight, 0.0)?;
        /// assert_eq!(sum.to_vec(&b)?, [1.0, 7.0]);
        /// assert_eq!(y.to_vec(&b)?, [0.2, 2.8]);
        fn add_rms_norm, add_rms_norm_into(
            x: in T, residual: in T, weight: in any; y: T, sum: T; op: impl Into<AddRmsNorm<T>>
        ) = add_rms_norm(op.into());

        /// [`GroupNorm`] of `x[b, c, ..]`.
        example
        /// // Two groups of two channels each.
        /// let x = b.tensor(&[1, 4, 1], &[1.0f32, 3.0, 10.0, 30.0])?;
        /// let y = b.group_norm(&x, None, None, GroupNorm::new(2, 0.0))?;
        /// assert_eq!(y.to_vec(&b)?, [-1.0, 1.0, -1.0, 1.0]);
        fn group_norm, group_norm_into(x: in T, weight: opt any, bias: opt any; y: T; op: impl Into<GroupNorm<T>>) = group_norm(op.into());
    }
}
