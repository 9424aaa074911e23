//! Sorting along any axis, with memory for sorted runs if a block cannot hold a row.
use super::bind::Bound;
use super::{HipOp, Problem};
use ops_core::Num;
use ops_core::ops::{ArgSort, Sort, TopK};
use ops_kernels::{Plan, Refused, sort};

impl<T: Num> HipOp for Sort<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let sorted = p.at(1).along(self.axis)?;
        sort(p, (self.axis, self.descending), [Some(sorted), None], None, plan)
    }
}

impl<T: Num> HipOp for ArgSort<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let indices = p.at(1).along(self.axis)?;
        sort(p, (self.axis, self.descending), [None, Some(indices)], None, plan)
    }
}

impl<T: Num> HipOp for TopK<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        sort(p, (-1, true), [Some(*p.at(1)), Some(*p.at(2))], Some(self.k), plan)
    }
}

/// Writes values, indices or both; `keep` elements of each row, or all.
fn sort(
    p: &Problem<'_>,
    (axis, descending): (isize, bool),
    [values, indices]: [Option<Bound>; 2],
    keep: Option<usize>,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let x = p.at(0).along(axis)?;
    let sorting = sort::Sort {
        x: x.view(),
        values: values.as_ref().map(Bound::view),
        indices: indices.as_ref().map(Bound::view),
        keeps_indices: false,
        keep: keep.unwrap_or(x.layout.last()) as u64,
        descending,
    };
    sort::prepare(x.dims(), &sorting, p.device(), plan)
}
