//! Elementwise relations of numbers of any type: comparisons, and functions of truth values.

use std::marker::PhantomData;

use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// A relation. Comparisons with NaN are false, except for [`Compare::Ne`]. As a truth value, a number other than 0 is true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Compare {
    /// a = b
    Eq,
    /// a ≠ b
    Ne,
    /// a < b
    Lt,
    /// a ≤ b
    Le,
    /// a > b
    Gt,
    /// a ≥ b
    Ge,
    /// Both are true.
    And,
    /// Either is true.
    Or,
    /// Exactly one is true.
    Xor,
    /// Neither is true.
    Nor,
}

impl Compare {
    /// All relations.
    pub const ALL: [Self; 10] = [
        Self::Eq,
        Self::Ne,
        Self::Lt,
        Self::Le,
        Self::Gt,
        Self::Ge,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::Nor,
    ];
}

/// The type of the numbers to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Number {
    /// u8
    U8,
    /// u32
    U32,
    /// i8
    I8,
    /// i16
    I16,
    /// i32
    I32,
    /// i64
    I64,
    /// The 8-bit float of the OCP with four exponent bits, without infinities.
    F8E4M3,
    /// f16
    F16,
    /// bf16
    Bf16,
    /// f32
    F32,
    /// f64
    F64,
}

/// y\[i\] = 1 where the relation of a\[i\] and b\[i\] holds, otherwise 0. `a` and `b` are the bytes of the numbers.
///
/// # Errors
/// [`Error::Length`] when `a` or `b` does not have a number for each element of `y`.
pub fn compare(isa: Isa, op: Compare, number: Number, a: &[u8], b: &[u8], y: &mut [u8]) -> Result<(), Error> {
    // Six loops serve ten relations.
    let (relation, a, b, negated) = match op {
        Compare::Eq => (Relation::Equal, a, b, false),
        Compare::Ne => (Relation::Equal, a, b, true),
        Compare::Lt => (Relation::Less, a, b, false),
        Compare::Gt => (Relation::Less, b, a, false),
        Compare::Le => (Relation::LessOrEqual, a, b, false),
        Compare::Ge => (Relation::LessOrEqual, b, a, false),
        Compare::And => (Relation::And, a, b, false),
        Compare::Or => (Relation::Or, a, b, false),
        Compare::Xor => (Relation::Xor, a, b, false),
        Compare::Nor => (Relation::Or, a, b, true),
    };
    match number {
        Number::U8 => by_relation::<u8, 1>(isa, relation, a, b, y, negated),
        Number::U32 => by_relation::<u32, 4>(isa, relation, a, b, y, negated),
        Number::I8 => by_relation::<i8, 1>(isa, relation, a, b, y, negated),
        Number::I16 => by_relation::<i16, 2>(isa, relation, a, b, y, negated),
        Number::I32 => by_relation::<i32, 4>(isa, relation, a, b, y, negated),
        Number::I64 => by_relation::<i64, 8>(isa, relation, a, b, y, negated),
        // The largest magnitude that is not NaN.
        Number::F8E4M3 => by_relation::<Small8<0x7e>, 1>(isa, relation, a, b, y, negated),
        Number::F16 => by_relation::<Small16<0x7c00>, 2>(isa, relation, a, b, y, negated),
        Number::Bf16 => by_relation::<Small16<0x7f80>, 2>(isa, relation, a, b, y, negated),
        Number::F32 => by_relation::<f32, 4>(isa, relation, a, b, y, negated),
        Number::F64 => by_relation::<f64, 8>(isa, relation, a, b, y, negated),
    }
}

#[derive(Clone, Copy)]
enum Relation {
    Equal,
    Less,
    LessOrEqual,
    And,
    Or,
    Xor,
}

fn by_relation<T: Order<N>, const N: usize>(
    isa: Isa,
    relation: Relation,
    a: &[u8],
    b: &[u8],
    y: &mut [u8],
    negated: bool,
) -> Result<(), Error> {
    same_len("bytes of a", a.len(), y.len().saturating_mul(N))?;
    same_len("bytes of b", b.len(), y.len().saturating_mul(N))?;
    let (a, b) = (a.as_chunks::<N>().0, b.as_chunks::<N>().0);
    let flip = u8::from(negated);
    match relation {
        Relation::Equal => isa.run(Each { a, b, y, flip, of: PhantomData::<Equal<T>> }),
        Relation::Less => isa.run(Each { a, b, y, flip, of: PhantomData::<Less<T>> }),
        Relation::LessOrEqual => isa.run(Each { a, b, y, flip, of: PhantomData::<LessOrEqual<T>> }),
        Relation::And => isa.run(Each { a, b, y, flip, of: PhantomData::<And<T>> }),
        Relation::Or => isa.run(Each { a, b, y, flip, of: PhantomData::<Or<T>> }),
        Relation::Xor => isa.run(Each { a, b, y, flip, of: PhantomData::<Xor<T>> }),
    }
    Ok(())
}

/// Numbers of one type, from their bytes. The methods have no branches, so that the compiler vectorises loops over them.
trait Order<const N: usize> {
    fn equal(a: [u8; N], b: [u8; N]) -> bool;
    fn less(a: [u8; N], b: [u8; N]) -> bool;
    fn less_or_equal(a: [u8; N], b: [u8; N]) -> bool;
    fn is_true(x: [u8; N]) -> bool;
}

macro_rules! native {
    ($($T:ty, $N:literal;)+) => {$(
        impl Order<$N> for $T {
            #[inline(always)]
            fn equal(a: [u8; $N], b: [u8; $N]) -> bool {
                <$T>::from_ne_bytes(a) == <$T>::from_ne_bytes(b)
            }
            #[inline(always)]
            fn less(a: [u8; $N], b: [u8; $N]) -> bool {
                <$T>::from_ne_bytes(a) < <$T>::from_ne_bytes(b)
            }
            #[inline(always)]
            fn less_or_equal(a: [u8; $N], b: [u8; $N]) -> bool {
                <$T>::from_ne_bytes(a) <= <$T>::from_ne_bytes(b)
            }
            #[inline(always)]
            fn is_true(x: [u8; $N]) -> bool {
                <$T>::from_ne_bytes(x) != <$T>::default()
            }
        }
    )+};
}
native! { u8, 1; i8, 1; i16, 2; u32, 4; i32, 4; i64, 8; f32, 4; f64, 8; }

/// A 16-bit float whose magnitudes above `MOST` are NaN. It is compared as an integer: the magnitude with the sign of the
/// number, so that both zeros are 0.
struct Small16<const MOST: i16>;
/// The same for 8 bits.
struct Small8<const MOST: i8>;

macro_rules! small {
    ($($T:ident, $I:ty, $N:literal;)+) => {$(
        impl<const MOST: $I> $T<MOST> {
            #[inline(always)]
            fn magnitude(x: [u8; $N]) -> $I {
                <$I>::from_ne_bytes(x) & <$I>::MAX
            }
            #[inline(always)]
            fn key(x: [u8; $N]) -> $I {
                let sign = <$I>::from_ne_bytes(x) >> (<$I>::BITS - 1);
                (Self::magnitude(x) ^ sign).wrapping_sub(sign)
            }
            #[inline(always)]
            fn ordered(a: [u8; $N], b: [u8; $N]) -> bool {
                (Self::magnitude(a) <= MOST) & (Self::magnitude(b) <= MOST)
            }
        }
        impl<const MOST: $I> Order<$N> for $T<MOST> {
            #[inline(always)]
            fn equal(a: [u8; $N], b: [u8; $N]) -> bool {
                (Self::key(a) == Self::key(b)) & (Self::magnitude(a) <= MOST)
            }
            #[inline(always)]
            fn less(a: [u8; $N], b: [u8; $N]) -> bool {
                (Self::key(a) < Self::key(b)) & Self::ordered(a, b)
            }
            #[inline(always)]
            fn less_or_equal(a: [u8; $N], b: [u8; $N]) -> bool {
                (Self::key(a) <= Self::key(b)) & Self::ordered(a, b)
            }
            #[inline(always)]
            fn is_true(x: [u8; $N]) -> bool {
                Self::magnitude(x) != 0
            }
        }
    )+};
}
small! { Small16, i16, 2; Small8, i8, 1; }

/// A relation of two numbers.
trait Test<const N: usize> {
    fn test(a: [u8; N], b: [u8; N]) -> bool;
}
struct Equal<T>(PhantomData<T>);
struct Less<T>(PhantomData<T>);
struct LessOrEqual<T>(PhantomData<T>);
struct And<T>(PhantomData<T>);
struct Or<T>(PhantomData<T>);
struct Xor<T>(PhantomData<T>);

impl<T: Order<N>, const N: usize> Test<N> for Equal<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::equal(a, b)
    }
}
impl<T: Order<N>, const N: usize> Test<N> for Less<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::less(a, b)
    }
}
impl<T: Order<N>, const N: usize> Test<N> for LessOrEqual<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::less_or_equal(a, b)
    }
}
impl<T: Order<N>, const N: usize> Test<N> for And<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::is_true(a) & T::is_true(b)
    }
}
impl<T: Order<N>, const N: usize> Test<N> for Or<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::is_true(a) | T::is_true(b)
    }
}
impl<T: Order<N>, const N: usize> Test<N> for Xor<T> {
    #[inline(always)]
    fn test(a: [u8; N], b: [u8; N]) -> bool {
        T::is_true(a) ^ T::is_true(b)
    }
}

/// The compiler vectorises the loop for the instruction set that it is inlined into.
struct Each<'a, R, const N: usize> {
    a: &'a [[u8; N]],
    b: &'a [[u8; N]],
    y: &'a mut [u8],
    flip: u8,
    of: PhantomData<R>,
}

impl<R: Test<N>, const N: usize> VectorFn for Each<'_, R, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let n = self.y.len();
        let (a, b) = (&self.a[..n], &self.b[..n]);
        for i in 0..n {
            self.y[i] = u8::from(R::test(a[i], b[i])) ^ self.flip;
        }
    }
}
