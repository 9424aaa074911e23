//! From element types as values to types.

/// Runs an expression with a type alias for what a [`DType`](ops_core::DType) names.
///
/// `on!(floats, dtype, T => f::<T>(..))` is `f::<f32>(..)` for `DType::F32`, and so on; any other
/// type makes it `Err(CallError::NotOffered(..))`, so the expression must be a `Result`. Groups:
/// `floats`, `numbers` (with integers), `scalars` (with `f8e4m3`), `indices`, `blocks`, `elements`
/// (scalars and blocks).
macro_rules! on {
    (floats, $dtype:expr, $T:ident => $body:expr) => {
        on!(@match $dtype, $T, $body, F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (numbers, $dtype:expr, $T:ident => $body:expr) => {
        on!(@match $dtype, $T, $body,
            U8 = u8, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U32 = u32,
            F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (scalars, $dtype:expr, $T:ident => $body:expr) => {
        on!(@match $dtype, $T, $body,
            U8 = u8, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U32 = u32, F8E4M3 = ops_core::F8E4M3,
            F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (indices, $dtype:expr, $T:ident => $body:expr) => {
        on!(@match $dtype, $T, $body, U8 = u8, U32 = u32, I32 = i32, I64 = i64)
    };
    (blocks, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ops_core::DType::Block(info) if *info == ops_core::quant::Q4_0 => { type $T = ops_core::quant::BlockQ4_0; $body }
            ops_core::DType::Block(info) if *info == ops_core::quant::Q8_0 => { type $T = ops_core::quant::BlockQ8_0; $body }
            other => Err($crate::CallError::NotOffered(format!("{other} is not a block format of this build"))),
        }
    };
    (elements, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            block @ ops_core::DType::Block(_) => on!(blocks, block, $T => $body),
            scalar => on!(scalars, scalar, $T => $body),
        }
    };
    (@match $dtype:expr, $T:ident, $body:expr, $($name:ident = $t:ty),+) => {
        match $dtype {
            $(ops_core::DType::$name => { type $T = $t; $body })+
            other => Err($crate::CallError::NotOffered(format!("not offered in {other}"))),
        }
    };
}
pub(crate) use on;

use ops_core::DType;
use ops_core::quant::FORMATS;

/// The block formats.
pub(crate) fn block_types() -> impl Iterator<Item = DType> {
    FORMATS.into_iter().map(DType::Block)
}

/// The scalar types.
pub(crate) const SCALARS: [DType; 11] = [
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U32,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::F8E4M3,
];

/// The element type of this name.
pub(crate) fn parse(name: &str) -> Option<DType> {
    SCALARS.into_iter().chain(block_types()).find(|d| d.name() == name)
}
