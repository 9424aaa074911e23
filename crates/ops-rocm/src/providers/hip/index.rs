//! Table rows by index. Rows of blocks are dequantized; rows of floats go through memory of the table's type
//! if the output has another.
//! And elements of a tensor by index.
use super::{Binding, Bound, HipOp, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Embedding, IndexSelect};
use ops_core::{Call, Determinism, Float, Layout, Op, Operands, Reason};
use ops_kernels::cast::{self, CastArgs};
use ops_kernels::index::{self, IndexSelectArgs};
use ops_kernels::quant::{self, QEmbeddingArgs};
use ops_kernels::{ElementType, Launch, Refused};

/// [`Embedding`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipEmbedding;

/// The launches of a lookup.
#[allow(clippy::large_enum_variant, reason = "lives on the stack for one call, which must not allocate")]
enum LookUp {
    Blocks(Launch, QEmbeddingArgs),
    Floats(Launch, IndexSelectArgs),
    /// Rows to intermediate memory, then a cast.
    Cast((Launch, IndexSelectArgs), (Launch, CastArgs)),
}

impl LookUp {
    /// `between` is the address of intermediate memory for the rows in the table's type.
    fn plan(p: &Problem<'_>, between: u64) -> Result<LookUp, Refused> {
        let (table, ids, y) = (p.at(0), p.at(1), p.at(2));
        let (&[bound, width], &[count]) = (table.dims(), ids.dims()) else {
            return Err(Refused::Rank(table.layout.rank()));
        };
        if ElementType::BLOCKS.contains(&table.dtype) {
            let views = [table.view(), ids.view(), y.view()];
            let (launch, args) = quant::embedding([count, width, bound], views, p.report(), p.device())?;
            return Ok(LookUp::Blocks(launch, args));
        }
        let select = |to: &Bound| {
            index::select(to.dims(), 0, bound, [table.view(), ids.view(), to.view()], p.report(), p.device())
        };
        if table.dtype == y.dtype {
            return select(y).map(|(launch, args)| LookUp::Floats(launch, args));
        }
        let rows = Bound::new(between, table.dtype, &Layout::of(y.layout.shape()));
        Ok(LookUp::Cast(select(&rows)?, cast::prepare(y.dims(), rows.view(), y.view(), p.device())?))
    }
}

impl<T: Float> Provider<Embedding<T>> for HipEmbedding {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &Embedding<T>, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, _: &Embedding<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| LookUp::plan(problem, 0))
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Embedding<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let mut problem = binding.bind::<Embedding<T>>(args, rocm)?;
        let check = rocm.stream().index_check()?;
        problem.report_to(&check, rocm.index_names().number(op.name(), "ids"));
        let (table, y) = (problem.at(0), problem.at(2));
        let direct = ElementType::BLOCKS.contains(&table.dtype) || table.dtype == y.dtype;
        let bytes = if direct { 0 } else { y.layout.len().saturating_mul(table.dtype.bytes()) };
        let between = DeviceMemory::new(rocm.stream(), bytes)?;
        let lent = between.access(rocm.stream(), Purpose::Write)?;
        let plan = LookUp::plan(&problem, lent.address() as u64);
        let (kernels, stream) = (rocm.kernels(), rocm.stream());
        match plan.map_err(|refused| unsupported(op, refused, args))? {
            // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may
            // access them.
            LookUp::Blocks(launch, args) => unsafe { kernels.launch(stream, &launch, &args) },
            // SAFETY: as above.
            LookUp::Floats(launch, args) => unsafe { kernels.launch(stream, &launch, &args) },
            // SAFETY: as above; the intermediate memory has room for the rows in the table's type, and the
            // stream may access it.
            LookUp::Cast(select, cast) => unsafe {
                kernels.launch(stream, &select.0, &select.1)?;
                kernels.launch(stream, &cast.0, &cast.1)
            },
        }
    }
}

impl HipOp for IndexSelect {
    type Kernel = IndexSelectArgs;
    const INDICES: Option<&'static str> = Some("ids");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, ids, y) = (p.at(0), p.at(1), p.at(2));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        let bound = x.dims().get(axis).copied().unwrap_or(0);
        index::select(y.dims(), axis, bound, [x.view(), ids.view(), y.view()], p.report(), p.device())
    }
}
