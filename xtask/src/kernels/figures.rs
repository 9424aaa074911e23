//! The figures of one kernel on one target, and which of them are faults.
use ops_kernels::{Instance, by_symbol};
use std::collections::BTreeMap;

/// What a compiler reports for one kernel on one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) vgprs: u32,
    pub(super) sgprs: u32,
    pub(super) occupancy: u32,
    pub(super) lds: u32,
    pub(super) scratch: u32,
    /// Vector registers spilled to memory.
    pub(super) vector_spills: u32,
    /// Scalar registers spilled to lanes of a vector register.
    pub(super) scalar_spills: u32,
    /// FLAT memory instructions.
    pub(super) flat: u32,
    /// Number of instructions; 0 if they were not counted.
    pub(super) instructions: u32,
}

/// Figures by kernel, then by target.
pub(super) type Measured = BTreeMap<String, BTreeMap<String, Figures>>;

impl Figures {
    pub(super) fn cell(&self) -> String {
        format!("{}/{}/{}", self.vgprs, self.sgprs, self.occupancy)
    }

    /// Scratch, spills and FLAT instructions; empty if there are none.
    pub(super) fn flaws(&self) -> String {
        let counts = [
            (self.scratch, "bytes of scratch"),
            (self.vector_spills, "vector registers spilled"),
            (self.scalar_spills, "scalar registers spilled"),
            (self.flat, "FLAT instructions"),
        ];
        let found = counts.iter().filter(|(count, _)| *count > 0);
        found.map(|(count, of)| format!("{count} {of}")).collect::<Vec<_>>().join(", ")
    }

    /// Fails unless the metadata of the same object has the same figures. This compares two readers, and the occupancy that we
    /// compute with the compiler's.
    pub(super) fn check_metadata(&self, name: &str, target: &str, metadata: &Figures) -> Result<(), String> {
        // Metadata has the number of allocated registers: AGPRs begin at a multiple of four, and those of
        // gfx908 are not added.
        let block = by_symbol(name).map_or(0, |k| k.block);
        let vgprs_agree = if target == "gfx908" {
            metadata.vgprs <= self.vgprs
        } else {
            (self.vgprs..self.vgprs + 4).contains(&metadata.vgprs)
        };
        let expected = Figures { vgprs: metadata.vgprs, flat: metadata.flat, ..self.clone() };
        if vgprs_agree && expected == *metadata {
            return Ok(());
        }
        Err(format!(
            "{name} on {target} (blocks of {block}): clang reports {self:?}, the metadata has {metadata:?}"
        ))
    }
}

/// A fault that a record does not excuse: spilled registers, scratch, FLAT instructions, wrong LDS size.
pub(super) fn fault(k: &Instance, target: &str, f: &Figures) -> Option<String> {
    let flaws = f.flaws();
    if !flaws.is_empty() {
        let advice = if f.flat > 0 {
            "; pointers in arguments are `Address`, and pointers to LDS are declared so"
        } else {
            ""
        };
        return Some(format!("{} on {target}: {flaws}{advice}", k.symbol));
    }
    (f.lds != k.lds).then(|| {
        format!("{} on {target}: {} bytes of LDS, but {} in the table of instances", k.symbol, f.lds, k.lds)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_scratch_flat_instructions_and_other_lds_are_faults() {
        let k = by_symbol("sigmoid_f16").unwrap();
        let clean = Figures { vgprs: 20, sgprs: 30, occupancy: 8, ..Figures::default() };
        assert_eq!(fault(k, "gfx90a", &clean), None);
        let spoiled = [
            Figures { scalar_spills: 1, ..clean.clone() },
            Figures { vector_spills: 1, ..clean.clone() },
            Figures { scratch: 4, ..clean.clone() },
            Figures { flat: 1, ..clean.clone() },
            Figures { lds: 16, ..clean },
        ];
        for f in spoiled {
            assert!(fault(k, "gfx90a", &f).is_some_and(|m| m.contains("sigmoid_f16 on gfx90a")), "{f:?}");
        }
    }

    #[test]
    fn metadata_that_differs_is_an_error() {
        let reported = Figures { vgprs: 22, sgprs: 30, occupancy: 8, ..Figures::default() };
        let check = |target, metadata: &Figures| reported.check_metadata("sigmoid_f16", target, metadata);
        assert_eq!(check("gfx90a", &reported), Ok(()));
        assert_eq!(check("gfx90a", &Figures { vgprs: 24, ..reported.clone() }), Ok(()));
        assert!(check("gfx90a", &Figures { vgprs: 21, ..reported.clone() }).is_err());
        assert!(check("gfx90a", &Figures { occupancy: 7, ..reported.clone() }).is_err());
        assert!(check("gfx90a", &Figures { scratch: 4, ..reported.clone() }).is_err());
    }
}
