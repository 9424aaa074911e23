//! Copies and fills.
use super::{Binding, Bound, HipOp, Problem, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Fill, TensorCopy};
use ops_core::{Call, Determinism, Element, Layout, Operands, Reason, Shape};
use ops_kernels::{Launch, Refused, copy};

impl HipOp for TensorCopy {
    type Kernel = copy::CopyArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        copy::copy(x.dims(), x.view(), y.view(), p.device())
    }
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
