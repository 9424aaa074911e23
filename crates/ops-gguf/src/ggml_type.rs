//! The element types of tensors, in one table.

use ops_core::{BlockInfo, quant};
use std::fmt;
use std::sync::LazyLock;

/// The type of a tensor's elements, identified by its number in the file.
///
/// Elements are stored in blocks: `len` elements in `bytes` bytes. Plain types have blocks of one element. Numbers that this
/// crate does not know are preserved, so that a file with one unknown type can still be listed; the size of such a tensor is
/// unknown and its data is not accessible.
///
/// ```
/// use rocm_ops::gguf::GgmlType;
///
/// assert_eq!(GgmlType::Q8_0.name(), Some("q8_0"));
/// assert_eq!(GgmlType::from_name("q4_k"), Some(GgmlType::Q4_K));
/// let block = GgmlType::Q8_0.block().unwrap();
/// assert_eq!((block.len, block.bytes), (32, 34));
/// assert!(GgmlType(4711).block().is_none());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GgmlType(
    /// The number in the file.
    pub u32,
);

/// The memory layout of a [`GgmlType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Elements per block.
    pub len: usize,
    /// Bytes per block.
    pub bytes: usize,
}

#[derive(Clone, Copy)]
struct Row {
    ty: GgmlType,
    name: &'static str,
    len: usize,
    bytes: usize,
}

const fn row(ty: GgmlType, name: &'static str, len: usize, bytes: usize) -> Row {
    Row { ty, name, len, bytes }
}

#[allow(missing_docs)] // the names are the documentation
impl GgmlType {
    pub const F32: Self = Self(0);
    pub const F16: Self = Self(1);
    pub const Q4_0: Self = Self::of_format(&quant::Q4_0);
    pub const Q4_1: Self = Self::of_format(&quant::Q4_1);
    pub const Q5_0: Self = Self::of_format(&quant::Q5_0);
    pub const Q5_1: Self = Self::of_format(&quant::Q5_1);
    pub const Q8_0: Self = Self::of_format(&quant::Q8_0);
    pub const Q8_1: Self = Self::of_format(&quant::Q8_1);
    pub const Q2_K: Self = Self::of_format(&quant::Q2_K);
    pub const Q3_K: Self = Self::of_format(&quant::Q3_K);
    pub const Q4_K: Self = Self::of_format(&quant::Q4_K);
    pub const Q5_K: Self = Self::of_format(&quant::Q5_K);
    pub const Q6_K: Self = Self::of_format(&quant::Q6_K);
    pub const Q8_K: Self = Self::of_format(&quant::Q8_K);
    pub const IQ2_XXS: Self = Self::of_format(&quant::IQ2_XXS);
    pub const IQ2_XS: Self = Self::of_format(&quant::IQ2_XS);
    pub const IQ3_XXS: Self = Self::of_format(&quant::IQ3_XXS);
    pub const IQ1_S: Self = Self(19);
    pub const IQ4_NL: Self = Self::of_format(&quant::IQ4_NL);
    pub const IQ3_S: Self = Self::of_format(&quant::IQ3_S);
    pub const IQ2_S: Self = Self::of_format(&quant::IQ2_S);
    pub const IQ4_XS: Self = Self::of_format(&quant::IQ4_XS);
    pub const I8: Self = Self(24);
    pub const I16: Self = Self(25);
    pub const I32: Self = Self(26);
    pub const I64: Self = Self(27);
    pub const F64: Self = Self(28);
    pub const IQ1_M: Self = Self(29);
    pub const BF16: Self = Self(30);
    pub const TQ1_0: Self = Self(34);
    pub const TQ2_0: Self = Self(35);
    pub const MXFP4: Self = Self::of_format(&quant::MXFP4);
    pub const NVFP4: Self = Self(40);
    pub const Q1_0: Self = Self(41);
}

/// All types, by number: those of `ops-core`'s block formats, and [`OTHERS`].
///
/// q8_1 exists in two forms: 36 bytes with two f16, which the C library computes with, and 40 bytes with two f32, which is
/// older. It is a format for activations and does not occur in files; the table has the C library's size.
static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let formats = quant::FORMATS.iter().filter(|format| format.ggml().is_some());
    let formats = formats.map(|f| row(GgmlType::of_format(f), f.name(), f.values(), f.bytes()));
    let mut table: Vec<Row> = formats.chain(OTHERS.iter().copied()).collect();
    table.sort_by_key(|row| row.ty);
    table
});

/// The types that are no block formats of `ops-core`.
///
/// Numbers 4, 5, 31 to 33 and 36 to 38 belonged to types that have been withdrawn from the format.
const OTHERS: &[Row] = &[
    row(GgmlType::F32, "f32", 1, 4),
    row(GgmlType::F16, "f16", 1, 2),
    row(GgmlType::IQ1_S, "iq1_s", 256, 50),
    row(GgmlType::I8, "i8", 1, 1),
    row(GgmlType::I16, "i16", 1, 2),
    row(GgmlType::I32, "i32", 1, 4),
    row(GgmlType::I64, "i64", 1, 8),
    row(GgmlType::F64, "f64", 1, 8),
    row(GgmlType::IQ1_M, "iq1_m", 256, 56),
    row(GgmlType::BF16, "bf16", 1, 2),
    row(GgmlType::TQ1_0, "tq1_0", 256, 54),
    row(GgmlType::TQ2_0, "tq2_0", 256, 66),
    row(GgmlType::NVFP4, "nvfp4", 64, 36),
    row(GgmlType::Q1_0, "q1_0", 128, 18),
];

impl GgmlType {
    /// The type of a format that has a number.
    const fn of_format(format: &BlockInfo) -> Self {
        match format.ggml() {
            Some(number) => Self(number),
            None => panic!("a block format without GGML's number"),
        }
    }

    /// The block format, if `ops-core` has it.
    pub(crate) fn format(self) -> Option<&'static BlockInfo> {
        quant::FORMATS.iter().copied().find(|format| format.ggml() == Some(self.0))
    }

    /// All types in the table.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        TABLE.iter().map(|r| r.ty)
    }

    /// The type's name in lower case, such as "q4_k"; `None` if the number is not in the table.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|r| r.name)
    }

    /// The type with this lower-case name.
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|r| r.name == name).map(|r| r.ty)
    }

    /// Elements and bytes per block; `None` if the number is not in the table.
    pub fn block(self) -> Option<Block> {
        self.row().map(|r| Block { len: r.len, bytes: r.bytes })
    }

    /// Whether the type packs several elements into a block.
    pub fn is_quantized(self) -> bool {
        self.block().is_some_and(|b| b.len > 1)
    }

    fn row(self) -> Option<&'static Row> {
        TABLE.iter().find(|r| r.ty == self)
    }

    /// The type with elements of type `T`, for the plain Rust types that GGML has.
    pub(crate) fn of<T: 'static>() -> Option<Self> {
        use std::any::TypeId;
        let t = TypeId::of::<T>();
        let plain = [
            (TypeId::of::<f32>(), Self::F32),
            (TypeId::of::<f64>(), Self::F64),
            (TypeId::of::<half::f16>(), Self::F16),
            (TypeId::of::<half::bf16>(), Self::BF16),
            (TypeId::of::<i8>(), Self::I8),
            (TypeId::of::<i16>(), Self::I16),
            (TypeId::of::<i32>(), Self::I32),
            (TypeId::of::<i64>(), Self::I64),
        ];
        plain.into_iter().find(|(id, _)| *id == t).map(|(_, ty)| ty)
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.0) {
            (Some(name), _) => f.pad(name),
            (None, 4 | 5 | 31..=33 | 36..=38) => write!(f, "type {} (withdrawn from the format)", self.0),
            (None, n) => write!(f, "type {n} (unknown)"),
        }
    }
}

impl fmt::Debug for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        for (i, a) in TABLE.iter().enumerate() {
            for b in &TABLE[i + 1..] {
                assert_ne!(a.ty.0, b.ty.0, "{} and {}", a.name, b.name);
                assert_ne!(a.name, b.name);
            }
            assert_eq!(GgmlType::from_name(a.name), Some(a.ty));
        }
    }

    #[test]
    fn withdrawn_and_unknown_numbers_have_no_size() {
        for id in [4, 5, 31, 32, 33, 36, 37, 38, 42, u32::MAX] {
            assert_eq!(GgmlType(id).block(), None, "{id}");
        }
        assert!(GgmlType(31).to_string().contains("withdrawn"));
        assert!(GgmlType(999).to_string().contains("unknown"));
    }
}
