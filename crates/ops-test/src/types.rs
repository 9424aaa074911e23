//! Element types.
use ops_core::DType;
use ops_core::ops::registry::Group;

/// The types of a group as an array, so that cases can loop over it.
pub(crate) const fn array<const N: usize>(group: Group) -> [DType; N] {
    match group.members().first_chunk() {
        Some(types) => *types,
        None => panic!("a group has fewer types"),
    }
}

/// The scalar types.
pub(crate) const SCALARS: [DType; Group::Scalars.members().len()] = array(Group::Scalars);

/// The block formats.
pub(crate) fn block_types() -> impl Iterator<Item = DType> {
    Group::Blocks.members().iter().copied()
}
