//! Element types, as spelled in kernel names and sources.

/// An element type of a kernel instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ElementType {
    U8,
    I8,
    I16,
    I32,
    I64,
    U32,
    F16,
    Bf16,
    F32,
    F64,
    F8E4M3,
    /// GGUF block of 32 4-bit values with one f16 scale.
    Q4_0,
    /// GGUF block of 32 8-bit values with one f16 scale.
    Q8_0,
    /// Any one-byte element, moved as bits.
    B8,
    /// Any two-byte element, moved as bits.
    B16,
    /// Any four-byte element, moved as bits.
    B32,
    /// Any eight-byte element, moved as bits.
    B64,
    /// Any sixteen-byte element, moved as bits.
    B128,
}

use ElementType::*;

impl ElementType {
    /// Floats that ops compute in.
    pub const FLOATS: [ElementType; 4] = [F16, Bf16, F32, F64];
    /// Integers.
    pub const INTS: [ElementType; 6] = [U8, I8, I16, I32, I64, U32];
    /// Index types.
    pub const INDICES: [ElementType; 4] = [U8, U32, I32, I64];
    /// Types that a cast reads or writes.
    pub const PLAIN: [ElementType; 11] = [U8, I8, I16, I32, I64, U32, F16, Bf16, F32, F64, F8E4M3];
    /// Block formats.
    pub const BLOCKS: [ElementType; 2] = [Q4_0, Q8_0];
    /// Pairs of a float type and the type of its weights or tables: its own, or f32 with 16-bit types.
    pub const WEIGHTED: [[ElementType; 2]; 6] =
        [[F16, F16], [F16, F32], [Bf16, Bf16], [Bf16, F32], [F32, F32], [F64, F64]];
    /// Types for elements that are moved as bits.
    pub const BITS: [ElementType; 4] = [B8, B16, B32, B64];

    /// The name in symbols, tables and messages.
    pub const fn name(self) -> &'static str {
        match self {
            U8 => "u8",
            I8 => "i8",
            I16 => "i16",
            I32 => "i32",
            I64 => "i64",
            U32 => "u32",
            F16 => "f16",
            Bf16 => "bf16",
            F32 => "f32",
            F64 => "f64",
            F8E4M3 => "f8e4m3",
            Q4_0 => "q4_0",
            Q8_0 => "q8_0",
            B8 => "b8",
            B16 => "b16",
            B32 => "b32",
            B64 => "b64",
            B128 => "b128",
        }
    }

    /// The element type with this name, including those that are moved as bits.
    pub fn named(name: &str) -> Option<ElementType> {
        Self::PLAIN.into_iter().chain(Self::BLOCKS).find(|dtype| dtype.name() == name)
    }

    /// The type's name in the kernel sources.
    pub(crate) const fn in_source(self) -> &'static str {
        match self {
            Q4_0 => "Q4_0",
            Q8_0 => "Q8_0",
            B8 => "u8",
            B16 => "u16",
            B32 => "u32",
            B64 => "u64",
            plain => plain.name(),
        }
    }

    /// Size of one element, or of one block, in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            U8 | I8 | F8E4M3 | B8 => 1,
            I16 | F16 | Bf16 | B16 => 2,
            I32 | U32 | F32 | B32 => 4,
            I64 | F64 | B64 => 8,
            B128 => 16,
            Q4_0 => 18,
            Q8_0 => 34,
        }
    }

    /// The type that moves elements of this size as bits, if there is one.
    pub const fn bits(self) -> Option<ElementType> {
        match self.bytes() {
            1 => Some(B8),
            2 => Some(B16),
            4 => Some(B32),
            8 => Some(B64),
            _ => None,
        }
    }
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
