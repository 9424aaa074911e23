//! `x · mul + add`.
use super::bind::Bound;
use super::{Binding, fits, unsupported};
use crate::ProviderId;
use crate::choice::Target;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Affine, AffineInplace};
use ops_core::{Call, Determinism, Layout, Num, Op, Operands, Reason};
use ops_kernels::{Device, ElementType, Launch, Refused, cast, unary};

/// [`Affine`] and [`AffineInplace`]. Integers go through f64, in separate memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HipAffine;

impl<T: Num> Provider<Affine<T>> for HipAffine {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &Affine<T>, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, _: &Affine<T>, on: &dyn Operands) -> Result<(), Reason> {
        applicable(target, on, 1)
    }
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Affine<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        launch(rocm, op, (op.mul, op.add), args, 1)
    }
}

impl<T: Num> Provider<AffineInplace<T>> for HipAffine {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }

    fn determinism(&self, _: &Target, _: &AffineInplace<T>, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }

    fn applicable(&self, target: &Target, _: &AffineInplace<T>, on: &dyn Operands) -> Result<(), Reason> {
        applicable(target, on, 0)
    }
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, AffineInplace<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        launch(rocm, op, (op.mul, op.add), args, 0)
    }
}

fn is_float(dtype: ElementType) -> bool {
    ElementType::FLOATS.contains(&dtype)
}

fn applicable(target: &Target, on: &dyn Operands, y: usize) -> Result<(), Reason> {
    fits(target, on, |p| {
        let (x, y) = (p.at(0), p.at(y));
        if is_float(x.dtype) {
            unary::affine(x.dims(), x.view(), y.view(), (1.0, 0.0), p.device()).map(drop)
        } else {
            through_f64(x, y, 0, (1.0, 0.0), p.device()).map(drop)
        }
    })
}

/// `y` is the index of the output: that of the input if the op is in place.
fn launch<O: Op>(
    rocm: &Rocm,
    op: &O,
    factors: (f64, f64),
    on: &O::Args<'_, HipSpace>,
    y: usize,
) -> Result<()> {
    let mut binding = Binding::new();
    let p = binding.bind::<O>(on, rocm)?;
    let (x, y) = (p.at(0), p.at(y));
    let refuse = |refused| unsupported(op, refused, on);
    if is_float(x.dtype) {
        let (launch, args) =
            unary::affine(x.dims(), x.view(), y.view(), factors, p.device()).map_err(refuse)?;
        // SAFETY: a call's views lie in their memory; the launch is made for them, and the stream may access
        // them.
        return unsafe { rocm.kernels().launch(rocm.stream(), &launch, &args) };
    }
    let bytes = x.layout.len().saturating_mul(size_of::<f64>());
    let wide = DeviceMemory::new(rocm.stream(), bytes)?;
    let lent = wide.access(rocm.stream(), Purpose::Write)?;
    let Steps { widen, scale, shift, narrow } =
        through_f64(x, y, lent.address() as u64, factors, p.device()).map_err(refuse)?;
    // SAFETY: as above; the intermediate memory holds the shape's elements in f64.
    unsafe { rocm.kernels().launch(rocm.stream(), &widen.0, &widen.1) }?;
    // SAFETY: as above.
    unsafe { rocm.kernels().launch(rocm.stream(), &scale.0, &scale.1) }?;
    // SAFETY: as above.
    unsafe { rocm.kernels().launch(rocm.stream(), &shift.0, &shift.1) }?;
    // SAFETY: as above.
    unsafe { rocm.kernels().launch(rocm.stream(), &narrow.0, &narrow.1) }
}

/// The launches of an affine map of integers.
struct Steps {
    widen: (Launch, cast::CastArgs),
    scale: (Launch, unary::AffineArgs),
    shift: (Launch, unary::AffineArgs),
    narrow: (Launch, cast::CastArgs),
}

fn through_f64(
    x: &Bound,
    y: &Bound,
    address: u64,
    (mul, add): (f64, f64),
    device: &Device,
) -> Result<Steps, Refused> {
    let wide = Bound::new(address, ElementType::F64, &Layout::of(x.layout.shape()));
    // The kernel rounds once, but the op rounds integers' products and then their sums, each to f64.
    let step = |factors| unary::affine(x.dims(), wide.view(), wide.view(), factors, device);
    Ok(Steps {
        widen: cast::prepare(x.dims(), x.view(), wide.view(), device)?,
        scale: step((mul, 0.0))?,
        shift: step((1.0, add))?,
        narrow: cast::prepare(x.dims(), wide.view(), y.view(), device)?,
    })
}
