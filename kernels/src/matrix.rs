//! Matrix units, and kernels that test the operand layouts of their instructions.
use crate::instances::{Arguments, Needs, Table};
use crate::launch::need;
use crate::{Device, ElementType, Family, GfxTarget, Launch, Refused};

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

    /// The matrix units that kernels use on a target; `None` if it has none, or none that the sources support. Accepts
    /// feature suffixes such as `:xnack-`.
    pub fn of(target: &str) -> Option<Matrix> {
        GfxTarget::find(target)?.matrix
    }

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

/// Arguments of the kernels that test one instruction: d = a b + c.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct MmaUnitArgs {
    pub a: u64,
    pub b: u64,
    pub c: u64,
    pub d: u64,
}

impl Arguments for MmaUnitArgs {
    const NAME: &'static str = "MmaUnitArgs";
}

/// Types that matrix units multiply.
pub const TYPES: [ElementType; 3] = [ElementType::F16, ElementType::Bf16, ElementType::I8];

pub(crate) fn declare(table: &mut Table) {
    for t in TYPES {
        let lds = 2 * 32 * (32 * t.bytes() as u32 + 16);
        let mut unit = table.of::<MmaUnitArgs>(Family::MmaUnit, 64);
        unit.add_variant("mma_unit", "16", &[t], "mma_unit", &["16"], lds);
        let mut unit = table.of::<MmaUnitArgs>(Family::MmaUnit, 64).needs(Needs::Mfma);
        unit.add_variant("mma_unit", "32", &[t], "mma_unit", &["32"], lds);
    }
}

/// Prepares the kernel that tests one instruction: d\[size, size\] = a\[size, depth\] b\[depth, size\] + c, all row-major. `c`
/// and `d` are f32, or i32 for products of i8. `size` is 16, or also 32 with MFMA. The depth is [`Matrix::depth`].
pub fn prepare_unit(t: ElementType, size: u64, device: &Device) -> Result<Launch, Refused> {
    let variant = match (device.matrix, size) {
        (Some(_), 16) => "16",
        (Some(matrix), 32) if matrix.is_mfma() => "32",
        _ => return Err(Refused::NoKernel { op: "mma_unit".into(), types: vec![t] }),
    };
    Ok(Launch::over(need("mma_unit", variant, &[t])?, 1, 1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_units_that_the_sources_know_are_used() {
        assert_eq!(Matrix::of("gfx90a:sramecc+:xnack-"), Some(Matrix::Mfma90a));
        assert_eq!(Matrix::of("gfx1151"), Some(Matrix::Wmma11));
        assert_eq!(Matrix::of("gfx12-generic"), Some(Matrix::Wmma12));
        assert_eq!(Matrix::of("gfx1030"), None);
        assert_eq!(Matrix::of("gfx1250"), None, "its instructions are others");
        assert_eq!(Matrix::of("gfx908"), Some(Matrix::Mfma90a));
    }
}
