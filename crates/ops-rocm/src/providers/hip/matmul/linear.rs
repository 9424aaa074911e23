//! Products with a weight of floats or of blocks; with memory for activations that are rounded to bytes.
use super::super::{Binding, Bound, Problem, fits, reason, units, unsupported};
use super::{linear, linear_swiglu};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Linear, LinearSwiglu};
use ops_core::{Call, Determinism, Float, Operands, Reason};
use ops_kernels::matmul::MatmulArgs;
use ops_kernels::qlinear::{self, Plan};
use ops_kernels::{ElementType, Instance, Launch, Refused};

/// [`Linear`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipLinear;

/// The launches of a product.
enum Product {
    Floats(Launch, MatmulArgs),
    Blocks(Plan),
}

impl Product {
    fn plan(p: &Problem<'_>) -> Result<Product, Refused> {
        let (x, weight, y) = (p.at(0), p.at(1), p.at(3));
        if !ElementType::BLOCKS.contains(&weight.dtype) {
            return linear(p).map(|(launch, args)| Product::Floats(launch, args));
        }
        let n = weight.dims().first().copied().unwrap_or(0);
        qlinear::prepare(x.dims(), n, [x.view(), weight.view(), y.view()], p.device()).map(Product::Blocks)
    }

    fn plan_swiglu(p: &Problem<'_>) -> Result<Product, Refused> {
        let (x, gate, up, y) = (p.at(0), p.at(1), p.at(2), p.at(3));
        if !ElementType::BLOCKS.contains(&gate.dtype) {
            return linear_swiglu(p).map(|(launch, args)| Product::Floats(launch, args));
        }
        let n = gate.dims().first().copied().unwrap_or(0);
        let views = [x.view(), gate.view(), up.view(), y.view()];
        qlinear::swiglu(x.dims(), n, views, p.device()).map(Product::Blocks)
    }

    fn instance(&self) -> &'static Instance {
        match self {
            Product::Floats(launch, _) => launch.instance,
            Product::Blocks(plan) => plan.main.instance,
        }
    }
}

/// Kernels for blocks cannot add a bias.
fn without_bias(p: &Problem<'_>) -> Result<(), Reason> {
    let blocks = |weight: &Bound| ElementType::BLOCKS.contains(&weight.dtype);
    if p.get(2).is_some() && p.get(1).is_some_and(blocks) {
        return Err(Reason::Because("no kernel adds a bias to a product with blocks".to_owned()));
    }
    Ok(())
}

impl<T: Float> Provider<Linear<T>> for HipLinear {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, target: &Target, _: &Linear<T>, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn applicable(&self, target: &Target, _: &Linear<T>, on: &dyn Operands) -> Result<(), Reason> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device())?;
        without_bias(&problem)?;
        Product::plan(&problem).map(drop).map_err(|refused| reason(refused, on))
    }

    fn how(&self, target: &Target, _: &Linear<T>, on: &dyn Operands) -> Option<String> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device()).ok()?;
        units(target, Product::plan(&problem).ok()?.instance())
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Linear<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Linear<T>>(args, rocm)?;
        let product = Product::plan(&problem).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: a call's views lie in their memory; the plan is made for them, and the stream may access
        // them.
        unsafe { product.launch(rocm) }
    }
}

/// [`LinearSwiglu`] of few rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipLinearSwiglu;

impl<T: Float> Provider<LinearSwiglu<T>> for HipLinearSwiglu {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &LinearSwiglu<T>, _: &dyn Operands) -> Determinism {
        // More rows than this kernel supports are computed as parts, which sum in another order.
        Determinism::Run
    }

    fn applicable(&self, target: &Target, _: &LinearSwiglu<T>, on: &dyn Operands) -> Result<(), Reason> {
        fits(target, on, Product::plan_swiglu)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, LinearSwiglu<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<LinearSwiglu<T>>(args, rocm)?;
        let product = Product::plan_swiglu(&problem).map_err(|refused| unsupported(op, refused, args))?;
        // SAFETY: as for `Linear`.
        unsafe { product.launch(rocm) }
    }
}

impl Product {
    /// Launches the product.
    ///
    /// # Safety
    /// As for [`launch`](crate::kernels::Kernels::launch).
    unsafe fn launch(self, rocm: &Rocm) -> Result<()> {
        let plan = match self {
            Product::Floats(launch, args) => {
                // SAFETY: guaranteed by the caller.
                return unsafe { rocm.kernels().launch(rocm.stream(), &launch, &args) };
            }
            Product::Blocks(plan) => plan,
        };
        let Plan { split, main, workspace, args: mut kernel_args } = plan;
        let Some(split) = split else {
            // SAFETY: guaranteed by the caller.
            return unsafe { rocm.kernels().launch(rocm.stream(), &main, &kernel_args) };
        };
        let workspace = usize::try_from(workspace).unwrap_or(usize::MAX);
        let bytes = DeviceMemory::new(rocm.stream(), workspace)?;
        let lent = bytes.access(rocm.stream(), Purpose::Write)?;
        kernel_args.planes = lent.address() as u64;
        // SAFETY: guaranteed by the caller; the stream may also access the workspace, which has the size that
        // the plan requires.
        unsafe {
            rocm.kernels().launch(rocm.stream(), &split, &kernel_args)?;
            rocm.kernels().launch(rocm.stream(), &main, &kernel_args)
        }
    }
}
