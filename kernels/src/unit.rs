//! Units of compilation.
use crate::{ElementType, Family, Instance, instances, source};

/// The instances of one family for one set of element types: what a program compiles and loads at once, so that it
/// waits only for what it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    family: Family,
    types: &'static [ElementType],
}

impl Unit {
    /// The unit that holds an instance.
    pub fn of(instance: &'static Instance) -> Unit {
        // Casts are many and small.
        let types = match instance.family {
            Family::Cast => &instance.types[..1],
            _ => &instance.types[..],
        };
        Unit { family: instance.family, types }
    }

    /// Every unit, in order of the first of its instances.
    pub fn all() -> Vec<Unit> {
        let mut seen = std::collections::HashSet::new();
        instances().iter().map(Unit::of).filter(|unit| seen.insert(*unit)).collect()
    }

    /// Its source file's family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// A name that no other unit has: the family and the types, such as `norm-f16-f32`.
    pub fn name(&self) -> String {
        let types = self.types.iter().map(|t| t.name());
        std::iter::once(self.family.name()).chain(types).collect::<Vec<_>>().join("-")
    }

    /// Its instances.
    pub fn instances(&self) -> impl Iterator<Item = &'static Instance> {
        let unit = *self;
        instances().iter().filter(move |k| Unit::of(k) == unit)
    }

    /// Whether any of its instances can run on a target.
    pub fn runs_on(&self, target: &str) -> bool {
        self.instances().any(|k| k.runs_on(target))
    }

    /// Its translation unit for a target, see [`source::unit`].
    pub fn text(&self, target: &str) -> String {
        source::unit(self.family, self.instances().filter(|k| k.runs_on(target)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_instance_is_in_one_unit_and_names_differ() {
        let units = Unit::all();
        let names: HashSet<String> = units.iter().map(Unit::name).collect();
        assert_eq!(names.len(), units.len());
        assert_eq!(units.iter().map(|u| u.instances().count()).sum::<usize>(), instances().len());
        assert!(names.contains("norm-f16-f32") && names.contains("cast-bf16"));
    }
}
