//! Element types: groups of them, their names, and the way from a value to a type.
use ops_core::DType;
use ops_core::quant;

/// Element types that ops are offered in together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    /// f16, bf16, f32, f64.
    Floats,
    /// Floats and integers.
    Numbers,
    /// Numbers and f8e4m3.
    Scalars,
    /// Block formats.
    Blocks,
    /// Scalars and blocks.
    Elements,
    /// What may index.
    Indices,
    /// f32 alone.
    F32,
}

const Q4_0: DType = DType::Block(&quant::Q4_0);
const Q8_0: DType = DType::Block(&quant::Q8_0);

/// Everything, in the order of tables; the groups are runs of it but for `Indices`.
const ALL: [DType; 13] = [
    Q4_0,
    Q8_0,
    DType::F8E4M3,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::U8,
    DType::U32,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
];

impl Group {
    /// The types in it.
    pub(crate) fn members(self) -> &'static [DType] {
        const INDICES: [DType; 4] = [DType::U8, DType::U32, DType::I32, DType::I64];
        match self {
            Group::Floats => &ALL[9..],
            Group::Numbers => &ALL[3..],
            Group::Scalars => &ALL[2..],
            Group::Blocks => &ALL[..2],
            Group::Elements => &ALL,
            Group::Indices => &INDICES,
            Group::F32 => &ALL[11..12],
        }
    }
}

/// Every element type, in the order of tables: floats first.
pub(crate) fn columns() -> impl Iterator<Item = DType> {
    ALL[9..].iter().rev().chain(ALL[2..9].iter().rev()).chain(&ALL[..2]).copied()
}

/// The element type of this name.
pub(crate) fn parse(name: &str) -> Option<DType> {
    ALL.into_iter().find(|d| d.name() == name)
}

/// Names in a list, for messages.
pub(crate) fn names(types: &[DType]) -> String {
    types.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ")
}

/// Runs an expression with a type alias for what a [`DType`] names.
///
/// `with_type!(floats dtype, T => f::<T>())` is `f::<f32>()` for `DType::F32`, and so on for the
/// types of the [`Group`]; for any other it is `Err` with a text.
macro_rules! with_type {
    (floats $dtype:expr, $T:ident => $body:expr) => {
        with_type!(@match $dtype, $T, $body, F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (numbers $dtype:expr, $T:ident => $body:expr) => {
        with_type!(@match $dtype, $T, $body,
            I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U32 = u32,
            F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (scalars $dtype:expr, $T:ident => $body:expr) => {
        with_type!(@match $dtype, $T, $body,
            F8E4M3 = ops_core::F8E4M3, I8 = i8, I16 = i16, I32 = i32, I64 = i64, U8 = u8, U32 = u32,
            F16 = ops_core::f16, BF16 = ops_core::bf16, F32 = f32, F64 = f64)
    };
    (indices $dtype:expr, $T:ident => $body:expr) => {
        with_type!(@match $dtype, $T, $body, U8 = u8, U32 = u32, I32 = i32, I64 = i64)
    };
    (blocks $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            ops_core::DType::Block(info) if *info == ops_core::quant::Q4_0 => { type $T = ops_core::quant::BlockQ4_0; $body }
            ops_core::DType::Block(info) if *info == ops_core::quant::Q8_0 => { type $T = ops_core::quant::BlockQ8_0; $body }
            other => Err(format!("{other} is not a block format of this build").into()),
        }
    };
    (elements $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            block @ ops_core::DType::Block(_) => with_type!(blocks block, $T => $body),
            scalar => with_type!(scalars scalar, $T => $body),
        }
    };
    (@match $dtype:expr, $T:ident, $body:expr, $($name:ident = $t:ty),+) => {
        match $dtype {
            $(ops_core::DType::$name => { type $T = $t; $body })+
            other => Err(format!("{other} is not a type for this").into()),
        }
    };
}
pub(crate) use with_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_what_their_names_say() {
        assert!(Group::Floats.members().iter().all(|d| d.precision().is_some_and(|p| p > 4)));
        assert_eq!(Group::Floats.members().len(), 4);
        assert_eq!(names(Group::Blocks.members()), "q4_0, q8_0");
        assert_eq!(names(Group::F32.members()), "f32");
        assert_eq!(Group::Scalars.members().len(), Group::Elements.members().len() - 2);
        assert!(!Group::Numbers.members().contains(&DType::F8E4M3));
        assert_eq!(columns().count(), ALL.len());
    }

    #[test]
    fn sizes_are_those_of_the_types() {
        for dtype in ALL {
            let size: Result<usize, String> = with_type!(elements dtype, T => Ok(size_of::<T>()));
            assert_eq!(size, Ok(dtype.size()), "{dtype}");
        }
    }
}
