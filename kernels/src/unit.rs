//! Compilation units.
use crate::{ElementType, Family, Instance, instances, source};

/// FNV-1a with 128 bits.
const FNV_OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const FNV_PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// The instances of one part of a family for one set of element types. A program compiles and loads a whole
/// unit at once, so it waits only for the types that it uses. Families are divided if a model uses only some
/// of the kernels: a decoder has one kind of norm, and heads of one size. They are not divided further,
/// because hipRTC takes 0.15 s for a unit before its first kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    family: Family,
    part: &'static str,
    types: &'static [ElementType],
}

impl Unit {
    /// The unit that contains an instance.
    pub fn of(instance: &'static Instance) -> Unit {
        // Casts are many and small, so one unit holds all casts from a type.
        let types = match instance.family {
            Family::Cast => &instance.types[..1],
            _ => &instance.types[..],
        };
        Unit { family: instance.family, part: instance.part, types }
    }

    /// All units, ordered by their first instance.
    pub fn all() -> Vec<Unit> {
        let mut seen = std::collections::HashSet::new();
        instances().iter().map(Unit::of).filter(|unit| seen.insert(*unit)).collect()
    }

    /// The family of the unit's source file.
    pub fn family(&self) -> Family {
        self.family
    }

    /// A unique name that consists of the family, its part and the types, such as `norm-rms-wave-f16-f32` or
    /// `cast-bf16`.
    pub fn name(&self) -> String {
        let part = Some(self.part).filter(|part| !part.is_empty());
        let types = self.types.iter().map(|t| t.name());
        std::iter::once(self.family.name()).chain(part).chain(types).collect::<Vec<_>>().join("-")
    }

    /// The unit's instances.
    pub fn instances(&self) -> impl Iterator<Item = &'static Instance> {
        let unit = *self;
        instances().iter().filter(move |k| Unit::of(k) == unit)
    }

    /// Whether any of the unit's instances can run on a target.
    pub fn runs_on(&self, target: &str) -> bool {
        self.instances().any(|k| k.runs_on(target))
    }

    /// The name of the unit's code object for a target among those of all targets, compilers and versions of the sources: it has the
    /// fingerprint of what the object is made of. `compiler` is what `clang --version` prints, trimmed. `None` for an unknown target.
    pub fn object_name(&self, compiler: &str, target: &str) -> Option<String> {
        let flags = source::clang_options(target)?.join("\n");
        let mut hash = FNV_OFFSET;
        for part in [compiler, &flags, &self.text(target)] {
            // A zero ends each part, so that two parts are not taken for one.
            for byte in part.bytes().chain([0]) {
                hash = (hash ^ u128::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        Some(format!("{}-{target}-{hash:032x}.hsaco", self.name()))
    }

    /// The unit's translation unit for a target; see [`source::unit`].
    pub fn text(&self, target: &str) -> String {
        source::unit_for(self.family, self.instances().filter(|k| k.runs_on(target)), target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_name_of_an_object_says_what_it_is_made_of() {
        let unit = Unit::all()[0];
        let name = unit.object_name("clang 19", "gfx90a").unwrap();
        assert_eq!(unit.object_name("clang 19", "gfx90a").as_ref(), Some(&name));
        assert!(name.starts_with(&format!("{}-gfx90a-", unit.name())) && name.ends_with(".hsaco"), "{name}");
        assert_ne!(unit.object_name("clang 20", "gfx90a").as_ref(), Some(&name));
        assert_ne!(unit.object_name("clang 19", "gfx942").as_ref(), Some(&name));
        assert_eq!(unit.object_name("clang 19", "gfx1"), None);
    }

    #[test]
    fn every_instance_is_in_one_unit_and_names_differ() {
        let units = Unit::all();
        let names: HashSet<String> = units.iter().map(Unit::name).collect();
        assert_eq!(names.len(), units.len());
        assert_eq!(units.iter().map(|u| u.instances().count()).sum::<usize>(), instances().len());
        assert!(names.contains("norm-rms-wave-f16-f32") && names.contains("cast-bf16"));
    }
}
