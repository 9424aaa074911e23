//! Running sums and products.
use super::declare::{family, methods, ops};
use crate::error::About;
use crate::{Backend, DType, Execute, Num, Op, Operands, Result, Shape, Tolerance};
use core::hash::Hash;
use core::marker::PhantomData;

/// How the elements up to a place become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScanFn {
    /// Their sum.
    Sum,
    /// Their product.
    Prod,
}
impl ScanFn {
    /// All functions.
    pub const ALL: [ScanFn; 2] = [ScanFn::Sum, ScanFn::Prod];

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            ScanFn::Sum => "cumsum",
            ScanFn::Prod => "cumprod",
        }
    }
}

ops! {
    /// Running sums along an axis, `y[.., i, ..] = Σ x[.., j, ..]` over `j ≤ i`; or running products, `Π x[.., j, ..]`.
    ///
    /// Operands: `x` of any shape; `y` like `x`. Floats accumulate in f32 or wider (products in f64), and each result is rounded once.
    /// Integers wrap. Backends may join elements of any part of a row first, so results are unspecified where the product of some
    /// neighbouring elements leaves the range of f64.
    pub struct Scan<T: Num> {
        /// The axis to go along; negative counts from the end.
        pub axis: isize,
    }
    variant { f: ScanFn }
    operands scan { x: in T [.., n], y: out T [.., n] }
}
impl<T> Scan<T> {
    /// Joins elements along `axis` by `f`.
    pub fn of(f: ScanFn, axis: isize) -> Self {
        Scan { axis, f, types: PhantomData }
    }
    /// The function.
    pub fn function(&self) -> ScanFn {
        self.f
    }
}
impl<T: Num> Op for Scan<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn infer(&self, on: &args::scan::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis).about(self.name(), "x")?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            ScanFn::Sum => Tolerance::summed(dtype),
            ScanFn::Prod => Tolerance::rounded(dtype),
        }
    }
}

family! {
    /// Running sums and products of `T`.
    pub trait ScanOps<T: Num>: Execute<Scan<T>>;
    methods ScanMethods;
}

/// The methods of [`ScanOps`].
pub trait ScanMethods: Backend {
    methods! {
        ScanOps<T: Num>;
        /// [`ScanFn::Sum`] of `x` along `axis`: `y[i] = Σ x[j]` over `j ≤ i`. `x` of any shape; `y` like `x`.
        example
        /// let x = b.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        /// assert_eq!(b.cumsum(&x, -1)?.to_vec(&b)?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
        fn cumsum, cumsum_into(x: in T; y: T; axis: isize) = scan(Scan::of(ScanFn::Sum, axis));

        /// [`ScanFn::Prod`] of `x` along `axis`: `y[i] = Π x[j]` over `j ≤ i`. `x` of any shape; `y` like `x`.
        example
        /// let x = b.tensor(&[2, 3], &[1, 2, 3, 4, 5, -6])?;
        /// assert_eq!(b.cumprod(&x, -1)?.to_vec(&b)?, [1, 2, 6, 4, 20, -120]);
        fn cumprod, cumprod_into(x: in T; y: T; axis: isize) = scan(Scan::of(ScanFn::Prod, axis));
    }
}
