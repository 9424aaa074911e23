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

/// Formats with different code paths for moving their blocks: the first of each alignment that a block's size
/// allows, and the formats of the first files. Moving a block does not depend on the meaning of its bytes.
pub(crate) fn moved_block_types() -> impl Iterator<Item = DType> {
    let alignment = |format: &DType| format.size().trailing_zeros().min(4);
    let first =
        move |format: &DType| block_types().find(|f| alignment(f) == alignment(format)) == Some(*format);
    block_types().enumerate().filter(move |(at, format)| *at < 2 || first(format)).map(|(_, format)| format)
}
