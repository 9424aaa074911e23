//! Element types, as spelled in kernel names and sources.

/// A GGUF block format: the properties that launches need. Unpacking is defined in `ops_blocks.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BlockFormat {
    /// 32 four-bit values with one scale.
    Q4_0,
    /// 32 eight-bit values with one scale.
    Q8_0,
    /// 32 four-bit values with a scale and a minimum.
    Q4_1,
    /// 32 five-bit values with one scale.
    Q5_0,
    /// 32 five-bit values with a scale and a minimum.
    Q5_1,
    /// 32 eight-bit values with one scale and their sum.
    Q8_1,
    /// 256 two-bit values, scales and minima for groups of 16.
    Q2K,
    /// 256 three-bit values, scales for groups of 16.
    Q3K,
    /// 256 four-bit values, scales and minima for groups of 32.
    Q4K,
    /// 256 five-bit values, scales and minima for groups of 32.
    Q5K,
    /// 256 six-bit values, scales for groups of 16.
    Q6K,
    /// 256 eight-bit values with one f32 scale.
    Q8K,
    /// 32 indices of sixteen levels with one scale.
    Iq4Nl,
    /// 256 indices of sixteen levels, scales for groups of 32.
    Iq4Xs,
    /// 32 four-bit floats with a power of two as their scale.
    Mxfp4,
    /// 256 values as entries of a grid, 2.06 bits each.
    Iq2Xxs,
    /// 256 values as entries of a grid, 2.31 bits each.
    Iq2Xs,
    /// 256 values as entries of a grid, 2.56 bits each.
    Iq2S,
    /// 256 values as entries of a grid, 3.06 bits each.
    Iq3Xxs,
    /// 256 values as entries of a grid, 3.44 bits each.
    Iq3S,
}

/// The properties of a block format.
struct Row {
    name: &'static str,
    in_source: &'static str,
    /// Number of values per block.
    values: u64,
    bytes: usize,
    /// Consecutive values that share a scale, `GROUP` in the source.
    group: u32,
    /// Whether groups have minima, `MIN` in the source.
    min: bool,
    kernels: Kernels,
    /// Whether a kernel can quantize to it.
    encodes: bool,
}

/// Which kernels a format has. Every format has those that decode, and a product for every type and number of
/// rows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernels {
    /// Every kernel, in every size.
    All,
    /// Products for the weights of models, in one size for many rows and, except for iq3_s, two for few.
    Products,
    /// Products without bytes and matrix units: for the formats of activations.
    Plain,
}

const fn row(
    name: &'static str,
    in_source: &'static str,
    (values, bytes): (u64, usize),
    (group, min): (u32, bool),
    kernels: Kernels,
) -> Row {
    Row { name, in_source, values, bytes, group, min, kernels, encodes: false }
}

impl Row {
    /// With a kernel that quantizes.
    const fn encoded(self) -> Row {
        Row { encodes: true, ..self }
    }
}

impl BlockFormat {
    /// All formats.
    pub const ALL: [BlockFormat; 20] = [
        BlockFormat::Q4_0,
        BlockFormat::Q8_0,
        BlockFormat::Q4_1,
        BlockFormat::Q5_0,
        BlockFormat::Q5_1,
        BlockFormat::Q8_1,
        BlockFormat::Q2K,
        BlockFormat::Q3K,
        BlockFormat::Q4K,
        BlockFormat::Q5K,
        BlockFormat::Q6K,
        BlockFormat::Q8K,
        BlockFormat::Iq4Nl,
        BlockFormat::Iq4Xs,
        BlockFormat::Mxfp4,
        BlockFormat::Iq2Xxs,
        BlockFormat::Iq2Xs,
        BlockFormat::Iq2S,
        BlockFormat::Iq3Xxs,
        BlockFormat::Iq3S,
    ];

    const fn row(self) -> Row {
        match self {
            BlockFormat::Q4_0 => row("q4_0", "Q4_0", (32, 18), (32, false), Kernels::All).encoded(),
            BlockFormat::Q8_0 => row("q8_0", "Q8_0", (32, 34), (32, false), Kernels::All).encoded(),
            BlockFormat::Q4_1 => row("q4_1", "Q4_1", (32, 20), (32, true), Kernels::Products).encoded(),
            BlockFormat::Q5_0 => row("q5_0", "Q5_0", (32, 22), (32, false), Kernels::Products).encoded(),
            BlockFormat::Q5_1 => row("q5_1", "Q5_1", (32, 24), (32, true), Kernels::Products).encoded(),
            BlockFormat::Q8_1 => row("q8_1", "Q8_1", (32, 36), (32, false), Kernels::Plain),
            BlockFormat::Q2K => row("q2_k", "Q2_K", (256, 84), (16, true), Kernels::Products),
            BlockFormat::Q3K => row("q3_k", "Q3_K", (256, 110), (16, false), Kernels::Products),
            BlockFormat::Q4K => row("q4_k", "Q4_K", (256, 144), (32, true), Kernels::Products),
            BlockFormat::Q5K => row("q5_k", "Q5_K", (256, 176), (32, true), Kernels::Products),
            BlockFormat::Q6K => row("q6_k", "Q6_K", (256, 210), (16, false), Kernels::Products),
            BlockFormat::Q8K => row("q8_k", "Q8_K", (256, 292), (32, false), Kernels::Plain),
            BlockFormat::Iq4Nl => row("iq4_nl", "IQ4_NL", (32, 18), (32, false), Kernels::Products),
            BlockFormat::Iq4Xs => row("iq4_xs", "IQ4_XS", (256, 136), (32, false), Kernels::Products),
            BlockFormat::Mxfp4 => row("mxfp4", "MXFP4", (32, 17), (32, false), Kernels::Products).encoded(),
            BlockFormat::Iq2Xxs => row("iq2_xxs", "IQ2_XXS", (256, 66), (32, false), Kernels::Products),
            BlockFormat::Iq2Xs => row("iq2_xs", "IQ2_XS", (256, 74), (16, false), Kernels::Products),
            BlockFormat::Iq2S => row("iq2_s", "IQ2_S", (256, 82), (16, false), Kernels::Products),
            BlockFormat::Iq3Xxs => row("iq3_xxs", "IQ3_XXS", (256, 98), (32, false), Kernels::Products),
            BlockFormat::Iq3S => row("iq3_s", "IQ3_S", (256, 110), (32, false), Kernels::Products),
        }
    }

    /// Number of values in a block.
    pub const fn values(self) -> u64 {
        self.row().values
    }

    /// Whether a kernel can quantize to it.
    pub const fn encodes(self) -> bool {
        self.row().encodes
    }

    pub(crate) const fn kernels(self) -> Kernels {
        self.row().kernels
    }

    /// Number of f32 that matrix kernels keep in LDS per line of a tile: factors, minima and sums for each group of a step.
    pub(crate) const fn scales_per_line(self) -> u32 {
        let Row { group, min, .. } = self.row();
        32 / group * if min { 3 } else { 1 }
    }
}

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
    /// A block of a GGUF format.
    Block(BlockFormat),
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
    pub const BLOCKS: [ElementType; BlockFormat::ALL.len()] = {
        let mut types = [U8; BlockFormat::ALL.len()];
        let mut at = 0;
        while at < types.len() {
            types[at] = Block(BlockFormat::ALL[at]);
            at += 1;
        }
        types
    };
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
            Block(format) => format.row().name,
            B8 => "b8",
            B16 => "b16",
            B32 => "b32",
            B64 => "b64",
            B128 => "b128",
        }
    }

    /// The type's name in the kernel sources.
    pub(crate) const fn in_source(self) -> &'static str {
        match self {
            Block(format) => format.row().in_source,
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
            Block(format) => format.row().bytes,
        }
    }

    /// Number of values in an element: 1, except for blocks.
    pub const fn values(self) -> u64 {
        match self {
            Block(format) => format.values(),
            _ => 1,
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
