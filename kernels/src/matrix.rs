//! Matrix units.
use crate::ElementType;

/// The matrix units of an architecture, classified by operand layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Matrix {
    /// WMMA of gfx11. Both halves of a wave hold every operand.
    Wmma11,
    /// WMMA of gfx12.
    Wmma12,
    /// MFMA of gfx90a. Flushes subnormal f16 inputs to zero. Also used for gfx908, whose bf16 instructions
    /// are half as deep and are issued in pairs.
    Mfma90a,
    /// MFMA of gfx940 and later. Its byte products are deeper.
    Mfma940,
}

impl Matrix {
    /// All kinds of matrix units.
    pub const ALL: [Matrix; 4] = [Matrix::Wmma11, Matrix::Wmma12, Matrix::Mfma90a, Matrix::Mfma940];

    /// Value of the `OPS_MATRIX` define.
    pub(crate) const fn define(self) -> u32 {
        match self {
            Matrix::Wmma11 => 11,
            Matrix::Wmma12 => 12,
            Matrix::Mfma90a => 90,
            Matrix::Mfma940 => 94,
        }
    }

    /// The wave size that kernels for these units are compiled for.
    pub const fn wave(self) -> u32 {
        if self.is_mfma() { 64 } else { 32 }
    }

    /// Whether these units are MFMA, which also has 32 × 32 products.
    pub const fn is_mfma(self) -> bool {
        matches!(self, Matrix::Mfma90a | Matrix::Mfma940)
    }

    /// The name of the instructions.
    pub const fn name(self) -> &'static str {
        if self.is_mfma() { "MFMA" } else { "WMMA" }
    }

    /// Number of elements of type `t` along k that one instruction of a `size` × `size` product consumes.
    pub const fn depth(self, t: ElementType, size: u64) -> u64 {
        match (self, t) {
            (Matrix::Wmma11 | Matrix::Wmma12, _) => 16,
            (Matrix::Mfma940, ElementType::I8) => 512 / size,
            _ => 256 / size,
        }
    }
}
