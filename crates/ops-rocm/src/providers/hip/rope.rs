//! Rotary position embedding.
use super::{Binding, Bound, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Rope, RopeForm, RopeInplace};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use ops_kernels::rope::{self, At, Positions, RopeArgs, RopeAtArgs};
use ops_kernels::{ElementType, Launch, OperandView, Refused};

/// [`Rope`] and [`RopeInplace`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipRope;

/// What the two ops have in common.
trait Rotating: Op {
    fn form(&self) -> RopeForm;
    fn start(&self) -> usize;
    /// The index of `y`.
    const OUT: usize;
}
impl<T: Float> Rotating for Rope<T> {
    fn form(&self) -> RopeForm {
        self.form
    }
    fn start(&self) -> usize {
        self.start
    }
    const OUT: usize = 4;
}
impl<T: Float> Rotating for RopeInplace<T> {
    fn form(&self) -> RopeForm {
        self.form
    }
    fn start(&self) -> usize {
        self.start
    }
    const OUT: usize = 0;
}

/// The index of `positions` among rope's operands.
const POSITIONS: usize = 3;

enum Plan {
    /// Table rows in token order; all features of y are rotated, or else keep their values.
    InOrder(Launch, RopeArgs),
    At(Launch, RopeAtArgs),
}

fn plan<O: Rotating>(op: &O, p: &Problem<'_>) -> Result<Plan, Refused> {
    let (x, y, form) = (p.at(0), p.at(O::OUT), op.form());
    let positions = p.get(POSITIONS);
    let tables = Tables::new([p.at(1), p.at(2)], form == RopeForm::HalfThd, op.start(), positions)?;
    let operands = rope::Rope { x: x.view(), y: y.view(), cos: tables.view(0), sin: tables.view(1) };
    let &[.., d] = x.dims() else { return Err(Refused::Rank(0)) };
    let copies = O::OUT != 0 && tables.half < d / 2;
    let interleaved = form == RopeForm::Interleaved;
    if positions.is_some() || copies {
        let (half, positions, report) = (tables.half, tables.positions(), p.report());
        let at = At { half, interleaved, copies, positions, report };
        return rope::at(x.dims(), &operands, &at, p.device()).map(|(launch, args)| Plan::At(launch, args));
    }
    let mut dims = [0; 4];
    dims.copy_from_slice(x.dims());
    dims[3] = 2 * tables.half;
    let prepare = if interleaved { rope::neighbours } else { rope::halves };
    prepare(&dims, &operands, p.device()).map(|(launch, args)| Plan::InOrder(launch, args))
}

impl<O: Rotating> Provider<O> for HipRope {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &O, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, op: &O, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| plan(op, problem))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, O, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<O>(args, rocm)?;
        let given = problem.get(POSITIONS).is_some();
        let check = given.then(|| rocm.stream().index_check()).transpose()?;
        if let Some(check) = &check {
            problem.report_to(check, rocm.index_names().number(op.name(), "positions"));
        }
        let plan = plan(op, &problem).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them.
        unsafe {
            match plan {
                Plan::InOrder(launch, args) => rocm.kernels().launch(rocm.stream(), &launch, &args),
                Plan::At(launch, args) => rocm.kernels().launch(rocm.stream(), &launch, &args),
            }
        }
    }
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
