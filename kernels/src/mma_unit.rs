//! Kernels that test the operand layouts of the instructions of matrix units.
use crate::instances::{Needs, Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, Refused};

arguments! {
    /// Arguments of the kernels that test one instruction: d = a b + c.
    pub struct MmaUnitArgs {
        pub a: u64,
        pub b: u64,
        pub c: u64,
        pub d: u64,
    }
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
/// and `d` are f32, or i32 for products of i8. `size` is 16, or also 32 with MFMA. The depth is [`Matrix::depth`](crate::Matrix::depth).
pub fn prepare_unit(t: ElementType, size: u64, device: &Device) -> Result<Launch, Refused> {
    let variant = match (device.matrix, size) {
        (Some(_), 16) => "16",
        (Some(matrix), 32) if matrix.is_mfma() => "32",
        _ => return Err(Refused::NoKernel { op: "mma_unit".into(), types: vec![t] }),
    };
    Ok(Launch::over(need("mma_unit", variant, &[t])?, 1, 1, 1))
}
