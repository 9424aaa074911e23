//! The element types of tensors, in one table.

use std::fmt;

/// The type of a tensor's elements, identified by its number in the file.
///
/// Elements are stored in blocks: `len` elements in `bytes` bytes. Plain types have blocks of one element. Numbers that this
/// crate does not know are preserved, so that a file with one unknown type can still be listed; the size of such a tensor is
/// unknown and its data is not accessible.
///
/// ```
/// use ops_gguf::GgmlType;
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
    pub const Q4_0: Self = Self(2);
    pub const Q4_1: Self = Self(3);
    pub const Q5_0: Self = Self(6);
    pub const Q5_1: Self = Self(7);
    pub const Q8_0: Self = Self(8);
    pub const Q8_1: Self = Self(9);
    pub const Q2_K: Self = Self(10);
    pub const Q3_K: Self = Self(11);
    pub const Q4_K: Self = Self(12);
    pub const Q5_K: Self = Self(13);
    pub const Q6_K: Self = Self(14);
    pub const Q8_K: Self = Self(15);
    pub const IQ2_XXS: Self = Self(16);
    pub const IQ2_XS: Self = Self(17);
    pub const IQ3_XXS: Self = Self(18);
    pub const IQ1_S: Self = Self(19);
    pub const IQ4_NL: Self = Self(20);
    pub const IQ3_S: Self = Self(21);
    pub const IQ2_S: Self = Self(22);
    pub const IQ4_XS: Self = Self(23);
    pub const I8: Self = Self(24);
    pub const I16: Self = Self(25);
    pub const I32: Self = Self(26);
    pub const I64: Self = Self(27);
    pub const F64: Self = Self(28);
    pub const IQ1_M: Self = Self(29);
    pub const BF16: Self = Self(30);
    pub const TQ1_0: Self = Self(34);
    pub const TQ2_0: Self = Self(35);
    pub const MXFP4: Self = Self(39);
    pub const NVFP4: Self = Self(40);
    pub const Q1_0: Self = Self(41);
}

/// Numbers 4, 5, 31 to 33 and 36 to 38 belonged to types that have been withdrawn from the format.
///
/// q8_1 exists in two forms: 36 bytes with two f16, which the C library computes with, and 40 bytes with two f32, which is
/// older. It is a format for activations and does not occur in files; the table has the C library's size.
const TABLE: &[Row] = &[
    row(GgmlType::F32, "f32", 1, 4),
    row(GgmlType::F16, "f16", 1, 2),
    row(GgmlType::Q4_0, "q4_0", 32, 18),
    row(GgmlType::Q4_1, "q4_1", 32, 20),
    row(GgmlType::Q5_0, "q5_0", 32, 22),
    row(GgmlType::Q5_1, "q5_1", 32, 24),
    row(GgmlType::Q8_0, "q8_0", 32, 34),
    row(GgmlType::Q8_1, "q8_1", 32, 36),
    row(GgmlType::Q2_K, "q2_k", 256, 84),
    row(GgmlType::Q3_K, "q3_k", 256, 110),
    row(GgmlType::Q4_K, "q4_k", 256, 144),
    row(GgmlType::Q5_K, "q5_k", 256, 176),
    row(GgmlType::Q6_K, "q6_k", 256, 210),
    row(GgmlType::Q8_K, "q8_k", 256, 292),
    row(GgmlType::IQ2_XXS, "iq2_xxs", 256, 66),
    row(GgmlType::IQ2_XS, "iq2_xs", 256, 74),
    row(GgmlType::IQ3_XXS, "iq3_xxs", 256, 98),
    row(GgmlType::IQ1_S, "iq1_s", 256, 50),
    row(GgmlType::IQ4_NL, "iq4_nl", 32, 18),
    row(GgmlType::IQ3_S, "iq3_s", 256, 110),
    row(GgmlType::IQ2_S, "iq2_s", 256, 82),
    row(GgmlType::IQ4_XS, "iq4_xs", 256, 136),
    row(GgmlType::I8, "i8", 1, 1),
    row(GgmlType::I16, "i16", 1, 2),
    row(GgmlType::I32, "i32", 1, 4),
    row(GgmlType::I64, "i64", 1, 8),
    row(GgmlType::F64, "f64", 1, 8),
    row(GgmlType::IQ1_M, "iq1_m", 256, 56),
    row(GgmlType::BF16, "bf16", 1, 2),
    row(GgmlType::TQ1_0, "tq1_0", 256, 54),
    row(GgmlType::TQ2_0, "tq2_0", 256, 66),
    row(GgmlType::MXFP4, "mxfp4", 32, 17),
    row(GgmlType::NVFP4, "nvfp4", 64, 36),
    row(GgmlType::Q1_0, "q1_0", 128, 18),
];

impl GgmlType {
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
            (Some(name), _) => f.write_str(name),
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
