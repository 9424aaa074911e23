//! Activations: unary functions and gated linear units.
use super::elementwise::{Unary, UnaryFn};
use super::extents;
use crate::{AsView, AsViewMut, Execute, Float, Op, Result, Shape, TensorOf, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// The activation of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GluFn {
    /// `silu(gate) · up`
    Swiglu,
    /// `gelu(gate) · up`, with the tanh form of gelu.
    Geglu,
}

/// `y = f(gate) · up`, element by element.
///
/// Operands: `gate` of any shape; `up` and `y` like `gate`.
/// Shazeer, "GLU Variants Improve Transformer", 2020.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glu<T> {
    f: GluFn,
    types: PhantomData<T>,
}
impl<T> Glu<T> {
    /// Applies `f`.
    pub fn of(f: GluFn) -> Self {
        Glu { f, types: PhantomData }
    }
    /// The activation that this op applies.
    pub fn function(&self) -> GluFn {
        self.f
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod glu: Glu<T: Float> { gate: in T, up: in T, y: out T });
}
impl<T: Float> Op for Glu<T> {
    fn name(&self) -> &'static str {
        match self.f {
            GluFn::Swiglu => "swiglu",
            GluFn::Geglu => "geglu",
        }
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Glu { f, types: _ } = self;
        f.hash(state);
    }
    fn infer(&self, on: &args::glu::Shapes<'_>) -> Result<[Shape; 1]> {
        extents(self.name(), "up", on.up, on.gate.dims())?;
        Ok([on.gate.shape()])
    }
}

/// Writes the methods of unary functions: `unary_methods!(exp exp_into Exp: 0.0 => 1.0)`. The values appear in the doc example.
macro_rules! unary_methods {
    ($($name:ident $into:ident $f:ident: $x:literal => $y:literal),+ $(,)?) => {$(
        #[doc = concat!("[`UnaryFn::", stringify!($f), "`] of every element.")]
        ///
        /// # Errors
        /// Any error that the backend reports.
        ///
        /// ```
        /// # use ops_core::{Backend, ops::*};
        /// # let b = ops_cpu::Cpu::new();
        #[doc = concat!("let x = b.tensor(&[1], &[", stringify!($x), "f32])?;")]
        #[doc = concat!("assert_eq!(b.", stringify!($name), "(&x)?.to_vec(&b)?, [", stringify!($y), "]);")]
        /// # Ok::<(), ops_core::Error>(())
        /// ```
        fn $name(&self, x: impl AsView<Self::Space, T>) -> Result<TensorOf<Self, T>> {
            let mut y = self.empty(x.view().shape())?;
            self.$into(x, &mut y)?;
            Ok(y)
        }
        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into `y`.")]
        ///
        /// # Errors
        /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
        ///
        /// ```
        /// # use ops_core::{Backend, ops::*};
        /// # let b = ops_cpu::Cpu::new();
        #[doc = concat!("let x = b.tensor(&[1], &[", stringify!($x), "f32])?;")]
        /// let mut y = b.zeros(&[1])?;
        #[doc = concat!("b.", stringify!($into), "(&x, &mut y)?;")]
        #[doc = concat!("assert_eq!(y.to_vec(&b)?, [", stringify!($y), "]);")]
        /// # Ok::<(), ops_core::Error>(())
        /// ```
        fn $into(&self, x: impl AsView<Self::Space, T>, mut y: impl AsViewMut<Self::Space, T>) -> Result<()> {
            self.run(&Unary::on_all(UnaryFn::$f), super::args::unary::Args { x: x.view(), y: y.view_mut() })
        }
    )+};
}
pub(super) use unary_methods;

/// Elementwise functions of floats.
pub trait ActivationOps<T: Float>: Execute<Unary<T>> + Execute<Glu<T>> {
    /// Any [`UnaryFn`] of every element.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[0.0f32, 1.0])?;
    /// assert_eq!(b.unary(&x, UnaryFn::Exp)?.to_vec(&b)?[0], 1.0);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn unary(&self, x: impl AsView<Self::Space, T>, f: UnaryFn) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.unary_into(x, &mut y, f)?;
        Ok(y)
    }
    /// [`unary`](Self::unary) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[0.0f32, 1.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.unary_into(&x, &mut y, UnaryFn::Exp)?;
    /// assert_eq!(y.to_vec(&b)?[0], 1.0);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn unary_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        f: UnaryFn,
    ) -> Result<()> {
        self.run(&Unary::of(f), super::args::unary::Args { x: x.view(), y: y.view_mut() })
    }
    unary_methods! {
        sigmoid sigmoid_into Sigmoid: 0.0 => 0.5,
        silu silu_into Silu: 0.0 => 0.0,
        gelu gelu_into Gelu: 0.0 => 0.0,
        gelu_erf gelu_erf_into GeluErf: 0.0 => 0.0,
        tanh tanh_into Tanh: 0.0 => 0.0,
        erf erf_into Erf: 0.0 => 0.0,
        exp exp_into Exp: 0.0 => 1.0,
        log log_into Log: 1.0 => 0.0,
        sin sin_into Sin: 0.0 => 0.0,
        cos cos_into Cos: 0.0 => 1.0,
        sqrt sqrt_into Sqrt: 4.0 => 2.0,
        recip recip_into Recip: 2.0 => 0.5,
        floor floor_into Floor: 1.5 => 1.0,
        ceil ceil_into Ceil: 1.5 => 2.0,
        round round_into Round: 1.75 => 2.0,
    }

    /// [`Glu`] with any [`GluFn`]: `f(gate) · up`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// assert_eq!(b.glu(&gate, &up, GluFn::Swiglu)?.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn glu(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        f: GluFn,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.view().shape())?;
        self.glu_into(gate, up, &mut y, f)?;
        Ok(y)
    }
    /// [`glu`](Self::glu) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.glu_into(&gate, &up, &mut y, GluFn::Geglu)?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn glu_into(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        f: GluFn,
    ) -> Result<()> {
        self.run(&Glu::of(f), args::glu::Args { gate: gate.view(), up: up.view(), y: y.view_mut() })
    }
    /// `silu(gate) · up`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// assert_eq!(b.swiglu(&gate, &up)?.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn swiglu(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.view().shape())?;
        self.swiglu_into(gate, up, &mut y)?;
        Ok(y)
    }
    /// [`swiglu`](Self::swiglu) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.swiglu_into(&gate, &up, &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn swiglu_into(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()> {
        self.glu_into(gate, up, y, GluFn::Swiglu)
    }
    /// `gelu(gate) · up`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// assert_eq!(b.geglu(&gate, &up)?.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn geglu(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.view().shape())?;
        self.geglu_into(gate, up, &mut y)?;
        Ok(y)
    }
    /// [`geglu`](Self::geglu) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let gate = b.tensor(&[2], &[0.0f32, 100.0])?;
    /// let up = b.tensor(&[2], &[5.0f32, 2.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.geglu_into(&gate, &up, &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [0.0, 200.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn geglu_into(
        &self,
        gate: impl AsView<Self::Space, T>,
        up: impl AsView<Self::Space, T>,
        y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()> {
        self.glu_into(gate, up, y, GluFn::Geglu)
    }
}
impl<T: Float, B: Execute<Unary<T>> + Execute<Glu<T>>> ActivationOps<T> for B {}
