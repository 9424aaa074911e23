//! Elementwise functions on numbers whose type is a parameter, shared by both backends.
use ops_core::ops::{ParametricFn, UnaryFn};
use ops_core::{Error, Num, Reason};

/// The error for a function that `ops-core` defines and these backends do not implement yet.
pub(crate) fn unknown_function(op: &'static str) -> Error {
    Error::Unsupported { op, backend: "cpu", reason: Reason::Missing }
}

/// Returns `f` on `T`. Functions that integers also have are computed in `T`; all others in f64 and rounded once.
pub(crate) fn unary_function<T: Num>(f: UnaryFn) -> impl Fn(T) -> T {
    let number: Option<fn(T) -> T> = match f {
        UnaryFn::Neg => Some(T::neg),
        UnaryFn::Abs => Some(T::abs),
        UnaryFn::Sqr => Some(|x| x.mul(x)),
        UnaryFn::Relu => Some(T::relu),
        UnaryFn::Sign => Some(T::sign),
        _ => None,
    };
    move |x: T| match number {
        Some(number) => number(x),
        None => T::from_f64(f.at(x.to_f64())),
    }
}

/// Returns `f` on `T`. Bounds are compared in `T`; everything else is computed in f64 and rounded once.
pub(crate) fn parametric_function<T: Num>(f: ParametricFn) -> impl Fn(T) -> T {
    let bounds = match f {
        ParametricFn::Clamp { min, max } => Some((T::from_wide(min), T::from_wide(max))),
        _ => None,
    };
    move |x: T| match bounds {
        Some((min, max)) => <T as Num>::minimum(<T as Num>::maximum(x, min), max),
        None => T::from_f64(f.at(x.to_f64())),
    }
}
