//! Reductions over axes.
use super::Axes;
use super::declare::{family, methods, ops};
use crate::error::About;
use crate::{Backend, DType, Error, Execute, Float, Num, Op, Operands, Result, Shape, Tolerance};
use core::marker::PhantomData;

/// How the elements along the reduced axes become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReduceFn {
    /// `Σ x`; 0 for no elements. Integers wrap.
    Sum,
    /// `Σ x / n`; NaN for no elements. Floats only.
    Mean,
    /// The largest element; NaN if any is NaN.
    Max,
    /// The smallest element; NaN if any is NaN.
    Min,
    /// `Π x`; 1 for no elements. Integers wrap.
    Prod,
}

impl ReduceFn {
    /// All functions.
    pub const ALL: [ReduceFn; 5] =
        [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max, ReduceFn::Min, ReduceFn::Prod];

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            ReduceFn::Sum => "sum",
            ReduceFn::Mean => "mean",
            ReduceFn::Max => "max",
            ReduceFn::Min => "min",
            ReduceFn::Prod => "prod",
        }
    }
    /// Whether the function is also defined on integers.
    pub const fn on_integers(self) -> bool {
        !matches!(self, ReduceFn::Mean)
    }
    /// Whether the result is one of the elements, which must then exist, and is never rounded.
    pub const fn selects(self) -> bool {
        matches!(self, ReduceFn::Max | ReduceFn::Min)
    }
}

ops! {
    /// Sum, mean, maximum, minimum or product over a set of axes.
    ///
    /// Operands: `x` of any shape; `y` like `x` without the reduced axes, or with extent 1 there if the axes are kept. Floats
    /// accumulate in f32 or wider and are rounded once. Integers have the type of `x` and wrap.
    pub struct Reduce<T: Num> {
        axes: Axes,
    }
    variant { f: ReduceFn }
    operands reduce { x: in T, y: out T }

    /// The index of the largest or smallest element along one axis. The first NaN wins; otherwise the lowest index among equal
    /// elements.
    ///
    /// Operands: `x` of any shape, with 1 to 2³² elements along the axis; `y` of u32, like `x` without the axis.
    pub struct ArgReduce<T: Num> {
        /// The axis; negative counts from the end.
        pub axis: isize,
    }
    variant {
        /// Whether to find the smallest element instead of the largest.
        pub smallest: bool
    }
    operands arg_reduce { x: in T, y: out u32 }
}
impl<T> Reduce<T> {
    /// The function.
    pub fn function(&self) -> ReduceFn {
        self.f
    }
    /// The axes.
    pub fn axes(&self) -> Axes {
        self.axes
    }
}
impl<T: Float> Reduce<T> {
    /// Reduces over `axes` by `f`.
    pub fn of(f: ReduceFn, axes: impl Into<Axes>) -> Self {
        Self::on_all(f, axes)
    }
}
impl<T: Num> Reduce<T> {
    /// Reduces over `axes` by `f`, or `None` if `T` lacks it: integers have no [mean](ReduceFn::Mean).
    pub fn of_num(f: ReduceFn, axes: impl Into<Axes>) -> Option<Self> {
        (T::IS_FLOAT || f.on_integers()).then(|| Self::on_all(f, axes))
    }
    fn on_all(f: ReduceFn, axes: impl Into<Axes>) -> Self {
        debug_assert!(T::IS_FLOAT || f.on_integers());
        Reduce { f, axes: axes.into(), types: PhantomData }
    }
}
impl<T: Num> Op for Reduce<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn infer(&self, on: &args::reduce::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([self.axes.infer(self.name(), on.x, self.f.selects())?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            ReduceFn::Max | ReduceFn::Min => Tolerance::Exact,
            ReduceFn::Prod => Tolerance::rounded(dtype),
            ReduceFn::Sum | ReduceFn::Mean => Tolerance::summed(dtype),
        }
    }
}

impl<T> ArgReduce<T> {
    /// The largest element along `axis`.
    pub fn max(axis: isize) -> Self {
        ArgReduce { axis, smallest: false, types: PhantomData }
    }
    /// The smallest element along `axis`.
    pub fn min(axis: isize) -> Self {
        ArgReduce { axis, smallest: true, types: PhantomData }
    }
}
impl<T: Num> Op for ArgReduce<T> {
    fn name(&self) -> &'static str {
        if self.smallest { "argmin" } else { "argmax" }
    }
    fn infer(&self, on: &args::arg_reduce::Shapes<'_>) -> Result<[Shape; 1]> {
        let n = on.x.dims()[on.x.shape().axis(self.axis).about(self.name(), "x")?];
        if n as u64 > 1 << 32 {
            return Err(Error::shape(
                self.name(),
                "x",
                on.x,
                "at most 2^32 elements along the axis, since y is u32",
            ));
        }
        Ok([Axes::from(self.axis).infer(self.name(), on.x, true)?])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Writes the methods of each function; the values appear in the doc example.
macro_rules! reductions {
    ($Ops:ident<$T:ident: $Bound:path>; $(
        $(#[$what:meta])* $method:ident $into:ident $f:ident, $x:expr => $y:expr;
    )+) => { methods! { $Ops<$T: $Bound>; $(
        $(#[$what])*
        ///
        /// `x` of any shape; `y` of the same type, without these axes or with extent 1 there; see [`Reduce`].
        example
        #[doc = concat!("let x = b.tensor(&[2, 3], &", stringify!($x), ")?;")]
        #[doc = concat!("let y = b.", stringify!($method), "(&x, -1)?;")]
        #[doc = concat!("assert_eq!(y.to_vec(&b)?, ", stringify!($y), ");")]
        fn $method, $into(x: in $T; y: $T; axes: impl Into<Axes>)
            = reduce(Reduce::on_all(ReduceFn::$f, axes));
    )+}};
}

family! {
    /// Reductions of `T` over axes. `axes` is one axis, an array of axes or [`Axes::ALL`]; [`Axes::keep_dims`]
    /// keeps them.
    pub trait ReduceOps<T: Num>: Execute<Reduce<T>>, Execute<ArgReduce<T>>;
    methods ReduceMethods;
}

/// The methods of [`ReduceOps`].
pub trait ReduceMethods: Backend {
    reductions! {
        ReduceOps<T: Num>;
        /// `y = Σ x` over `axes`; 0 for no elements. Integers wrap.
        sum sum_into Sum, [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0] => [6.0, 15.0];
        /// The largest element over `axes`; NaN if any element is NaN. There must be one.
        max max_into Max, [1.0f32, 3.0, 2.0, -4.0, -6.0, -5.0] => [3.0, -4.0];
        /// The smallest element over `axes`; NaN if any element is NaN. There must be one.
        min min_into Min, [1.0f32, 3.0, 2.0, -4.0, -6.0, -5.0] => [1.0, -6.0];
        /// `y = Π x` over `axes`; 1 for no elements. Integers wrap.
        prod prod_into Prod, [1, 2, 3, 4, 5, -6] => [6, -120];
    }
    reductions! {
        ReduceOps<T: Float>;
        /// `y = Σ x / n` over `axes`, where `n` is the number of elements; NaN for none.
        mean mean_into Mean, [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0] => [2.0, 5.0];
    }

    methods! {
        ReduceOps<T: Num>;
        /// The index of the largest element along `axis`: of the first NaN if there is one, otherwise of the
        /// first among equal elements. The axis must not be empty. `x` of any shape; `y` of u32, without the
        /// axis.
        example
        /// let x = b.tensor(&[2, 3], &[1.0f32, 3.0, 3.0, 0.0, f32::NAN, 7.0])?;
        /// assert_eq!(b.argmax(&x, -1)?.to_vec(&b)?, [1, 1]);
        fn argmax, argmax_into(x: in T; y: u32; axis: isize) = arg_reduce(ArgReduce::max(axis));

        /// The index of the smallest element along `axis`, by the rules of [`argmax`](Self::argmax).
        example
        /// let x = b.tensor(&[2, 3], &[3, 1, 1, 4, 7, 0])?;
        /// assert_eq!(b.argmin(&x, -1)?.to_vec(&b)?, [1, 2]);
        fn argmin, argmin_into(x: in T; y: u32; axis: isize) = arg_reduce(ArgReduce::min(axis));
    }
}
