//! Rotary position embedding.
use super::{Bound, HipOp, Indices, Problem};
use ops_core::Float;
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_kernels::rope::{self, At, Positions};
use ops_kernels::{ElementType, OperandView, Plan, Refused};

/// The place of `positions` among rope's operands.
const POSITIONS: usize = 3;

impl<T: Float> HipOp for Rope<T> {
    const INDICES: Indices = &[("positions", POSITIONS)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        rotate(self.form, self.start, 4, p, plan)
    }
}

impl<T: Float> HipOp for RopeInplace<T> {
    const INDICES: Indices = &[("positions", POSITIONS)];

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        rotate(self.form, self.start, 0, p, plan)
    }
}

/// `out` is the place of y, which is x in place.
fn rotate(form: RopeForm, start: usize, out: usize, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
    let (x, y, positions) = (p.at(0), p.at(out), p.get(POSITIONS));
    let tables = Tables::new([p.at(1), p.at(2)], form == RopeForm::HalfThd, start, positions)?;
    let operands = rope::Rope { x: x.view(), y: y.view(), cos: tables.view(0), sin: tables.view(1) };
    let &[.., d] = x.dims() else { return Err(Refused::Rank(0)) };
    let copies = out != 0 && tables.half < d / 2;
    let interleaved = form == RopeForm::Interleaved;
    if positions.is_some() || copies {
        let (half, positions, report) = (tables.half, tables.positions(), p.report());
        let at = At { half, interleaved, copies, positions, report };
        return plan.add(rope::at(x.dims(), &operands, &at, p.device())?);
    }
    // Table rows in token order; all features of y are rotated, or else keep their values.
    let mut dims = [0; 4];
    dims.copy_from_slice(x.dims());
    dims[3] = 2 * tables.half;
    let prepare = if interleaved { rope::neighbours } else { rope::halves };
    plan.add(prepare(&dims, &operands, p.device())?)
}

/// Tables `[t', half]` or `[b, t', half]` for an x of four dimensions, and the rows that its tokens use.
pub(super) struct Tables {
    /// Addresses and strides over the dimensions of x, for cos and sin.
    data: [u64; 2],
    strides: [[i64; 4]; 2],
    types: [ElementType; 2],
    rows: [i64; 2],
    bound: u64,
    pub(super) half: u64,
    /// Address, type and strides of the positions, and the strides of their indices.
    positions: Option<(u64, ElementType, [i64; 4], [i64; 4])>,
}

impl Tables {
    pub(super) fn new(
        tables: [&Bound; 2],
        tokens_before_heads: bool,
        start: usize,
        positions: Option<&Bound>,
    ) -> Result<Self, Refused> {
        let tokens = if tokens_before_heads { 1 } else { 2 };
        let &[.., bound, half] = tables[0].dims() else { return Err(Refused::Rank(tables[0].layout.rank())) };
        let (mut data, mut strides, mut rows) = ([0; 2], [[0; 4]; 2], [0; 2]);
        for (i, table) in tables.iter().enumerate() {
            let view = table.view();
            let (batch, row, step) = match *view.strides {
                [row, step] => (0, row, step),
                [batch, row, step] => (batch, row, step),
                _ => return Err(Refused::Rank(view.strides.len())),
            };
            let skipped = (start as i64).wrapping_mul(row).wrapping_mul(view.dtype.bytes() as i64);
            data[i] = view.data.wrapping_add_signed(skipped);
            rows[i] = row;
            (strides[i][0], strides[i][3]) = (batch, step);
            strides[i][tokens] = if positions.is_some() { 0 } else { row };
        }
        let beside = |at: &Bound| {
            let (view, dims) = (at.view(), at.dims());
            let (&[b, t], &[batch, token]) = (dims, view.strides) else {
                return Err(Refused::Rank(dims.len()));
            };
            let (mut positions, mut places) = ([0; 4], [0; 4]);
            // The whole batch may share one row of positions.
            (positions[0], places[0]) = if b == 1 { (0, 0) } else { (batch, t as i64) };
            (positions[tokens], places[tokens]) = (token, 1);
            Ok((view.data, view.dtype, positions, places))
        };
        let types = tables.map(|table| table.dtype);
        let positions = positions.map(beside).transpose()?;
        Ok(Tables { data, strides, types, rows, bound, half, positions })
    }

    pub(super) fn view(&self, i: usize) -> OperandView<'_> {
        OperandView { data: self.data[i], strides: &self.strides[i], dtype: self.types[i] }
    }

    pub(super) fn positions(&self) -> Positions<'_> {
        let Some((data, dtype, positions, places)) = &self.positions else { return Positions::none(4) };
        let view = OperandView { data: *data, strides: positions, dtype: *dtype };
        let place = OperandView { data: 0, strides: places, dtype: ElementType::U8 };
        Positions { given: true, view, place, rows: self.rows, bound: self.bound }
    }
}
