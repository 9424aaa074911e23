//! Indices and the places that they refer to.
use crate::cpu::threads;
use crate::host::raw::Raw;
use bytemuck::{Zeroable, cast_slice};
use ops_core::{DType, Error, Index, Result, Scalar, Wide, with_type};

/// Checks that every index is below `bound` or selects nothing.
pub(super) fn check_indices(op: &'static str, ids: Raw<'_>, bound: usize) -> Result<()> {
    with_type!(indices, ids.dtype, I => {
        // No branch per index, and no wider type, so that the compiler uses vectors.
        let limit = I::from_wide(Wide::Int(I::NONE.to_i64().min(i64::try_from(bound).unwrap_or(i64::MAX))));
        let wrong = |part: &[I]| {
            let outside = |id: I| (id >= limit) & (id != I::NONE) | (id < I::zeroed());
            part.iter().fold(false, |bad, id| bad | outside(*id))
        };
        let all = |ids: &[I]| threads::split(ids.len(), 1, &|range| {
            if ids[range].chunks(4096).any(wrong) { Err("an index out of range".into()) } else { Ok(()) }
        });
        if ids.contiguous().is_some_and(|bytes| all(cast_slice(bytes)).is_ok()) {
            return Ok(());
        }
        for (position, p) in ids.layout.positions().enumerate() {
            let wrong = |index| Error::Index { op, operand: "ids", position, index, bound };
            Index::resolve(ids.slice::<I>()[p], bound).map_err(wrong)?;
        }
        Ok(())
    }, _ => unreachable!("{} is not an index type, and the op's rule requires one", ids.dtype))
}

/// Calls `f` with the number and the position of each index that refers to an element.
pub(super) fn each_place(dtype: DType, ids: &[u8], bound: usize, f: &mut dyn FnMut(usize, usize)) {
    with_type!(indices, dtype, I => {
        for (j, id) in cast_slice::<u8, I>(ids).iter().enumerate() {
            // The indices have been checked.
            if let Ok(Some(place)) = id.resolve(bound) {
                f(j, place);
            }
        }
    }, _ => unreachable!("{dtype} is not an index type, and the op's rule requires one"));
}

/// The place of an index that refers to no element.
pub(super) const NONE: usize = usize::MAX;

/// The places that a row of indices refers to.
pub(super) fn resolve_row(dtype: DType, ids: &[u8], places: &mut [usize]) {
    with_type!(indices, dtype, I => {
        for (place, id) in places.iter_mut().zip(cast_slice::<u8, I>(ids)) {
            // The indices have been checked.
            *place = if *id == I::NONE { NONE } else { id.to_i64() as usize };
        }
    }, _ => unreachable!("{dtype} is not an index type, and the op's rule requires one"))
}
