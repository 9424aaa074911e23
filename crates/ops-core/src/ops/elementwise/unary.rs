//! Unary functions.
use crate::ops::declare::ops;
use crate::{DType, Float, Num, Op, Operands, Tolerance};
use core::hash::Hash;
use core::marker::PhantomData;

/// A function of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnaryFn {
    /// `1 / (1 + e⁻ˣ)`
    Sigmoid,
    /// `x / (1 + e⁻ˣ)`, which is NaN at −∞. Elfwing et al., 2017.
    Silu,
    /// `max(x, 0)`; NaN stays NaN.
    Relu,
    /// `x/2 · (1 + tanh(√(2/π) (x + 0.044715 x³)))`. Hendrycks and Gimpel, 2016.
    Gelu,
    /// `x/2 · (1 + erf(x/√2))`
    GeluErf,
    /// Hyperbolic tangent.
    Tanh,
    /// The error function.
    Erf,
    /// `eˣ`
    Exp,
    /// `eˣ − 1`, precise near 0.
    Expm1,
    /// Natural logarithm.
    Log,
    /// `ln(1 + x)`, precise near 0.
    Log1p,
    /// `ln(1 + eˣ)`, which does not overflow.
    Softplus,
    /// Sine; `x` in radians.
    Sin,
    /// Cosine; `x` in radians.
    Cos,
    /// `√x`
    Sqrt,
    /// `1 / x`
    Recip,
    /// `−x`
    Neg,
    /// `|x|`
    Abs,
    /// `x²`
    Sqr,
    /// −1, 0 or 1, the sign of `x`.
    Sign,
    /// The largest integer not above `x`.
    Floor,
    /// The smallest integer not below `x`.
    Ceil,
    /// The nearest integer; ties round away from zero.
    Round,
    /// The integer without the fraction: rounds towards zero.
    Trunc,
}

impl UnaryFn {
    /// All unary functions.
    pub const ALL: [UnaryFn; 24] = {
        use UnaryFn::*;
        [
            Sigmoid, Silu, Relu, Gelu, GeluErf, Tanh, Erf, Exp, Expm1, Log, Log1p, Softplus, Sin, Cos, Sqrt,
            Recip, Neg, Abs, Sqr, Sign, Floor, Ceil, Round, Trunc,
        ]
    };

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            UnaryFn::Sigmoid => "sigmoid",
            UnaryFn::Silu => "silu",
            UnaryFn::Relu => "relu",
            UnaryFn::Gelu => "gelu",
            UnaryFn::GeluErf => "gelu_erf",
            UnaryFn::Tanh => "tanh",
            UnaryFn::Erf => "erf",
            UnaryFn::Exp => "exp",
            UnaryFn::Expm1 => "expm1",
            UnaryFn::Log => "log",
            UnaryFn::Log1p => "log1p",
            UnaryFn::Softplus => "softplus",
            UnaryFn::Sin => "sin",
            UnaryFn::Cos => "cos",
            UnaryFn::Sqrt => "sqrt",
            UnaryFn::Recip => "recip",
            UnaryFn::Neg => "neg",
            UnaryFn::Abs => "abs",
            UnaryFn::Sqr => "sqr",
            UnaryFn::Sign => "sign",
            UnaryFn::Floor => "floor",
            UnaryFn::Ceil => "ceil",
            UnaryFn::Round => "round",
            UnaryFn::Trunc => "trunc",
        }
    }

    /// Whether the function is also defined on integers.
    pub const fn on_integers(self) -> bool {
        matches!(self, UnaryFn::Abs | UnaryFn::Neg | UnaryFn::Relu | UnaryFn::Sign | UnaryFn::Sqr)
    }

    /// The definition on real numbers. The reference computes it, and so do backends that lack a kernel for the function.
    pub fn at(self, x: f64) -> f64 {
        use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        match self {
            UnaryFn::Sigmoid => sigmoid(x),
            // The gates compute −∞ · 0 at −∞. That is NaN by their formulas, and in PyTorch.
            UnaryFn::Silu => x * sigmoid(x),
            UnaryFn::Relu => {
                if x.is_nan() || x > 0.0 {
                    x
                } else {
                    0.0
                }
            }
            UnaryFn::Gelu => 0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            // erfc stays accurate where 1 + erf would cancel.
            UnaryFn::GeluErf => 0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2),
            UnaryFn::Tanh => x.tanh(),
            UnaryFn::Erf => libm::erf(x),
            UnaryFn::Exp => x.exp(),
            UnaryFn::Expm1 => x.exp_m1(),
            UnaryFn::Log => x.ln(),
            UnaryFn::Log1p => x.ln_1p(),
            UnaryFn::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            UnaryFn::Sin => x.sin(),
            UnaryFn::Cos => x.cos(),
            UnaryFn::Sqrt => x.sqrt(),
            UnaryFn::Recip => x.recip(),
            UnaryFn::Neg => -x,
            UnaryFn::Abs => x.abs(),
            UnaryFn::Sqr => x * x,
            UnaryFn::Sign => {
                if x > 0.0 {
                    1.0
                } else if x < 0.0 {
                    -1.0
                } else {
                    0.0
                }
            }
            UnaryFn::Floor => x.floor(),
            UnaryFn::Ceil => x.ceil(),
            UnaryFn::Round => x.round(),
            UnaryFn::Trunc => x.trunc(),
        }
    }

    /// Whether the function never rounds: its result is ± the operand, 0, or an integer.
    const fn is_exact(self) -> bool {
        use UnaryFn::*;
        matches!(self, Neg | Abs | Relu | Sign | Floor | Ceil | Round | Trunc)
    }
}

ops! {
    /// `y = f(x)`, element by element.
    ///
    /// Operands: `x` of any shape; `y` like `x`. [`Unary::of`] makes one for floats, [`Unary::of_num`] one for any number type.
    pub struct Unary<T: Num> {}
    variant { f: UnaryFn }
    operands unary { x: in T [..], y: out T [..] }
}
impl<T> Unary<T> {
    /// The function that this op applies.
    pub fn function(&self) -> UnaryFn {
        self.f
    }
}
impl<T: Float> Unary<T> {
    /// Applies `f`.
    pub fn of(f: UnaryFn) -> Self {
        Unary { f, types: PhantomData }
    }
}
impl<T: Num> Unary<T> {
    /// Applies `f`, or `None` if `T` lacks it: only [some functions](UnaryFn::on_integers) are defined on integers.
    pub fn of_num(f: UnaryFn) -> Option<Self> {
        (T::IS_FLOAT || f.on_integers()).then_some(Unary { f, types: PhantomData })
    }
    pub(in crate::ops) fn on_all(f: UnaryFn) -> Self {
        debug_assert!(T::IS_FLOAT || f.on_integers());
        Unary { f, types: PhantomData }
    }
}
impl<T: Num> Op for Unary<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        if self.f.is_exact() { Tolerance::Exact } else { Tolerance::rounded(dtype) }
    }
}
