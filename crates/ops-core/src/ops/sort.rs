//! Sorting along an axis, and the largest elements of rows.
use super::declare::{family, methods, ops};
use crate::error::About;
use crate::{Backend, DType, Error, Execute, Layout, Num, Op, Operands, Result, Shape, TensorOf, Tolerance};

ops! {
    /// Sorts along an axis. The sort is stable. NaN is the largest: last in ascending and first in descending order.
    ///
    /// Operands: `x` of any shape, with at most 2³² elements along the axis; `y` like `x`.
    pub struct Sort<T: Num> {
        /// The axis to sort along; negative counts from the end.
        pub axis: isize [or -1],
        /// Whether the largest element comes first.
        pub descending: bool = false,
    }
    /// Ascending order along `axis`; `-1` is the last axis.
    fn axis;
    operands sort { x: in T [.., n], y: out T [.., n] }

    /// The indices along an axis that [`Sort`] the elements.
    ///
    /// Operands: `x` of any shape, with at most 2³² elements along the axis; `y` of u32, like `x`.
    pub struct ArgSort<T: Num> {
        /// The axis to sort along; negative counts from the end.
        pub axis: isize [or -1],
        /// Whether the largest element comes first.
        pub descending: bool = false,
    }
    /// Ascending order along `axis`; `-1` is the last axis.
    fn axis;
    operands argsort { x: in T [.., n], y: out u32 [.., n] }

    /// The `k` largest elements of each row and their indices, in descending order. NaN is the largest; among equal elements the
    /// lower index comes first.
    ///
    /// Operands: `x[.., n]`, with `n` at most 2³²; `values[.., k]`; `indices[.., k]` of u32.
    pub struct TopK<T: Num> {
        /// The number of elements; at most `n`.
        pub k: usize,
    }
    /// The `k` largest elements.
    fn of;
    operands topk { x: in T [.., n], values: out T [.., k], indices: out u32 [.., k] }
}
impl<T> Sort<T> {
    /// Puts the largest element first.
    pub fn descending(self) -> Self {
        Sort { descending: true, ..self }
    }
}
impl<T: Num> Op for Sort<T> {
    fn infer(&self, on: &args::sort::Shapes<'_>) -> Result<[Shape; 1]> {
        indexable("sort", on.x, self.axis)?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl<T> ArgSort<T> {
    /// Puts the largest element first.
    pub fn descending(self) -> Self {
        ArgSort { descending: true, ..self }
    }
}
impl<T: Num> Op for ArgSort<T> {
    fn infer(&self, on: &args::argsort::Shapes<'_>) -> Result<[Shape; 1]> {
        indexable("argsort", on.x, self.axis)?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl<T: Num> Op for TopK<T> {
    fn infer(&self, on: &args::topk::Shapes<'_>) -> Result<[Shape; 2]> {
        let n = indexable("topk", on.x, -1)?;
        if self.k > n {
            return Err(Error::param(
                "topk",
                "k",
                self.k,
                format!("at most {n}, the extent of the last axis of x"),
            ));
        }
        let shape = on.x.shape().with_last(self.k).about(self.name(), "x")?;
        Ok([shape, shape])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// The extent of an axis, if its indices are u32.
fn indexable(op: &'static str, x: &Layout, axis: isize) -> Result<usize> {
    let n = x.dims()[x.shape().axis(axis).about(op, "x")?];
    match u64::try_from(n) {
        Ok(elements) if elements <= 1 << 32 => Ok(n),
        _ => Err(Error::shape(op, "x", x, "at most 2^32 elements along the axis, since indices are u32")),
    }
}

/// Values and indices, as [`TopK`] gives them.
pub type ValuesAndIndices<B, T> = (TensorOf<B, T>, TensorOf<B, u32>);

family! {
    /// Sorting of `T`.
    pub trait SortOps<T: Num>: Execute<Sort<T>>, Execute<ArgSort<T>>, Execute<TopK<T>>;
    methods SortMethods;
}

/// The methods of [`SortOps`].
pub trait SortMethods: Backend {
    methods! {
        SortOps<T: Num>;
        /// [`Sort`] of `x`: `y[i] = x[order[i]]` along the axis. `x` of any shape; `y` like `x`.
        example
        /// let x = b.tensor(&[4], &[2.0f32, f32::NEG_INFINITY, 3.0, -1.0])?;
        /// let y = b.sort(&x, Sort::axis(-1).descending())?;
        /// assert_eq!(y.to_vec(&b)?, [3.0, 2.0, -1.0, f32::NEG_INFINITY]);
        fn sort, sort_into(x: in T; y: T; op: impl Into<Sort<T>>) = sort(op.into());

        /// [`ArgSort`] of `x`: the `order` by which [`sort`](Self::sort) sorts. `x` of any shape; `y` of u32, like `x`.
        example
        /// let x = b.tensor(&[5], &[2.0f32, f32::NAN, 2.0, -1.0, 0.0])?;
        /// assert_eq!(b.argsort(&x, -1)?.to_vec(&b)?, [3, 4, 0, 2, 1]);
        /// assert_eq!(b.argsort(&x, ArgSort::axis(-1).descending())?.to_vec(&b)?, [1, 0, 2, 4, 3]);
        fn argsort, argsort_into(x: in T; y: u32; op: impl Into<ArgSort<T>>) = argsort(op.into());

        /// [`TopK`] of `x[.., n]`: `values[.., k]` and `indices[.., k]` of u32, in descending order.
        example
        /// let logits = b.tensor(&[2, 4], &[1.0f32, 4.0, 4.0, 2.0, 0.0, 7.0, 8.0, 9.0])?;
        /// let (values, indices) = b.topk(&logits, 2)?;
        /// assert_eq!(values.to_vec(&b)?, [4.0, 4.0, 9.0, 8.0]);
        /// assert_eq!(indices.to_vec(&b)?, [1, 2, 3, 2]);
        fn topk, topk_into(x: in T; values: T, indices: u32; k: usize) = topk(TopK::of(k));
    }
}
