//! Functions of one element with parameters.
use super::registry::OptionValue;
use crate::{
    AsView, AsViewMut, DType, Execute, Float, Num, Op, Operands, Result, Shape, TensorOf, Tolerance, Wide,
    operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// A function of one element with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum ParametricFn {
    /// `x` to the power of `exponent`, with the special values of C's `pow`.
    Powf {
        /// The exponent.
        exponent: f64,
    },
    /// `min(max(x, min), max)`; NaN in `x` or a bound gives NaN.
    Clamp {
        /// The lower bound, a value of the op's type.
        min: Wide,
        /// The upper bound, a value of the op's type. It wins if it is below the lower one.
        max: Wide,
    },
    /// `x` if `x > 0`, else `alpha · (eˣ − 1)`. Clevert et al., 2015.
    Elu {
        /// The factor, and minus the limit at −∞.
        alpha: f64,
    },
}

impl ParametricFn {
    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            ParametricFn::Powf { .. } => "powf",
            ParametricFn::Clamp { .. } => "clamp",
            ParametricFn::Elu { .. } => "elu",
        }
    }

    /// The definition on real numbers. The reference computes it for floats.
    pub fn at(self, x: f64) -> f64 {
        match self {
            ParametricFn::Powf { exponent } => x.powf(exponent),
            ParametricFn::Clamp { min, max } => {
                <f64 as Num>::minimum(<f64 as Num>::maximum(x, min.to_f64()), max.to_f64())
            }
            ParametricFn::Elu { alpha } => {
                if x > 0.0 {
                    x
                } else {
                    alpha * x.exp_m1()
                }
            }
        }
    }
}

/// `y = f(x)`, element by element, where `f` has parameters: `powf`, `clamp` and `elu`.
///
/// Operands: `x` of any shape; `y` like `x`. `clamp` is defined on every number type, the others on floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parametric<T> {
    f: ParametricFn,
    types: PhantomData<T>,
}
impl<T> Parametric<T> {
    /// The function that this op applies, with its parameters.
    pub fn function(&self) -> ParametricFn {
        self.f
    }
    pub(super) const fn on_all(f: ParametricFn) -> Self {
        Parametric { f, types: PhantomData }
    }
}
impl<T: Num> Parametric<T> {
    /// `min(max(x, min), max)`.
    pub fn clamp(min: T, max: T) -> Self {
        Parametric::on_all(ParametricFn::Clamp { min: min.to_wide(), max: max.to_wide() })
    }
}
impl<T: Float> Parametric<T> {
    /// `x` to the power of `exponent`.
    pub fn powf(exponent: f64) -> Self {
        Parametric::on_all(ParametricFn::Powf { exponent })
    }
    /// `x` if `x > 0`, else `alpha · (eˣ − 1)`.
    pub fn elu(alpha: f64) -> Self {
        Parametric::on_all(ParametricFn::Elu { alpha })
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod parametric_fn: Parametric<T: Num> { x: in T, y: out T });
}
impl<T: Num> Op for Parametric<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        match self.f {
            ParametricFn::Powf { exponent } => vec![("exponent", exponent.into())],
            ParametricFn::Elu { alpha } => vec![("alpha", alpha.into())],
            ParametricFn::Clamp { min, max } => {
                vec![("min", OptionValue::Value(min)), ("max", OptionValue::Value(max))]
            }
        }
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Parametric { f, types: _ } = self;
        let bits = |v: Wide| match v {
            Wide::Int(v) => (0, v as u64),
            Wide::Float(v) => (1, v.to_bits()),
        };
        match *f {
            ParametricFn::Powf { exponent } => (0, exponent.to_bits()).hash(state),
            ParametricFn::Clamp { min, max } => (1, bits(min), bits(max)).hash(state),
            ParametricFn::Elu { alpha } => (2, alpha.to_bits()).hash(state),
        }
    }
    fn infer(&self, on: &args::parametric_fn::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            ParametricFn::Clamp { .. } => Tolerance::Exact,
            _ => Tolerance::rounded(dtype),
        }
    }
}

/// Functions with parameters.
pub trait ParametricOps<T: Num>: Execute<Parametric<T>> {
    /// `min(max(x, min), max)` of every element. NaN in `x` or a bound gives NaN; if `max` is below `min`, the result is `max`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[3], &[-5, 3, 50])?;
    /// assert_eq!(b.clamp(&x, 0, 9)?.to_vec(&b)?, [0, 3, 9]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn clamp(&self, x: impl AsView<Self::Space, T>, min: T, max: T) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.clamp_into(x, &mut y, min, max)?;
        Ok(y)
    }
    /// [`clamp`](Self::clamp) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[3], &[-5, 3, 50])?;
    /// let mut y = b.zeros(&[3])?;
    /// b.clamp_into(&x, &mut y, 0, 9)?;
    /// assert_eq!(y.to_vec(&b)?, [0, 3, 9]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn clamp_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        min: T,
        max: T,
    ) -> Result<()> {
        self.run(&Parametric::clamp(min, max), args::parametric_fn::Args { x: x.view(), y: y.view_mut() })
    }
    /// Every element to the power of `exponent`, with the special values of C's `pow`: the power 0 is 1 even of NaN, any power of
    /// 1 is 1, and a negative number has powers only with integer exponents (otherwise NaN).
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[4.0f64, 0.0])?;
    /// assert_eq!(b.powf(&x, -0.5)?.to_vec(&b)?, [0.5, f64::INFINITY]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn powf(&self, x: impl AsView<Self::Space, T>, exponent: f64) -> Result<TensorOf<Self, T>>
    where
        T: Float,
    {
        let mut y = self.empty(x.view().shape())?;
        self.powf_into(x, &mut y, exponent)?;
        Ok(y)
    }
    /// [`powf`](Self::powf) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[4.0f64, 0.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.powf_into(&x, &mut y, -0.5)?;
    /// assert_eq!(y.to_vec(&b)?, [0.5, f64::INFINITY]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn powf_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        exponent: f64,
    ) -> Result<()>
    where
        T: Float,
    {
        self.run(&Parametric::powf(exponent), args::parametric_fn::Args { x: x.view(), y: y.view_mut() })
    }
    /// The exponential linear unit: `x` if `x > 0`, else `alpha · (eˣ − 1)`. Clevert et al., 2015.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[3.0f32, f32::NEG_INFINITY])?;
    /// assert_eq!(b.elu(&x, 1.5)?.to_vec(&b)?, [3.0, -1.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn elu(&self, x: impl AsView<Self::Space, T>, alpha: f64) -> Result<TensorOf<Self, T>>
    where
        T: Float,
    {
        let mut y = self.empty(x.view().shape())?;
        self.elu_into(x, &mut y, alpha)?;
        Ok(y)
    }
    /// [`elu`](Self::elu) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[3.0f32, f32::NEG_INFINITY])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.elu_into(&x, &mut y, 1.5)?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, -1.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn elu_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        alpha: f64,
    ) -> Result<()>
    where
        T: Float,
    {
        self.run(&Parametric::elu(alpha), args::parametric_fn::Args { x: x.view(), y: y.view_mut() })
    }
}
impl<T: Num, B: Execute<Parametric<T>>> ParametricOps<T> for B {}
