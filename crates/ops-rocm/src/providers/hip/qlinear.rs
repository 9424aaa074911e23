//! Products with a quantized weight, with memory for the activations in digits where products are of bytes.
use super::{Problem, reason, units, unsupported};
use crate::choice::{Provider, ProviderId, Target};
use crate::hip::{DeviceMemory, Purpose};
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::QLinear;
use ops_core::quant::Block;
use ops_core::{Call, Float, Operands, Reason};
use ops_kernels::Refused;
use ops_kernels::qlinear::{self, Plan};

/// [`QLinear`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipQLinear;

fn plan(p: &Problem) -> Result<Plan, Refused> {
    let (x, weight, y) = (p.at(0), p.at(1), p.at(2));
    let n = weight.dims().first().copied().unwrap_or(0);
    qlinear::prepare(x.dims(), n, [x.view(), weight.view(), y.view()], p.device())
}

impl<T: Float, Q: Block> Provider<QLinear<T, Q>> for HipQLinear {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn applicable(&self, target: &Target, _: &QLinear<T, Q>, on: &dyn Operands) -> Result<(), Reason> {
        let problem = Problem::assumed(on, target.kernels())?;
        plan(&problem).map(drop).map_err(|refused| reason(refused, on))
    }

    fn how(&self, target: &Target, _: &QLinear<T, Q>, on: &dyn Operands) -> Option<String> {
        let problem = Problem::assumed(on, target.kernels()).ok()?;
        units(target, plan(&problem).ok()?.main.instance)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, QLinear<T, Q>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let (problem, _lent) = Problem::bind::<QLinear<T, Q>>(args, rocm)?;
        let Plan { split, main, workspace, args: mut kernel_args } =
            plan(&problem).map_err(|refused| unsupported(op, refused, args))?;
        let Some(split) = split else {
            // SAFETY: a call's views lie in their memory; the plan is made for them, and they are lent to the stream.
            return unsafe { rocm.kernels().launch(rocm.stream(), &main, &kernel_args) };
        };
        let workspace = usize::try_from(workspace).unwrap_or(usize::MAX);
        let digits = DeviceMemory::new(rocm.stream(), workspace)?;
        let lent = digits.access(rocm.stream(), Purpose::Write)?;
        kernel_args.planes = lent.address() as u64;
        // SAFETY: as above; the workspace is lent too, and has the size that the plan asks for.
        unsafe {
            rocm.kernels().launch(rocm.stream(), &split, &kernel_args)?;
            rocm.kernels().launch(rocm.stream(), &main, &kernel_args)
        }
    }
}
