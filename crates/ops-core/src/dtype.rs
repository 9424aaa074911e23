//! Element types and the accumulation rule.
//!
//! Each trait adds what another group of ops needs:
//!
//! | trait | adds | types |
//! |---|---|---|
//! | [`Element`] | storage in a backend's memory | all types, block formats, and types of other crates |
//! | [`Scalar`] | one number, which can be cast | integers, floats, [`F8E4M3`]; sealed, like all traits below |
//! | [`Num`] | arithmetic | `u8 i8 i16 i32 i64 u32 f16 bf16 f32 f64` |
//! | [`Float`] | an accumulator type | `f16 bf16 f32 f64` |
//! | [`Index`] | use as a row index, and as a condition in `where` | `u8 u32 i32 i64` |
//! | [`Mask`] | use as an attention mask | `u8` and the floats |
use core::fmt::{self, Debug};

pub(crate) mod block;
mod float8;
mod num;
mod round;
mod wide;

pub use block::{BlockInfo, ErrorBudget};
pub use float8::F8E4M3;
pub use half::{bf16, f16};
pub use num::{Float, Index, Integer, Mask, Num};
pub use wide::Wide;

/// Passes the scalar types of this crate to a macro: floats, integers, others. Block formats are values, not
/// types that code is compiled for; [`quant`](crate::quant) lists them.
#[doc(hidden)]
#[macro_export]
macro_rules! element_types {
    ([$($then:tt)+] $($rest:tt)*) => {
        $($then)+! {
            [$crate::f16, $crate::bf16, f32, f64]
            [i8, i16, i32, i64, u8, u32]
            [$crate::F8E4M3]
            $($rest)*
        }
    };
}

/// The element type of a tensor, as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DType {
    /// IEEE 754 binary64.
    F64,
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of a binary32.
    BF16,
    /// OCP 8-bit float, four exponent bits, no infinities, largest value 448.
    F8E4M3,
    /// 64-bit signed integer.
    I64,
    /// 32-bit signed integer.
    I32,
    /// 16-bit signed integer.
    I16,
    /// 8-bit signed integer.
    I8,
    /// 32-bit unsigned integer.
    U32,
    /// 8-bit unsigned integer.
    U8,
    /// A block of quantized values. The format is described entirely by data.
    Block(&'static BlockInfo),
}

impl DType {
    /// The name used in commands, files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F8E4M3 => "f8e4m3",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::I16 => "i16",
            DType::I8 => "i8",
            DType::U32 => "u32",
            DType::U8 => "u8",
            DType::Block(info) => info.name,
        }
    }

    /// The type of the elements `T`. Fails to compile if `T::DTYPE` contradicts the size or alignment of `T`.
    ///
    /// Every conversion from a typed view to an untyped one calls this. An element type from another crate
    /// must declare its true size and at least its true alignment: the Rust type sizes buffers, but the
    /// `DType` sizes memory in device kernels.
    #[inline(always)]
    pub const fn of<T: Element>() -> DType {
        const {
            assert!(T::DTYPE.size() == size_of::<T>(), "Element::DTYPE has another size than the type");
            assert!(
                T::DTYPE.align() >= align_of::<T>(),
                "Element::DTYPE has a smaller alignment than the type"
            );
        }
        T::DTYPE
    }

    /// Size of an element in bytes.
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F16 | DType::BF16 | DType::I16 => 2,
            DType::F8E4M3 | DType::I8 | DType::U8 => 1,
            DType::Block(info) => info.bytes,
        }
    }

    /// Alignment of an element in bytes.
    pub const fn align(self) -> usize {
        match self {
            DType::Block(info) => info.align,
            number => number.size(),
        }
    }

    /// Number of values in an element: 1, except for blocks.
    pub const fn values(self) -> usize {
        match self {
            DType::Block(info) => info.values,
            _ => 1,
        }
    }

    /// Whether values are floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::F8E4M3)
    }

    /// Whether ops compute in this type, so that it is a [`Float`]: f16, bf16, f32 or f64.
    pub const fn is_computed(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::F16 | DType::BF16)
    }

    /// Whether elements are blocks of quantized values.
    pub const fn is_block(self) -> bool {
        matches!(self, DType::Block(_))
    }

    /// Whether a weight may have this type: a [computed type](DType::is_computed) or a block format.
    pub const fn is_real(self) -> bool {
        self.is_computed() || self.is_block()
    }

    /// Whether elements may be row indices and conditions in `where`, so that this is an [`Index`].
    pub const fn is_index(self) -> bool {
        matches!(self, DType::I64 | DType::I32 | DType::U32 | DType::U8)
    }

    /// The exponent of a float type's smallest normal number. Below it the spacing of values is constant.
    pub(crate) const fn lowest_exponent(self) -> i32 {
        match self {
            DType::F64 => -1022,
            DType::F16 => -14,
            DType::F8E4M3 => -6,
            _ => -126,
        }
    }

    /// Significant bits of a float type, including the implicit one; `None` for all other types.
    pub const fn precision(self) -> Option<u32> {
        match self {
            DType::F64 => Some(53),
            DType::F32 => Some(24),
            DType::F16 => Some(11),
            DType::BF16 => Some(8),
            DType::F8E4M3 => Some(4),
            _ => None,
        }
    }
}

/// Elements as bytes.
impl DType {
    /// The number that an element holds; `None` for a block, which holds many.
    ///
    /// # Panics
    /// Panics if `element` is not exactly [`size`](DType::size) bytes long.
    pub fn number(self, element: &[u8]) -> Option<Wide> {
        fn wide<T: Scalar>(element: &[u8]) -> Option<Wide> {
            Some(bytemuck::pod_read_unaligned::<T>(element).to_wide())
        }
        match self {
            DType::F64 => wide::<f64>(element),
            DType::F32 => wide::<f32>(element),
            DType::F16 => wide::<f16>(element),
            DType::BF16 => wide::<bf16>(element),
            DType::F8E4M3 => wide::<F8E4M3>(element),
            DType::I64 => wide::<i64>(element),
            DType::I32 => wide::<i32>(element),
            DType::I16 => wide::<i16>(element),
            DType::I8 => wide::<i8>(element),
            DType::U32 => wide::<u32>(element),
            DType::U8 => wide::<u8>(element),
            DType::Block(_) => None,
        }
    }

    /// Whether two elements are equal: numbers by [`Wide::same`], blocks byte for byte.
    ///
    /// # Panics
    /// As [`number`](DType::number).
    pub fn same(self, a: &[u8], b: &[u8]) -> bool {
        match (self.number(a), self.number(b)) {
            (Some(a), Some(b)) => a.same(b),
            _ => a == b,
        }
    }

    /// An element as text for messages: the number, or the bytes of a block.
    ///
    /// # Panics
    /// As [`number`](DType::number).
    pub fn show(self, element: &[u8]) -> String {
        match self.number(element) {
            Some(Wide::Int(v)) => v.to_string(),
            // The shortest text that distinguishes the value from its neighbours in its own type.
            Some(Wide::Float(v)) if self == DType::F64 => format!("{v:?}"),
            Some(Wide::Float(v)) => format!("{:?}", v as f32),
            None => format!("{element:02x?}"),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A value that can be stored in any backend's memory: plain bytes, copied as such.
///
/// The trait is safe to implement: [`bytemuck::Pod`] already guarantees that every bit pattern is a value and that there is no
/// padding.
pub trait Element: bytemuck::Pod + Debug + Send + Sync {
    /// The type as a value. It must have the size of the Rust type, and an alignment no smaller: see [`DType::of`].
    const DTYPE: DType;
}

/// Seals the number traits: backends list the number types, and would have no kernels for one from another
/// crate.
mod sealed {
    /// Implemented by this crate's numbers only.
    pub trait Sealed {}
}

/// One number. This trait is sealed, as are [`Num`], [`Float`], [`Integer`], [`Index`] and [`Mask`], because backends list the types.
///
/// Casts in the whole workspace are `B::from_wide(a.to_wide())`. Float to integer truncates toward zero and saturates, and NaN
/// gives 0. Integer to integer wraps. Everything else rounds once, to nearest even; [`F8E4M3`] saturates to ±448.
pub trait Scalar: Element + sealed::Sealed {
    /// The exact value.
    fn to_wide(self) -> Wide;
    /// The nearest value of this type, by the cast rules.
    fn from_wide(wide: Wide) -> Self;

    /// The value as `f64`; exact except for large `i64`.
    #[inline]
    fn to_f64(self) -> f64 {
        self.to_wide().to_f64()
    }
    /// `Self::from_wide(Wide::Float(v))`.
    #[inline]
    fn from_f64(v: f64) -> Self {
        Self::from_wide(Wide::Float(v))
    }
    /// The nearest `f32` to the value.
    #[inline]
    fn to_f32(self) -> f32 {
        f32::from_wide(self.to_wide())
    }
    /// `Self::from_wide(Wide::Float(v.into()))`.
    #[inline]
    fn from_f32(v: f32) -> Self {
        Self::from_wide(Wide::Float(v.into()))
    }
}

/// Implements [`Element`] and [`Scalar`] for integers.
///
/// `scalar_int!(u8 => U8)` says that `u8` is `DType::U8`. Both casts are Rust's `as`, which wraps between integers, and
/// truncates and saturates from floats, as [`Scalar`] requires.
macro_rules! scalar_int {
    ($($t:ty => $dtype:ident),+ $(,)?) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }
        impl sealed::Sealed for $t {}
        impl Scalar for $t {
            #[inline]
            fn to_wide(self) -> Wide { Wide::Int(self.into()) }
            #[inline]
            fn from_wide(wide: Wide) -> Self {
                match wide {
                    Wide::Int(v) => v as $t,
                    Wide::Float(v) => v as $t,
                }
            }
        }
    )+};
}
scalar_int!(u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u32 => U32);

/// Implements [`Element`] and [`Scalar`] for floats.
///
/// `scalar_float!(f16 => F16, int: |v| .., float: |v| ..)` gives the roundings into the type from integers and from floats.
macro_rules! scalar_float {
    ($($t:ty => $dtype:ident, int: |$i:ident| $int:expr, float: |$f:ident| $float:expr;)+) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$dtype;
        }
        impl sealed::Sealed for $t {}
        impl Scalar for $t {
            #[inline]
            fn to_wide(self) -> Wide { Wide::Float(f64::from(self)) }
            #[inline]
            fn from_wide(wide: Wide) -> Self {
                match wide { Wide::Int($i) => $int, Wide::Float($f) => $float }
            }
        }
    )+};
}
scalar_float! {
    f64 => F64, int: |v| v as f64, float: |v| v;
    f32 => F32, int: |v| v as f32, float: |v| v as f32;
    f16 => F16, int: |v| round::f16_from_f64(round::i64_to_odd_f64(v)), float: |v| round::f16_from_f64(v);
    bf16 => BF16, int: |v| round::bf16_from_f64(round::i64_to_odd_f64(v)), float: |v| round::bf16_from_f64(v);
    F8E4M3 => F8E4M3, int: |v| F8E4M3::from_f64(v as f64), float: |v| F8E4M3::from_f64(v);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast<A: Scalar, B: Scalar>(a: A) -> B {
        B::from_wide(a.to_wide())
    }

    #[test]
    fn float_to_int_truncates_and_saturates() {
        assert_eq!(cast::<f32, u8>(300.7), 255);
        assert_eq!(cast::<f32, u8>(-1.0), 0);
        assert_eq!(cast::<f64, i64>(f64::INFINITY), i64::MAX);
        assert_eq!(cast::<f16, i32>(f16::NAN), 0);
        assert_eq!(cast::<f32, i8>(-1.9), -1);
    }

    #[test]
    fn f32_is_reached_by_one_rounding() {
        fn through<T: Scalar>(v: f32) -> f32 {
            T::from_f32(v).to_f32()
        }
        assert_eq!(
            (through::<f64>(0.1), through::<f16>(0.1), through::<bf16>(0.1)),
            (0.1, 0.099975586, 0.100097656)
        );
        assert_eq!(
            (through::<u8>(300.7), through::<i32>(-1.9), through::<F8E4M3>(1e6)),
            (255.0, -1.0, 448.0)
        );
        // Halfway between two values of f32 in i64; one more rounds up.
        assert_eq!(((1i64 << 24) + 1).to_f32(), 16_777_216.0);
        assert_eq!(((1i64 << 54) + (1 << 30) + 1).to_f32(), 18_014_400_656_965_632.0);
        assert_eq!(Scalar::to_f32(1.0f64 + f64::EPSILON), 1.0);
    }

    #[test]
    fn int_to_int_wraps() {
        assert_eq!(cast::<u32, u8>(300), 44);
        assert_eq!(cast::<i64, u32>(-1), u32::MAX);
        assert_eq!(cast::<u32, i32>(u32::MAX), -1);
    }

    #[test]
    fn wide_integers_round_once_into_half_types() {
        // One above a tie of bf16: rounding to f64 first would land on the tie, and then round down.
        let tie = (1i64 << 62) + (1i64 << 54);
        assert_eq!(cast::<i64, bf16>(tie + 1).to_f64(), ((1i64 << 62) + (1i64 << 55)) as f64);
        assert_eq!(cast::<i64, bf16>(tie).to_f64(), (1i64 << 62) as f64);
    }

    #[test]
    fn names_are_those_of_the_contract() {
        assert_eq!(DType::F8E4M3.to_string(), "f8e4m3");
        assert_eq!(DType::of::<crate::quant::BlockQ8_0>().to_string(), "q8_0");
    }
}
