//! Table rows by index. Rows of blocks are dequantized; rows of floats go through memory of the table's type
//! if the output has another.
//! And elements of a tensor by index.
use super::{Bound, HipOp, Indices, Problem};
use ops_core::ops::{Embedding, IndexSelect};
use ops_core::{Float, Layout};
use ops_kernels::cast::{self, CastArgs};
use ops_kernels::index::{self, IndexSelectArgs};
use ops_kernels::{ElementType, Plan, Refused, quant};
use std::mem::offset_of;

impl<T: Float> HipOp for Embedding<T> {
    const INDICES: Indices = &[("ids", 1)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (table, ids, y) = (p.at(0), p.at(1), p.at(2));
        let (&[bound, width], &[count]) = (table.dims(), ids.dims()) else {
            return Err(Refused::Rank(table.layout.rank()));
        };
        if ElementType::BLOCKS.contains(&table.dtype) {
            let views = [table.view(), ids.view(), y.view()];
            return plan.add(quant::embedding([count, width, bound], views, p.report(), p.device())?);
        }
        let select = |to: &Bound| {
            index::select(to.dims(), 0, bound, [table.view(), ids.view(), to.view()], p.report(), p.device())
        };
        if table.dtype == y.dtype {
            return plan.add(select(y)?);
        }
        let rows = Bound::new(0, table.dtype, &Layout::of(y.layout.shape()));
        let (launch, args) = select(&rows)?;
        plan.workspace = (y.layout.len() as u64).saturating_mul(table.dtype.bytes() as u64);
        plan.add_with(launch, &args, &[offset_of!(IndexSelectArgs, y.data)])?;
        let (launch, args) = cast::prepare(y.dims(), rows.view(), y.view(), p.device())?;
        plan.add_with(launch, &args, &[offset_of!(CastArgs, x.data)])
    }
}

impl HipOp for IndexSelect {
    const INDICES: Indices = &[("ids", 1)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, ids, y) = (p.at(0), p.at(1), p.at(2));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        let bound = x.dims().get(axis).copied().unwrap_or(0);
        plan.add(index::select(
            y.dims(),
            axis,
            bound,
            [x.view(), ids.view(), y.view()],
            p.report(),
            p.device(),
        )?)
    }
}
