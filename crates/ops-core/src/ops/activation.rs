//! Activations: unary functions and gated linear units.
use super::declare::{family, methods, ops};
use super::elementwise::{Unary, UnaryFn};
use crate::{Backend, Execute, Float, Op};
use core::hash::Hash;

/// The activation of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GluFn {
    /// `silu(gate) · up`
    Swiglu,
    /// `gelu(gate) · up`, with the tanh form of gelu.
    Geglu,
}

ops! {
    /// `y = f(gate) · up`, element by element.
    ///
    /// Operands: `gate` of any shape; `up` and `y` like `gate`.
    /// Shazeer, "GLU Variants Improve Transformer", 2020.
    pub struct Glu<T: Float> {}
    variant { f: GluFn }
    /// Applies `f`.
    fn of;
    operands glu { gate: in T [..], up: in T [..], y: out T [..] }
}
impl<T> Glu<T> {
    /// The activation that this op applies.
    pub fn function(&self) -> GluFn {
        self.f
    }
}
impl<T: Float> Op for Glu<T> {
    fn name(&self) -> &'static str {
        match self.f {
            GluFn::Swiglu => "swiglu",
            GluFn::Geglu => "geglu",
        }
    }
}

/// Writes the methods of unary functions: `unary_methods!(exp exp_into Exp: 0.0 => 1.0)`. The values appear in the doc example.
macro_rules! unary_methods {
    ($Ops:ident<$T:ident: $Bound:path>; $($name:ident $into:ident $f:ident: $x:literal => $y:literal),+ $(,)?) => {
        $crate::ops::declare::methods! { $Ops<$T: $Bound>; $(
        #[doc = concat!("[`UnaryFn::", stringify!($f), "`] of every element.")]
        example
        #[doc = concat!("let x = b.tensor(&[1], &[", stringify!($x), "f32])?;")]
        #[doc = concat!("assert_eq!(b.", stringify!($name), "(&x)?.to_vec(&b)?, [", stringify!($y), "]);")]
        fn $name, $into(x: in $T; y: $T) = unary(Unary::on_all(UnaryFn::$f));
    )+}};
}
pub(super) use unary_methods;

family! {
    /// Elementwise functions of floats.
    pub trait ActivationOps<T: Float>: Execute<Unary<T>>, Execute<Glu<T>>;
    methods ActivationMethods;
}

/// The methods of [`ActivationOps`].
pub trait ActivationMethods: Backend {
    methods! {
        ActivationOps<T: Float>;
        /// Any [`UnaryFn`] of every element.
        example
        /// let x = b.tensor(&[2], &[0.0f32, 1.0])?;
        /// assert_eq!(b.unary(&x, UnaryFn::Exp)?.to_vec(&b)?[0], 1.0);
        fn unary, unary_into(x: in T; y: T; f: UnaryFn) = unary(Unary::of(f));
    }
    unary_methods! {
        ActivationOps<T: Float>;
        sigmoid sigmoid_into Sigmoid: 0.0 => 0.5,
        silu silu_into Silu: 0.0 => 0.0,
        gelu gelu_into Gelu: 0.0 => 0.0,
        gelu_erf gelu_erf_into GeluErf: 0.0 => 0.0,
        tanh tanh_into Tanh: 0.0 => 0.0,
        erf erf_into Erf: 0.0 => 0.0,
        exp exp_into Exp: 0.0 => 1.0,
        expm1 expm1_into Expm1: 1e-20 => 1e-20,
        log log_into Log: 1.0 => 0.0,
        log1p log1p_into Log1p: 1e-20 => 1e-20,
        softplus softplus_into Softplus: 40.0 => 40.0,
        sin sin_into Sin: 0.0 => 0.0,
        cos cos_into Cos: 0.0 => 1.0,
        sqrt sqrt_into Sqrt: 4.0 => 2.0,
        recip recip_into Recip: 2.0 => 0.5,
        floor floor_into Floor: 1.5 => 1.0,
        ceil ceil_into Ceil: 1.5 => 2.0,
        round round_into Round: 1.75 => 2.0,
        trunc trunc_into Trunc: -1.75 => -1.0,
    }

    methods! {
        ActivationOps<T: Float>;
        /// [`Glu`] with any [`GluFn`]: `f(gate) · up`.
        example
        /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
        /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
        /// assert_eq!(b.glu(&gate, &up, GluFn::Swiglu)?.to_vec(&b)?, [0.0, 200.0]);
        fn glu, glu_into(gate: in T, up: in T; y: T; f: GluFn) = glu(Glu::of(f));

        /// `silu(gate) · up`.
        example
        /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
        /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
        /// assert_eq!(b.swiglu(&gate, &up)?.to_vec(&b)?, [0.0, 200.0]);
        fn swiglu, swiglu_into(gate: in T, up: in T; y: T) = glu(Glu::of(GluFn::Swiglu));

        /// `gelu(gate) · up`.
        example
        /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
        /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
        /// assert_eq!(b.geglu(&gate, &up)?.to_vec(&b)?, [0.0, 200.0]);
        fn geglu, geglu_into(gate: in T, up: in T; y: T) = glu(Glu::of(GluFn::Geglu));
    }
}
