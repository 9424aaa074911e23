//! The order of element types in tables, and lists of their names.
use ops_core::DType;
pub(crate) use ops_core::ops::registry::Group;

/// Every element type in the order of table columns, floats first.
pub(crate) fn columns() -> impl Iterator<Item = DType> {
    let floats = Group::Floats.members();
    let others = Group::Scalars.members().iter().filter(|dtype| !floats.contains(dtype));
    floats.iter().rev().chain(others.rev()).chain(Group::Blocks.members()).copied()
}

/// Names as a list, for messages.
pub(crate) fn names(types: &[DType]) -> String {
    types.iter().map(|d| d.name()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_column() {
        let columns: Vec<_> = columns().collect();
        assert_eq!(columns.len(), Group::Elements.members().len());
        assert!(Group::Elements.members().iter().all(|dtype| columns.contains(dtype)));
        assert!(names(&columns).starts_with("f64, f32, bf16, f16, u32, u8, "));
        assert!(columns.ends_with(Group::Blocks.members()));
    }
}
