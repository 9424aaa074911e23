//! Problems for which a vendor library is known to give wrong results.
use crate::ProviderId;
use hip_sys::loader::Version;
use ops_core::{DType, Layout, Operands, Reason, Role};

/// A set of problems for which a library is not used, because its results were found to be wrong.
///
/// An unknown version counts as affected: a slow correct result is better than a fast wrong one.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Denial {
    /// The library.
    pub library: ProviderId,
    /// The ops; none means all.
    pub ops: &'static [&'static str],
    /// The architectures; none means all.
    pub gfx: &'static [&'static str],
    /// The first affected version of the library itself, not of ROCm or HIP.
    pub since: Option<Version>,
    /// The first version of the library that has the fix.
    pub until: Option<Version>,
    /// Element types of the first operand.
    pub dtypes: &'static [DType],
    /// Only problems in which an extent, or the product of all extents but the last, exceeds this; 0 means
    /// all problems.
    pub extent_above: usize,
    /// Only problems with an output of more bytes than this, unless it is 0.
    pub output_above: usize,
    /// What happens.
    pub what: &'static str,
    /// Where it was reported.
    pub report: &'static str,
}

impl Denial {
    fn affects(&self, on: &Installed<'_>) -> bool {
        (self.gfx.is_empty() || self.gfx.contains(&on.gfx))
            && self.since.is_none_or(|since| on.version.is_none_or(|version| version >= since))
            && self.until.is_none_or(|until| on.version.is_none_or(|version| version < until))
    }
}

/// The device that a library runs on, and the library's version if it is known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Installed<'t> {
    pub(crate) gfx: &'t str,
    pub(crate) version: Option<Version>,
}

/// Checks that none of these denials covers a problem on an architecture with this version of the library.
///
/// # Errors
/// The denial, with its report.
pub(crate) fn denied(
    denials: &[Denial],
    installed: Installed<'_>,
    op: &str,
    on: &dyn Operands,
) -> Result<(), Reason> {
    let Some(first) = on.iter().next() else { return Ok(()) };
    // Libraries may treat the leading axes as one.
    let rows = |layout: &Layout| layout.len() / layout.last().max(1);
    let extents = on.iter().flat_map(|o| o.layout.dims().iter().copied().chain([rows(o.layout)]));
    let extent = extents.max().unwrap_or(0);
    let outputs =
        on.iter().filter(|o| o.role != Role::In).map(|o| o.layout.len().saturating_mul(o.dtype.size()));
    let output = outputs.max().unwrap_or(0);
    let hit = |denial: &&Denial| {
        (denial.ops.is_empty() || denial.ops.contains(&op))
            && denial.dtypes.contains(&first.dtype)
            && (denial.extent_above == 0 || extent > denial.extent_above)
            && (denial.output_above == 0 || output > denial.output_above)
            && denial.affects(&installed)
    };
    match denials.iter().find(hit) {
        Some(Denial { what, report, .. }) => Err(Reason::Because(format!("{what} ({report})"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HipBlasLtLibrary, MiOpenLibrary, RocBlasLibrary, Vendor};
    use super::*;
    use ops_core::Operand;

    /// A product whose operand of this type, layout and role has rows of eight.
    struct Product(DType, Layout, Role);
    impl Operands for Product {
        fn count(&self) -> usize {
            1
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            (index == 0).then_some(Operand {
                name: "a",
                role: self.2,
                dtype: self.0,
                layout: &self.1,
                packing: None,
            })
        }
    }

    fn denied_by(version: Option<Version>, gfx: &str, dtype: DType, rows: usize) -> bool {
        let product = Product(dtype, Layout::contiguous(&[rows, 8]).unwrap(), Role::In);
        let installed = Installed { gfx, version };
        denied(RocBlasLibrary::DENIALS, installed, "matmul", &product).is_err()
    }

    /// With the rocBLAS of ROCm 7.2.
    fn denied_on(gfx: &str, dtype: DType, rows: usize) -> bool {
        denied_by(version(5, 2, 4), gfx, dtype, rows)
    }

    fn version(major: u32, minor: u32, patch: u32) -> Option<Version> {
        Some(Version::new(major, minor, patch))
    }

    fn miopen_denied(version: Option<Version>, op: &str, dtype: DType) -> bool {
        let installed = Installed { gfx: "gfx1100", version };
        let x = Product(dtype, Layout::contiguous(&[2, 8]).unwrap(), Role::In);
        denied(MiOpenLibrary::DENIALS, installed, op, &x).is_err()
    }

    #[test]
    fn a_denial_holds_for_the_librarys_own_versions() {
        let softmax = |library| miopen_denied(library, "softmax", DType::F32);
        assert!(!softmax(version(3, 0, 0)));
        assert!(softmax(version(3, 1, 0)));
        assert!(!softmax(version(3, 2, 0)));
        assert!(softmax(None), "an unknown version counts as affected");
        let rope = |library| miopen_denied(library, "rope_i", DType::BF16);
        assert!(rope(version(3, 5, 1)) && !rope(version(3, 5, 2)));
        assert!(!miopen_denied(version(3, 3, 0), "rope_i", DType::F16));
        assert!(miopen_denied(version(3, 2, 0), "rope_i", DType::F16), "it has no rope");
    }

    #[test]
    fn products_are_denied_by_rocblas_own_version() {
        // ROCm 7.12 has HIP 7.3 and rocBLAS 5.3; ROCm 7.13 has rocBLAS 5.4.
        let split = |rocblas| denied_by(rocblas, "gfx950", DType::BF16, 4);
        assert!(!split(version(5, 2, 0)) && split(version(5, 3, 0)) && split(version(5, 5, 0)));
        let bf16 = |rocblas| denied_by(rocblas, "gfx1100", DType::BF16, 4);
        assert!(bf16(version(5, 3, 0)) && !bf16(version(5, 4, 0)) && bf16(None));
        let f32 = |rocblas| denied_by(rocblas, "gfx1151", DType::F32, 4);
        assert!(!f32(version(5, 0, 0)) && f32(version(5, 1, 1)) && !f32(version(5, 2, 0)));
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

    #[test]
    fn a_denial_may_hold_for_large_outputs_only() {
        let denied_for = |rows, role| {
            let product = Product(DType::F16, Layout::contiguous(&[rows, 8]).unwrap(), role);
            let installed = Installed { gfx: "gfx950", version: version(1, 2, 0) };
            denied(HipBlasLtLibrary::DENIALS, installed, "matmul", &product).is_err()
        };
        assert!(denied_for(1 << 27, Role::Out) && !denied_for((1 << 27) - 1, Role::Out));
        assert!(!denied_for(1 << 27, Role::In));
    }
}
