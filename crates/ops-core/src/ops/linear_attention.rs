//! Linear attention: layers whose memory of past tokens has a fixed size.
use super::declare::{family, methods, ops};
use super::extents;
use super::norm::weights;
use super::options::words;
use crate::{
    AsView, AsViewMut, Backend, DType, Error, Execute, Float, Op, Operands, Result, Shape, TensorOf,
    Tolerance,
};
use core::hash::Hash;

/// The activation after a convolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ConvActivation {
    /// Nothing.
    #[default]
    None,
    /// `x · sigmoid(x)`.
    Silu,
}
impl ConvActivation {
    /// Every activation by the name that files use.
    pub const ALL: [(&'static str, Self); 2] = [("none", Self::None), ("silu", Self::Silu)];
}

words!(ConvActivation);

ops! {
    /// A causal convolution of each channel over time that continues an earlier one:
    /// `y[i] = activation(Σ weight[j] · line[i + j] + bias)`, where `line` is the state followed by `x`.
    ///
    /// Operands:
    /// - `x[b, t, c]` and `weight[c, w]`, whose last column multiplies the newest input;
    /// - `bias[c]` of any float type, optional;
    /// - `state[b, c, w − 1]`: the inputs before `x`, oldest first. It becomes the last `w − 1` inputs;
    /// - `y` like `x`.
    ///
    /// Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023.
    pub struct Conv1dUpdate<T: Float> {
        /// The activation after the sums.
        pub activation: ConvActivation = ConvActivation::None,
    }
    /// No activation.
    fn plain;
    operands conv1d_update {
        x: in T [b, t, c], weight: in T [c, w], bias: opt any(floats) [c], state: inout T [b, c, s], y: out T [b, t, c]
    }

    /// The gated delta rule. Each head has a matrix that maps keys to values; every token makes it decay and
    /// corrects it.
    ///
    /// For each token, `S ← e^decay · S`; `r = beta · (v − kᵀ S)`; `S ← S + k rᵀ`; `o = scale · qᵀ S`.
    ///
    /// Operands (GPUs have kernels for f16, bf16 and f32):
    /// - `q` and `k[b, t, h, d]`, `v[b, t, h, dv]`;
    /// - `decay` and `beta[b, t, h]` of f32;
    /// - `state[b, h, d, dv]` of f32: the matrices before the first token, then those after the last;
    /// - `o[b, t, h, dv]`.
    ///
    /// Yang, Kautz and Hatamizadeh, "Gated Delta Networks: Improving Mamba2 with Delta Rule", 2024.
    pub struct GatedDeltaRule<T: Float> {
        /// Factor applied to the outputs; `None` means `1/√d`.
        pub scale: Option<f64> = None,
    }
    /// Scales by `1/√d`.
    fn new;
    operands gated_delta_rule {
        q: in T [b, t, h, d], k: in T [b, t, h, d], v: in T [b, t, h, dv], decay: in f32 [b, t, h], beta: in f32 [b, t, h],
        state: inout f32 [b, h, d, dv], o: out T [b, t, h, dv]
    }
}
impl<T> Conv1dUpdate<T> {
    /// Sets the activation.
    pub fn activation(self, activation: ConvActivation) -> Self {
        Conv1dUpdate { activation, ..self }
    }
}
impl<T: Float> Op for Conv1dUpdate<T> {
    fn infer(&self, on: &args::conv1d_update::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        let &[b, _, c] = on.x.dims() else { return Err(Error::shape(op, "x", on.x, "[b, t, c]")) };
        let w = match *on.weight.dims() {
            [channels, w] if channels == c && w > 0 => w,
            _ => return Err(Error::shape(op, "weight", on.weight, format!("[{c}, w] with w > 0"))),
        };
        weights(op, on.bias, c)?;
        extents(op, "state", on.state, &[b, c, w - 1])?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, output: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        // The state holds inputs unchanged.
        if output == "state" { Tolerance::Exact } else { Tolerance::summed(dtype) }
    }
}

impl<T> GatedDeltaRule<T> {
    /// Scales by `scale`.
    pub fn scale(self, scale: f64) -> Self {
        GatedDeltaRule { scale: Some(scale), ..self }
    }
    /// The scale for heads of `d` features.
    pub fn scale_for(&self, d: usize) -> f64 {
        self.scale.unwrap_or_else(|| (d as f64).sqrt().recip())
    }
}
impl<T> Default for GatedDeltaRule<T> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T: Float> Op for GatedDeltaRule<T> {
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

family! {
    /// Linear attention in `T`.
    pub trait LinearAttentionOps<T: Float>: Execute<Conv1dUpdate<T>>, Execute<GatedDeltaRule<T>>;
    methods LinearAttentionMethods;
}

/// The methods of [`LinearAttentionOps`].
pub trait LinearAttentionMethods: Backend {
    methods! {
        LinearAttentionOps<T: Float>;
        /// [`Conv1dUpdate`] of `x`, after the inputs in `state`.
        example
        /// // One channel, each output half of the input before plus the newest input.
        /// let weight = b.tensor(&[1, 2], &[0.5f32, 1.0])?;
        /// let mut state = b.tensor(&[1, 1, 1], &[2.0f32])?;
        /// let x = b.tensor(&[1, 2, 1], &[4.0f32, 6.0])?;
        /// let y = b.conv1d_update(&x, &weight, None, &mut state, Conv1dUpdate::plain())?;
        /// assert_eq!(y.to_vec(&b)?, [5.0, 8.0]);
        /// assert_eq!(state.to_vec(&b)?, [6.0]);
        fn conv1d_update, conv1d_update_into(
            x: in T, weight: in T, bias: opt any, state: inout T; y: T; op: impl Into<Conv1dUpdate<T>>
        ) = conv1d_update(op.into());
    }
    /// [`GatedDeltaRule`] over the tokens of `q`, `k` and `v`, which changes `state`.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (q, k) = (b.tensor(&[1, 1, 1, 2], &[0.0f32, 1.0])?, b.tensor(&[1, 1, 1, 2], &[0.0f32, 1.0])?);
    /// let v = b.tensor(&[1, 1, 1, 1], &[6.0f32])?;
    /// let (decay, beta) = (b.tensor(&[1, 1, 1], &[0.0f32])?, b.tensor(&[1, 1, 1], &[0.5f32])?);
    /// // The state gives 2 for this key; half of the difference to 6 is added.
    /// let mut state = b.tensor(&[1, 1, 2, 1], &[1.0f32, 2.0])?;
    /// let o = b.gated_delta_rule(&q, &k, &v, (&decay, &beta), &mut state, GatedDeltaRule::new().scale(1.0))?;
    /// assert_eq!(o.to_vec(&b)?, [4.0]);
    /// assert_eq!(state.to_vec(&b)?, [1.0, 4.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn gated_delta_rule<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        gates: (impl AsView<Self::Space, f32>, impl AsView<Self::Space, f32>),
        state: impl AsViewMut<Self::Space, f32>,
        op: impl Into<GatedDeltaRule<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: LinearAttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(v.view().shape())?;
        self.gated_delta_rule_into(q, k, v, gates, state, &mut o, op)?;
        Ok(o)
    }
    /// [`gated_delta_rule`](Self::gated_delta_rule) into `o`.
    ///
    /// # Errors
    /// As [`gated_delta_rule`](Self::gated_delta_rule), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn gated_delta_rule_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        gates: (impl AsView<Self::Space, f32>, impl AsView<Self::Space, f32>),
        mut state: impl AsViewMut<Self::Space, f32>,
        mut o: impl AsViewMut<Self::Space, T>,
        op: impl Into<GatedDeltaRule<T>>,
    ) -> Result<()>
    where
        Self: LinearAttentionOps<T>,
    {
        let op = op.into();
        let (q, k, v, decay, beta) = (q.view(), k.view(), v.view(), gates.0.view(), gates.1.view());
        let (state, o) = (state.view_mut(), o.view_mut());
        self.run(&op, args::gated_delta_rule::Args { q, k, v, decay, beta, state, o })
    }
}
