//! Comparisons of two tensors, element by element, and functions of truth values.
use super::declare::{family, methods, methods_of_two, ops};
use crate::{Backend, DType, Execute, Op, Operands, Scalar, Tolerance, Wide};
use core::cmp::Ordering;
use core::hash::Hash;

/// A relation of two elements: a comparison, or a function of two truth values. A number other than 0 is true, so NaN is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CompareFn {
    /// `a = b`
    Eq,
    /// `a ≠ b`; true if either is NaN.
    Ne,
    /// `a < b`
    Lt,
    /// `a ≤ b`
    Le,
    /// `a > b`
    Gt,
    /// `a ≥ b`
    Ge,
    /// Both are true.
    LogicalAnd,
    /// Either is true.
    LogicalOr,
    /// Exactly one is true.
    LogicalXor,
}
impl CompareFn {
    /// All relations.
    pub const ALL: [CompareFn; 9] = {
        use CompareFn::*;
        [Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr, LogicalXor]
    };

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            CompareFn::Eq => "eq",
            CompareFn::Ne => "ne",
            CompareFn::Lt => "lt",
            CompareFn::Le => "le",
            CompareFn::Gt => "gt",
            CompareFn::Ge => "ge",
            CompareFn::LogicalAnd => "logical_and",
            CompareFn::LogicalOr => "logical_or",
            CompareFn::LogicalXor => "logical_xor",
        }
    }

    /// The definition, for two numbers of the same type.
    pub fn holds(self, a: Wide, b: Wide) -> bool {
        let order = match (a, b) {
            (Wide::Int(a), Wide::Int(b)) => Some(a.cmp(&b)),
            (a, b) => a.to_f64().partial_cmp(&b.to_f64()),
        };
        let [p, q] = [a, b].map(|v| v.to_f64() != 0.0);
        match self {
            CompareFn::Eq => order == Some(Ordering::Equal),
            CompareFn::Ne => order != Some(Ordering::Equal),
            CompareFn::Lt => order == Some(Ordering::Less),
            CompareFn::Le => order.is_some_and(Ordering::is_le),
            CompareFn::Gt => order == Some(Ordering::Greater),
            CompareFn::Ge => order.is_some_and(Ordering::is_ge),
            CompareFn::LogicalAnd => p & q,
            CompareFn::LogicalOr => p | q,
            CompareFn::LogicalXor => p ^ q,
        }
    }
}

ops! {
    /// `y = 1` where the relation of `a` and `b` holds, otherwise 0.
    ///
    /// Floats are compared by the rules of IEEE 754: −0 equals 0, and every comparison with NaN is 0, except `ne`, which is 1. As
    /// truth values, −0 and 0 are false, and NaN is true.
    ///
    /// Operands: `a` and `b` of equal extents and any scalar type (the methods of [`CompareOps`] broadcast); `y` of u8, like `a`.
    pub struct Compare<T: Scalar> {}
    variant { f: CompareFn }
    /// Compares by `f`.
    fn of;
    operands compare { a: in T [..], b: in T [..], y: out u8 [..] }

    /// `y = 1` where `x` is 0, otherwise 0. −0 is 0, and NaN is not.
    ///
    /// Operands: `x` of any shape and scalar type; `y` of u8, like `x`.
    pub struct LogicalNot<T: Scalar> {}
    const OP;
    operands logical_not { x: in T [..], y: out u8 [..] }
}
impl<T> Compare<T> {
    /// The relation that this op tests.
    pub fn function(&self) -> CompareFn {
        self.f
    }
}
impl<T: Scalar> Op for Compare<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl<T: Scalar> Op for LogicalNot<T> {
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Comparisons and truth values of any scalar type. The results are u8, as [`WhereOps`](super::WhereOps) takes them.
    pub trait CompareOps<T: Scalar>: Execute<Compare<T>>, Execute<LogicalNot<T>>;
    methods CompareMethods;
}

/// The methods of [`CompareOps`].
pub trait CompareMethods: Backend {
    methods_of_two! {
        CompareOps<T: Scalar>, CompareFn -> u8;
        example
        /// let (x, two) = (b.tensor(&[3], &[1, 2, 3])?, b.tensor(&[1], &[2])?);
        /// assert_eq!(b.compare(&x, &two, CompareFn::Ge)?.to_vec(&b)?, [0, 1, 1]);
        fn compare, compare_into = compare(Compare::of);
        of [3]:
        eq eq_into Eq: [1.0, 2.0, 3.0], [2.0] => [0, 1, 0],
        ne ne_into Ne: [1.0, 2.0, 3.0], [2.0] => [1, 0, 1],
        lt lt_into Lt: [1.0, 2.0, 3.0], [2.0] => [1, 0, 0],
        le le_into Le: [1.0, 2.0, 3.0], [2.0] => [1, 1, 0],
        gt gt_into Gt: [1.0, 2.0, 3.0], [2.0] => [0, 0, 1],
        ge ge_into Ge: [1.0, 2.0, 3.0], [2.0] => [0, 1, 1],
        logical_and logical_and_into LogicalAnd: [0, 1, 2], [1] => [0, 1, 1],
        logical_or logical_or_into LogicalOr: [0, 1, 2], [0] => [0, 1, 1],
        logical_xor logical_xor_into LogicalXor: [0, 1, 2], [1] => [1, 0, 0],
    }

    methods! {
        CompareOps<T: Scalar>;
        /// [`LogicalNot`]: 1 where `x` is 0, otherwise 0.
        example
        /// let x = b.tensor(&[4], &[0.0f32, -0.0, 0.5, f32::NAN])?;
        /// assert_eq!(b.logical_not(&x)?.to_vec(&b)?, [1, 1, 0, 0]);
        fn logical_not, logical_not_into(x: in T; y: u8) = logical_not(LogicalNot::OP);
    }
}
