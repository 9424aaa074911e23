//! Ops that move elements: copy, fill, where, cast, index_select.
use super::{Binding, Bound, HipOp, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Cast, Fill, IndexSelect, TensorCopy, Where};
use ops_core::{Call, Determinism, Element, Layout, Operands, Reason, Scalar, Shape};
use ops_kernels::{ElementType, Launch, OperandView, Refused, cast, copy, index};

impl HipOp for TensorCopy {
    type Kernel = copy::CopyArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        copy::copy(x.dims(), x.view(), y.view(), p.device())
    }
}

impl<T: Scalar> HipOp for Cast<T> {
    type Kernel = cast::CastArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        cast::prepare(x.dims(), x.view(), y.view(), p.device())
    }
}

impl HipOp for IndexSelect {
    type Kernel = index::IndexSelectArgs;
    const INDICES: Option<&'static str> = Some("ids");

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, ids, y) = (p.at(0), p.at(1), p.at(2));
        let rank = x.layout.rank();
        let axis = x.layout.shape().axis(self.axis).map_err(|_| Refused::Rank(rank))?;
        let bound = x.dims().get(axis).copied().unwrap_or(0);
        index::select(y.dims(), axis, bound, [x.view(), ids.view(), y.view()], p.report(), p.device())
    }
}

impl HipOp for Where {
    type Kernel = copy::WhereArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (cond, moved) = (p.at(0), [p.at(1), p.at(2), p.at(3)]);
        if p.at(3).dtype.bits().is_some() {
            return copy::select(cond.dims(), cond.view(), moved.map(Bound::view), p.device());
        }
        // A block is a row of units that share a condition. Units have two bytes, or one if the block's size is odd.
        let bytes = p.at(3).dtype.bytes();
        let unit = if bytes.is_multiple_of(2) { ElementType::B16 } else { ElementType::B8 };
        let units = (bytes / unit.bytes()) as u64;
        let dims = [cond.dims(), &[units]].concat();
        let cond_strides = [cond.view().strides, &[0]].concat();
        let strides = moved.map(|operand| in_units(operand, units));
        let mut views = strides.iter().zip(moved).map(|(strides, operand)| OperandView {
            data: operand.address,
            strides,
            dtype: unit,
        });
        let mut next = || views.next().ok_or(Refused::Rank(dims.len()));
        let views = [next()?, next()?, next()?];
        copy::select(&dims, OperandView { strides: &cond_strides, ..cond.view() }, views, p.device())
    }
}

/// Strides of blocks converted to strides of their units, with the axis of units last.
fn in_units(operand: &Bound, units: u64) -> Vec<i64> {
    let outer = operand.view().strides.iter().map(|stride| stride * units as i64);
    outer.chain([1]).collect()
}

/// [`Fill`], whose value is an argument for elements of up to eight bytes, and lies in memory for blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipFill;

impl<T: Element> Provider<Fill<T>> for HipFill {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &Fill<T>, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, _: &Fill<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, |problem| {
            let y = problem.at(0);
            match y.dtype.bits() {
                Some(_) => copy::fill(y.dims(), y.view(), 0, problem.device()).map(drop),
                None => from_one(y, 0, problem.device()).map(drop),
            }
        })
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Fill<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Fill<T>>(args, rocm)?;
        let y = problem.at(0);
        let refuse = |refused| unsupported(op, refused, args);
        let value = bytemuck::bytes_of(&op.value);
        if y.dtype.bits().is_some() {
            let bits = u64::from_le_bytes(std::array::from_fn(|i| value.get(i).copied().unwrap_or(0)));
            let (launch, kernel_args) =
                copy::fill(y.dims(), y.view(), bits, problem.device()).map_err(refuse)?;
            // SAFETY: a call's views lie in their memory; the launch is made for them, and the stream may
            // access them.
            return unsafe { rocm.kernels().launch(rocm.stream(), &launch, &kernel_args) };
        }
        let mut one = DeviceMemory::new(rocm.stream(), value.len())?;
        one.write(rocm.stream(), 0, value)?;
        let source = one.access(rocm.stream(), Purpose::Read)?;
        let (launch, kernel_args) = from_one(y, source.address() as u64, problem.device()).map_err(refuse)?;
        // SAFETY: as above; every read of the copy is of that one element.
        unsafe { rocm.kernels().launch(rocm.stream(), &launch, &kernel_args) }
    }
}

/// A copy of one element to all of `y`.
fn from_one(y: &Bound, one: u64, device: &ops_kernels::Device) -> Result<(Launch, copy::CopyArgs), Refused> {
    let rank = y.layout.rank();
    let everywhere = Layout::of(Shape::SCALAR).broadcast(y.layout.dims()).map_err(|_| Refused::Rank(rank))?;
    copy::copy(y.dims(), Bound::new(one, y.dtype, &everywhere).view(), y.view(), device)
}
