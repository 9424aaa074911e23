//! Activations: functions of one element, and gated units.
use super::extents;
use super::functions::{Unary, UnaryFn, unary};
use crate::{Execute, Float, Mut, Op, Ref, Result, Shape, TensorOf, View, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// The function of a gated linear unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GluFn {
    /// `silu(gate) · up`
    Swiglu,
    /// `gelu(gate) · up`, the tanh form.
    Geglu,
}

/// `y = f(gate) · up`, element by element.
///
/// Operands: `gate` of any shape, `up` as `gate`; `y` as `gate`.
/// Shazeer, "GLU Variants Improve Transformer", 2020.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glu<T> {
    f: GluFn,
    types: PhantomData<T>,
}
impl<T> Glu<T> {
    /// This function.
    pub fn of(f: GluFn) -> Self {
        Glu { f, types: PhantomData }
    }
    /// The function.
    pub fn function(&self) -> GluFn {
        self.f
    }
}
operands!(pub mod glu: Glu<T: Float> { gate: in T, up: in T, y: out T });
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
    fn infer(&self, on: &glu::Shapes<'_>) -> Result<[Shape; 1]> {
        extents(self.name(), "up", on.up, on.gate.dims())?;
        Ok([on.gate.shape()])
    }
}

/// Writes the allocating method of a [`UnaryFn`]: `unary_method!(silu, Silu)`.
macro_rules! unary_methods {
    ($($name:ident: $f:ident),+ $(,)?) => {$(
        #[doc = concat!("[`UnaryFn::", stringify!($f), "`] of every element.")]
        ///
        /// # Errors
        /// What the backend reports.
        fn $name(&self, x: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
            self.unary(x, UnaryFn::$f)
        }
    )+};
}

/// Functions of floats, element by element.
pub trait ActivationOps<T: Float>: Execute<Unary<T>> + Execute<Glu<T>> {
    /// Any [`UnaryFn`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn unary_into(&self, x: Ref<'_, Self, T>, mut y: Mut<'_, Self, T>, f: UnaryFn) -> Result<()> {
        self.run(&Unary::of(f), unary::Args { x: x.shorten(), y: y.reborrow() })
    }
    /// Any [`UnaryFn`].
    ///
    /// # Errors
    /// What the backend reports.
    fn unary(&self, x: Ref<'_, Self, T>, f: UnaryFn) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.unary_into(x, y.as_mut(), f)?;
        Ok(y)
    }
    unary_methods! {
        sigmoid: Sigmoid, silu: Silu, gelu: Gelu, gelu_erf: GeluErf, tanh: Tanh, erf: Erf, exp: Exp,
        log: Log, sin: Sin, cos: Cos, sqrt: Sqrt, recip: Recip, floor: Floor, ceil: Ceil, round: Round,
    }

    /// [`Glu`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn glu_into(
        &self,
        gate: Ref<'_, Self, T>,
        up: Ref<'_, Self, T>,
        mut y: Mut<'_, Self, T>,
        f: GluFn,
    ) -> Result<()> {
        self.run(&Glu::of(f), glu::Args { gate: gate.shorten(), up: up.shorten(), y: y.reborrow() })
    }
    /// `silu(gate) · up`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn swiglu(&self, gate: Ref<'_, Self, T>, up: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.shape())?;
        self.glu_into(gate, up, y.as_mut(), GluFn::Swiglu)?;
        Ok(y)
    }
    /// `gelu(gate) · up`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn geglu(&self, gate: Ref<'_, Self, T>, up: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(gate.shape())?;
        self.glu_into(gate, up, y.as_mut(), GluFn::Geglu)?;
        Ok(y)
    }
}
impl<T: Float, B: Execute<Unary<T>> + Execute<Glu<T>>> ActivationOps<T> for B {}
