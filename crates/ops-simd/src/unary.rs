//! Elementwise functions of one operand.

use std::fmt;

use crate::cast::{from_copy, through_f32};
use crate::element::{Element, View, ViewMut};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::map::{Map, elementwise};
use crate::math;
use crate::simd::Simd;
use crate::store::Store;

/// A function of one number. NaN gives NaN, except for [`Unary::Sign`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    /// |x|
    Abs,
    /// −x
    Neg,
    /// x²
    Sqr,
    /// √x
    Sqrt,
    /// 1 / x
    Recip,
    /// max(x, 0)
    Relu,
    /// Rounds down to an integer.
    Floor,
    /// Rounds up to an integer.
    Ceil,
    /// Rounds to the nearest integer, halves away from zero.
    Round,
    /// Rounds towards zero to an integer.
    Trunc,
    /// −1, 0 or 1; 0 for NaN.
    Sign,
    /// eˣ
    Exp,
    /// eˣ − 1
    Expm1,
    /// ln x
    Log,
    /// ln(1 + x)
    Log1p,
    /// ln(1 + eˣ)
    Softplus,
    /// sin x
    Sin,
    /// cos x
    Cos,
    /// tanh x
    Tanh,
    /// erf x
    Erf,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// x · sigmoid(x)
    Silu,
    /// ½x(1 + tanh(√(2/π)·(x + 0.044715x³)))
    Gelu,
    /// ½x(1 + erf(x/√2))
    GeluErf,
}

impl Unary {
    /// All functions.
    pub const ALL: [Self; 24] = [
        Self::Abs,
        Self::Neg,
        Self::Sqr,
        Self::Sqrt,
        Self::Recip,
        Self::Relu,
        Self::Floor,
        Self::Ceil,
        Self::Round,
        Self::Trunc,
        Self::Sign,
        Self::Exp,
        Self::Expm1,
        Self::Log,
        Self::Log1p,
        Self::Softplus,
        Self::Sin,
        Self::Cos,
        Self::Tanh,
        Self::Erf,
        Self::Sigmoid,
        Self::Silu,
        Self::Gelu,
        Self::GeluErf,
    ];

    /// The name that files and commands use, for example `gelu_erf`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abs => "abs",
            Self::Neg => "neg",
            Self::Sqr => "sqr",
            Self::Sqrt => "sqrt",
            Self::Recip => "recip",
            Self::Relu => "relu",
            Self::Floor => "floor",
            Self::Ceil => "ceil",
            Self::Round => "round",
            Self::Trunc => "trunc",
            Self::Sign => "sign",
            Self::Exp => "exp",
            Self::Expm1 => "expm1",
            Self::Log => "log",
            Self::Log1p => "log1p",
            Self::Softplus => "softplus",
            Self::Sin => "sin",
            Self::Cos => "cos",
            Self::Tanh => "tanh",
            Self::Erf => "erf",
            Self::Sigmoid => "sigmoid",
            Self::Silu => "silu",
            Self::Gelu => "gelu",
            Self::GeluErf => "gelu_erf",
        }
    }

    /// The function with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|f| f.name() == name)
    }
}

impl fmt::Display for Unary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// y\[i\] = op(x\[i\])
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn unary<X: Element, Y: Element>(
    isa: Isa,
    op: Unary,
    x: &[X],
    y: &mut [Y],
    store: Store,
) -> Result<(), Error> {
    same_len("x", x.len(), y.len())?;
    dispatch(isa, op, X::view(x), Y::view_mut(y), store);
    Ok(())
}

/// y\[i\] = op(y\[i\])
pub fn unary_in_place<T: Element>(isa: Isa, op: Unary, y: &mut [T]) {
    from_copy(y, |x, y| dispatch(isa, op, T::view(x), T::view_mut(y), Store::Cached));
}

// Not generic, so that the kernels are compiled in this crate.
fn dispatch(isa: Isa, op: Unary, x: View<'_>, y: ViewMut<'_>, store: Store) {
    match (x, y) {
        (View::F32(x), ViewMut::F32(y)) => select(op, Apply { isa, x, y, store }),
        (View::F16(x), ViewMut::F16(y)) => select(op, Apply { isa, x, y, store }),
        (View::Bf16(x), ViewMut::Bf16(y)) => select(op, Apply { isa, x, y, store }),
        (x, y) => through_f32(isa, [x], y, store, |[x], y| {
            select(op, Apply { isa, x, y, store: Store::Cached });
        }),
    }
}

/// A computation for a function that is known by its type.
trait Visitor {
    fn visit<F: Map<1>>(self, map: F);
}

struct Apply<'a, T> {
    isa: Isa,
    x: &'a [T],
    y: &'a mut [T],
    store: Store,
}

impl<T: Element> Visitor for Apply<'_, T> {
    fn visit<F: Map<1>>(self, map: F) {
        elementwise(self.isa, map, [self.x], self.y, self.store);
    }
}

fn select<V: Visitor>(op: Unary, v: V) {
    match op {
        Unary::Abs => v.visit(Abs),
        Unary::Neg => v.visit(Neg),
        Unary::Sqr => v.visit(Sqr),
        Unary::Sqrt => v.visit(Sqrt),
        Unary::Recip => v.visit(Recip),
        Unary::Relu => v.visit(Relu),
        Unary::Floor => v.visit(Floor),
        Unary::Ceil => v.visit(Ceil),
        Unary::Round => v.visit(Round),
        Unary::Trunc => v.visit(Trunc),
        Unary::Sign => v.visit(Sign),
        Unary::Exp => v.visit(Exp),
        Unary::Expm1 => v.visit(Expm1),
        Unary::Log => v.visit(Log),
        Unary::Log1p => v.visit(Log1p),
        Unary::Softplus => v.visit(Softplus),
        Unary::Sin => v.visit(Sin),
        Unary::Cos => v.visit(Cos),
        Unary::Tanh => v.visit(Tanh),
        Unary::Erf => v.visit(Erf),
        Unary::Sigmoid => v.visit(Sigmoid),
        Unary::Silu => v.visit(Silu),
        Unary::Gelu => v.visit(Gelu),
        Unary::GeluErf => v.visit(GeluErf),
    }
}

/// Declares functions of a vector `x`, with their values; `Log [LONG]` sets this constant of [`Map`].
macro_rules! maps {
    ($s:ident, $x:ident; $($Name:ident $([$CONST:ident])?: $value:expr;)+) => {$(
        #[derive(Clone, Copy)]
        struct $Name;
        impl Map<1> for $Name {
            $(const $CONST: bool = true;)?
            #[inline(always)]
            fn eval<S: Simd, T: Element>(self, $s: S, [$x]: [S::F; 1]) -> S::F {
                $value
            }
        }
    )+};
}
maps! {
    s, x;
    Abs: s.abs(x);
    Neg: s.neg(x);
    Sqr: s.mul(x, x);
    Sqrt: s.sqrt(x);
    Recip: s.div(s.splat(1.0), x);
    Relu: s.maximum(x, s.splat(0.0));
    Floor: s.floor(x);
    Ceil: s.ceil(x);
    Round: {
        // Adding slightly less than a half and truncating never rounds a number below a half up.
        let near = s.add(s.abs(x), s.splat(0.499_999_97));
        s.with_sign_of(s.floor(near), x)
    };
    Trunc: s.with_sign_of(s.floor(s.abs(x)), x);
    Sign: {
        let unit = s.with_sign_of(s.splat(1.0), x);
        s.select(s.lt(s.splat(0.0), s.abs(x)), unit, s.splat(0.0))
    };
    Exp [APPROXIMATE]: math::exp::<S, T>(s, x);
    Expm1 [LONG]: math::expm1(s, x);
    Log [LONG]: math::log(s, x);
    Log1p [LONG]: math::log1p(s, x);
    Softplus [LONG]: math::softplus(s, x);
    Sin [LONG]: math::sin(s, x);
    Cos [LONG]: math::cos(s, x);
    Tanh [LONG]: math::tanh(s, x);
    Erf [LONG]: math::erf(s, x);
    Sigmoid [APPROXIMATE]: math::sigmoid::<S, T>(s, x);
    Silu [APPROXIMATE]: math::silu::<S, T>(s, x);
    Gelu [APPROXIMATE]: math::gelu::<S, T>(s, x);
    GeluErf [APPROXIMATE]: math::gelu_erf::<S, T>(s, x);
}
