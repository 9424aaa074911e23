//! Bitwise functions of integers, and shifts.
use super::declare::{family, methods, methods_of_two, ops};
use crate::{Backend, DType, Execute, Integer, Op, Operands, Tolerance};
use core::hash::Hash;

/// A function of the bits of two integers, which are in two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BitwiseFn {
    /// The bits that both have.
    And,
    /// The bits that either has.
    Or,
    /// The bits that exactly one has.
    Xor,
    /// `a · 2ᵇ`, wrapping. 0 if `b` is negative or at least the number of bits of the type.
    ShiftLeft,
    /// `⌊a / 2ᵇ⌋`. If `b` is negative or at least the number of bits of the type: 0, or −1 where `a` is negative.
    ShiftRight,
}
impl BitwiseFn {
    /// All functions.
    pub const ALL: [BitwiseFn; 5] = {
        use BitwiseFn::*;
        [And, Or, Xor, ShiftLeft, ShiftRight]
    };

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            BitwiseFn::And => "bitwise_and",
            BitwiseFn::Or => "bitwise_or",
            BitwiseFn::Xor => "bitwise_xor",
            BitwiseFn::ShiftLeft => "shift_left",
            BitwiseFn::ShiftRight => "shift_right",
        }
    }

    /// The definition.
    #[inline]
    pub fn at<T: Integer>(self, a: T, b: T) -> T {
        match self {
            BitwiseFn::And => a & b,
            BitwiseFn::Or => a | b,
            BitwiseFn::Xor => a ^ b,
            BitwiseFn::ShiftLeft => a.shift_left(b),
            BitwiseFn::ShiftRight => a.shift_right(b),
        }
    }
}

ops! {
    /// `y = f(a, b)`, element by element: a function of the bits of integers.
    ///
    /// Operands: `a` and `b` of equal extents (the methods of [`BitwiseOps`] broadcast); `y` like `a`.
    pub struct Bitwise<T: Integer> {}
    variant { f: BitwiseFn }
    /// Applies `f`.
    fn of;
    operands bitwise { a: in T [..], b: in T [..], y: out T [..] }

    /// `y = −x − 1`, element by element: every bit of an integer changed.
    ///
    /// Operands: `x` of any shape; `y` like `x`.
    pub struct BitwiseNot<T: Integer> {}
    const OP;
    operands bitwise_not { x: in T [..], y: out T [..] }
}
impl<T> Bitwise<T> {
    /// The function that this op applies.
    pub fn function(&self) -> BitwiseFn {
        self.f
    }
}
impl<T: Integer> Op for Bitwise<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}
impl<T: Integer> Op for BitwiseNot<T> {
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Bitwise functions of integers.
    pub trait BitwiseOps<T: Integer>: Execute<Bitwise<T>>, Execute<BitwiseNot<T>>;
    methods BitwiseMethods;
}

/// The methods of [`BitwiseOps`].
pub trait BitwiseMethods: Backend {
    methods_of_two! {
        BitwiseOps<T: Integer>, BitwiseFn -> T;
        example
        /// let (x, places) = (b.tensor(&[4], &[-5i8, 5, 1, 1])?, b.tensor(&[4], &[1i8, 1, 8, -1])?);
        /// assert_eq!(b.bitwise(&x, &places, BitwiseFn::ShiftRight)?.to_vec(&b)?, [-3, 2, 0, 0]);
        fn bitwise, bitwise_into = bitwise(Bitwise::of);
        of [2]:
        bitwise_and bitwise_and_into And: [6, 9], [3] => [2, 1],
        bitwise_or bitwise_or_into Or: [6, 9], [3] => [7, 11],
        bitwise_xor bitwise_xor_into Xor: [6, 9], [3] => [5, 10],
        shift_left shift_left_into ShiftLeft: [6, -9], [3] => [48, -72],
        shift_right shift_right_into ShiftRight: [6, -9], [1] => [3, -5],
    }

    methods! {
        BitwiseOps<T: Integer>;
        /// [`BitwiseNot`]: every bit of every element changed.
        example
        /// let x = b.tensor(&[3], &[0u8, 1, 0xf0])?;
        /// assert_eq!(b.bitwise_not(&x)?.to_vec(&b)?, [0xff, 0xfe, 0x0f]);
        fn bitwise_not, bitwise_not_into(x: in T; y: T) = bitwise_not(BitwiseNot::OP);
    }
}
