//! Gated activations and norms with more options than [`Glu`](super::Glu) and [`RmsNorm`](super::RmsNorm), and the L2 norm.
use super::declare::{family, methods, ops};
use super::norm::valid_eps;
use crate::{Backend, Execute, Float, Op, Result};

ops! {
    /// `y = x / sqrt(Σx² + eps)`, with the sum over the last axis.
    ///
    /// Operands: `x[.., n]`; `y` like `x`. Linear attention normalises queries and keys with it.
    pub struct L2Norm<T: Float> {
        /// Added to the sum of squares, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands l2_norm { x: in T [.., n], y: out T [.., n] }

    /// `y = rms_norm(x) · weight · silu(gate)`: [`RmsNorm`](super::RmsNorm) with a gate per element.
    ///
    /// Operands: `x[.., n]`; `gate` like `x`; `weight[n]` of any float type; `y` like `x`.
    pub struct GatedRmsNorm<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
    }
    /// Normalises with this `eps`.
    fn eps;
    operands gated_rms_norm { x: in T [.., n], gate: in T [.., n], weight: in any(floats) [n], y: out T [.., n] }

    /// `y = g · sigmoid(alpha · g) · (u + 1)`, with `g = min(gate, limit)` and `u = clamp(up, −limit, limit)`, element by element.
    ///
    /// Operands: `gate` of any shape; `up` and `y` like `gate`. NaN in `gate` or `up` gives NaN.
    pub struct SwigluClamped<T: Float> {
        /// Multiplies the gate inside the sigmoid.
        pub alpha: f64,
        /// The largest gate, and the largest magnitude of `up`.
        pub limit: f64,
    }
    /// The op with this `alpha` and `limit`.
    fn new;
    operands swiglu_clamped { gate: in T [..], up: in T [..], y: out T [..] }
}
impl<T: Float> Op for L2Norm<T> {
    fn check_options(&self) -> Result<()> {
        valid_eps(self.name(), self.eps)
    }
}

impl<T: Float> Op for GatedRmsNorm<T> {
    fn check_options(&self) -> Result<()> {
        valid_eps(self.name(), self.eps)
    }
}

impl<T: Float> Op for SwigluClamped<T> {}

family! {
    /// The L2 norm, the gated norm and the clamped gated activation in `T`.
    pub trait GatedOps<T: Float>: Execute<L2Norm<T>>, Execute<GatedRmsNorm<T>>, Execute<SwigluClamped<T>>;
    methods GatedMethods;
}

/// The methods of [`GatedOps`].
pub trait GatedMethods: Backend {
    methods! {
        GatedOps<T: Float>;
        /// [`L2Norm`] of every row of `x`.
        example
        /// let x = b.tensor(&[1, 3], &[2.0f32, -4.0, 4.0])?;
        /// // 2² + 4² + 4² + 28 is 8².
        /// let y = b.l2_norm(&x, 28.0)?;
        /// assert_eq!(y.to_vec(&b)?, [0.25, -0.5, 0.5]);
        fn l2_norm, l2_norm_into(x: in T; y: T; op: impl Into<L2Norm<T>>) = l2_norm(op.into());

        /// [`GatedRmsNorm`] of every row of `x`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 7.0])?;
        /// let gate = b.tensor(&[1, 2], &[0.0f32, 100.0])?;
        /// let weight = b.tensor(&[2], &[1.0f32, 5.0])?;
        /// let y = b.gated_rms_norm(&x, &gate, &weight, 0.0)?.to_vec(&b)?;
        /// // The root of the mean square of 1 and 7 is 5; silu of 0 is 0, and of 100 it is 100.
        /// assert!(y[0] == 0.0 && (y[1] - 700.0).abs() < 1e-3);
        fn gated_rms_norm, gated_rms_norm_into(
            x: in T, gate: in T, weight: in any; y: T; op: impl Into<GatedRmsNorm<T>>
        ) = gated_rms_norm(op.into());

        /// [`SwigluClamped`] of every element.
        example
        /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
        /// let up = b.tensor(&[2], &[5.0f32, -100.0])?;
        /// // 7 · sigmoid(700) · (1 − 7)
        /// let y = b.swiglu_clamped(&gate, &up, SwigluClamped::new(100.0, 7.0))?;
        /// assert_eq!(y.to_vec(&b)?, [0.0, -42.0]);
        fn swiglu_clamped, swiglu_clamped_into(gate: in T, up: in T; y: T; op: impl Into<SwigluClamped<T>>) = swiglu_clamped(op.into());
    }
}
