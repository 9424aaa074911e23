//! Elementwise functions on numbers whose type is a parameter, shared by both backends.
use ops_core::ops::UnaryFn;
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
