//! Functions of one element with parameters.
use super::declare::{family, methods};
use super::options::{OptionField, Options};
use crate::option::OptionValue;
use crate::{Backend, DType, Execute, Float, Num, Op, Operands, Result, Shape, Tolerance, Wide, operands};
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
impl Parametric<()> {
    /// Reads the parameters of `f`, whose own are placeholders.
    pub(super) fn read<O: Options>(options: &O, f: ParametricFn) -> core::result::Result<Self, O::Error> {
        Ok(Parametric::on_all(match f {
            ParametricFn::Powf { .. } => ParametricFn::Powf { exponent: f64::needed(options, "exponent")? },
            ParametricFn::Elu { .. } => ParametricFn::Elu { alpha: f64::needed(options, "alpha")? },
            ParametricFn::Clamp { .. } => {
                ParametricFn::Clamp { min: Wide::needed(options, "min")?, max: Wide::needed(options, "max")? }
            }
        }))
    }
    pub(super) fn typed<T: Num>(self) -> Parametric<T> {
        match self.f {
            ParametricFn::Clamp { min, max } => Parametric::clamp(T::from_wide(min), T::from_wide(max)),
            f => Parametric::on_all(f),
        }
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
pub(in crate::ops) mod args {
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

family! {
    /// Functions with parameters.
    pub trait ParametricOps<T: Num>: Execute<Parametric<T>>;
    methods ParametricMethods;
}

/// The methods of [`ParametricOps`].
pub trait ParametricMethods: Backend {
    methods! {
        ParametricOps<T: Num>;
        /// `min(max(x, min), max)` of every element. NaN in `x` or a bound gives NaN; if `max` is below `min`, the result is `max`.
        example
        /// let x = b.tensor(&[3], &[-5, 3, 50])?;
        /// assert_eq!(b.clamp(&x, 0, 9)?.to_vec(&b)?, [0, 3, 9]);
        fn clamp, clamp_into(x: in T; y: T; min: T, max: T) = parametric_fn(Parametric::clamp(min, max));
    }
    methods! {
        ParametricOps<T: Float>;
        /// Every element to the power of `exponent`, with the special values of C's `pow`: the power 0 is 1 even of NaN, any power of
        /// 1 is 1, and a negative number has powers only with integer exponents (otherwise NaN).
        example
        /// let x = b.tensor(&[2], &[4.0f64, 0.0])?;
        /// assert_eq!(b.powf(&x, -0.5)?.to_vec(&b)?, [0.5, f64::INFINITY]);
        fn powf, powf_into(x: in T; y: T; exponent: f64) = parametric_fn(Parametric::powf(exponent));

        /// The exponential linear unit: `x` if `x > 0`, else `alpha · (eˣ − 1)`. Clevert et al., 2015.
        example
        /// let x = b.tensor(&[2], &[3.0f32, f32::NEG_INFINITY])?;
        /// assert_eq!(b.elu(&x, 1.5)?.to_vec(&b)?, [3.0, -1.5]);
        fn elu, elu_into(x: in T; y: T; alpha: f64) = parametric_fn(Parametric::elu(alpha));
    }
}
