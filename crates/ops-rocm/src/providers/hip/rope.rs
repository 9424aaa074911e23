//! Rotary position embedding.
use super::{Bound, HipOp, Problem};
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_core::{Float, Layout, Result};
use ops_kernels::{Launch, Refused, rope};

impl<T: Float> HipOp for Rope<T> {
    type Kernel = rope::RopeArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        plan((self.form, self.start), p, p.at(3))
    }
}

impl<T: Float> HipOp for RopeInplace<T> {
    type Kernel = rope::RopeArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        plan((self.form, self.start), p, p.at(0))
    }
}

fn plan(
    (form, start): (RopeForm, usize),
    p: &Problem<'_>,
    y: &Bound,
) -> Result<(Launch, rope::RopeArgs), Refused> {
    let x = p.at(0);
    let rank = x.layout.rank();
    let aligned = |table: &Bound| {
        let layout = beside(form, start, x.layout.dims(), &table.layout).map_err(|_| Refused::Rank(rank))?;
        Ok(table.relaid(&layout))
    };
    let (cos, sin) = (aligned(p.at(1))?, aligned(p.at(2))?);
    let operands = rope::Rope { x: x.view(), y: y.view(), cos: cos.view(), sin: sin.view() };
    match form {
        RopeForm::Interleaved => rope::neighbours(x.dims(), &operands, p.device()),
        RopeForm::Half | RopeForm::HalfThd => rope::halves(x.dims(), &operands, p.device()),
    }
}

/// A table `[t', d/2]` or `[b, t', d/2]` as it stands beside `x`: from row `start` on, repeated along the heads, and
/// along the batch if it is shared.
fn beside(form: RopeForm, start: usize, x: &[usize], table: &Layout) -> Result<Layout> {
    let mut dims = x.to_vec();
    let (tokens, heads_before_tokens) = match form {
        RopeForm::HalfThd => (1, false),
        RopeForm::Half | RopeForm::Interleaved => (2, true),
    };
    if let Some(d) = dims.last_mut() {
        *d /= 2;
    }
    let rows = table.narrow(-2, start, x.get(tokens).copied().unwrap_or(0))?;
    let rows = match (heads_before_tokens, rows.rank()) {
        (true, 2) => rows,
        (true, _) => rows.unsqueeze(1)?,
        (false, rank) => rows.unsqueeze(rank as isize - 1)?,
    };
    rows.broadcast(&dims)
}
