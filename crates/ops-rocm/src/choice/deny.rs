//! Where AMD's libraries are known to give wrong results: data, with the reports it stands on.
use super::{ProviderId, Target};
use hip_sys::loader::Version;
use ops_core::{DType, Layout, Operands, Reason};

/// A corner in which a library is not used, because it was found wrong there.
///
/// A version of ROCm that is not known counts as affected: a slower right result is better than a fast wrong one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denial {
    /// The library.
    pub library: ProviderId,
    /// The ops; none means all.
    pub ops: &'static [&'static str],
    /// The architectures; none means all.
    pub gfx: &'static [&'static str],
    /// The first version of ROCm that is affected.
    pub since: Option<Version>,
    /// The first version of ROCm that is not any more.
    pub until: Option<Version>,
    /// Element types of the first operand.
    pub dtypes: &'static [DType],
    /// Only where an operand has an extent, or leading extents together, above this.
    pub extent_above: usize,
    /// What happens.
    pub what: &'static str,
    /// Who found it.
    pub report: &'static str,
}

const PRODUCTS: &[&str] = &["matmul", "linear"];

const fn rocm(major: u32, minor: u32) -> Option<Version> {
    Some(Version::new(major, minor, 0))
}

const DENIALS: &[Denial] = &[
    Denial {
        library: ProviderId::MIOPEN,
        ops: &["softmax", "log_softmax"],
        gfx: &[],
        since: None,
        until: None,
        dtypes: &[DType::BF16, DType::F64],
        extent_above: 0,
        what: "MIOpen's softmax reads them as f32",
        report: "the kernel source of MIOpen 3.4 and 3.5",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1100"],
        since: None,
        until: rocm(7, 13),
        dtypes: &[DType::BF16],
        extent_above: 0,
        what: "wrong bf16 products on gfx1100",
        report: "pytorch/pytorch#189394",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx950"],
        since: rocm(7, 12),
        until: None,
        dtypes: &[DType::BF16],
        extent_above: 0,
        what: "NaN in bf16 products that are split along k on gfx950",
        report: "ROCm/rocm-libraries#9055",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1151"],
        since: rocm(7, 1),
        until: rocm(7, 2),
        dtypes: &[DType::F32],
        extent_above: 0,
        what: "wrong f32 products on gfx1151",
        report: "ROCm/rocBLAS#1680",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1201"],
        since: rocm(7, 1),
        until: None,
        dtypes: &[DType::F64],
        extent_above: 1_000_000,
        what: "wrong f64 products of more than two million rows on gfx1201",
        report: "ROCm/rocm-libraries#8645",
    },
    Denial {
        library: ProviderId::ROCBLAS,
        ops: PRODUCTS,
        gfx: &["gfx1201"],
        since: rocm(7, 2),
        until: None,
        dtypes: &[DType::F32],
        extent_above: 1 << 19,
        what: "wrong f32 products of more than 2^19 rows on gfx1201",
        report: "ROCm/legacy-rocm-build#6595",
    },
];

/// Everything that is denied.
pub fn denials() -> &'static [Denial] {
    DENIALS
}

/// Whether a library may be trusted with a problem.
///
/// # Errors
/// The denial, with the report it stands on.
pub(crate) fn denied(
    target: &Target,
    library: ProviderId,
    op: &str,
    on: &dyn Operands,
) -> Result<(), Reason> {
    let Some(first) = on.iter().next() else { return Ok(()) };
    // Leading axes may be one axis to the library.
    let rows = |layout: &Layout| layout.len() / layout.last().max(1);
    let extents = on.iter().flat_map(|o| o.layout.dims().iter().copied().chain([rows(o.layout)]));
    let extent = extents.max().unwrap_or(0);
    let hit = |denial: &&Denial| {
        (denial.ops.is_empty() || denial.ops.contains(&op))
            && denial.dtypes.contains(&first.dtype)
            && extent > denial.extent_above
            && target.matches(denial, library)
    };
    match DENIALS.iter().find(hit) {
        Some(Denial { what, report, .. }) => Err(Reason::Because(format!("{what} ({report})"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hip::Gfx;
    use ops_core::{Operand, Role};

    struct Product(DType, Layout);
    impl Operands for Product {
        fn count(&self) -> usize {
            1
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            (index == 0).then_some(Operand {
                name: "a",
                role: Role::In,
                dtype: self.0,
                layout: &self.1,
                packing: None,
            })
        }
    }

    fn denied_on(gfx: &str, dtype: DType, rows: usize) -> bool {
        let target = Target::assumed(Gfx::parse(gfx).unwrap());
        let product = Product(dtype, Layout::contiguous(&[rows, 8]).unwrap());
        denied(&target, ProviderId::ROCBLAS, "matmul", &product).is_err()
    }

    #[test]
    fn a_denial_holds_for_its_architecture_version_type_and_size() {
        assert!(denied_on("gfx1100", DType::BF16, 4));
        assert!(!denied_on("gfx1101", DType::BF16, 4));
        assert!(!denied_on("gfx1100", DType::F16, 4));
        assert!(!denied_on("gfx1151", DType::F32, 4), "7.2 is not affected");
        assert!(!denied_on("gfx1201", DType::F64, 1_000_000));
        assert!(denied_on("gfx1201", DType::F64, 1_000_001));
    }
}
