//! Average and maximum pooling.
use super::descriptor::{Pooling, Tensor};
use super::{HALF_AND_SINGLE, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::providers::hip::bind::Binding;
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::{Pool2d, PoolFn};
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use std::ptr::{from_ref, null_mut};

/// Maximum number of window elements that the kernel's single f32 running sum adds within the op's tolerance.
const MAX_WINDOW: usize = 64;

/// A pool in MIOpen's terms: the mode, then window, padding and stride along rows and columns.
fn pooling<T>(op: &Pool2d<T>) -> Result<(sys::miopenPoolingMode_t, [[i32; 2]; 3]), Reason> {
    let mode = match op.f {
        PoolFn::Max => sys::miopenPoolingMax,
        // The mode that counts the padding.
        PoolFn::Avg => sys::miopenPoolingAverageInclusive,
        other => return Err(Reason::Because(format!("MIOpen has no {}", other.name()))),
    };
    let windows = op.windows;
    let elements = windows.kernel[0].saturating_mul(windows.kernel[1]);
    if op.f == PoolFn::Avg && elements > MAX_WINDOW {
        return Err(Reason::Limit {
            what: "elements of a window that MIOpen adds in one sum",
            got: elements,
            max: MAX_WINDOW,
        });
    }
    let max = i32::MAX as usize;
    let number =
        |got: usize| i32::try_from(got).map_err(|_| Reason::Limit { what: "extent of a window", got, max });
    let pair = |[rows, columns]: [usize; 2]| Ok::<_, Reason>([number(rows)?, number(columns)?]);
    Ok((mode, [pair(windows.kernel)?, pair(windows.padding)?, pair(windows.stride)?]))
}

impl<T: Float> Provider<Pool2d<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &Pool2d<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Pool2d<T>, on: &dyn Operands) -> Result<(), Reason> {
        pooling(op)?;
        let is_empty = |name| on.get(name).is_some_and(|operand| operand.layout.is_empty());
        if is_empty("x") && !is_empty("y") {
            return Err(Reason::Because("MIOpen does not support empty tensors, and x is empty".to_owned()));
        }
        suits(target, op.name(), on, HALF_AND_SINGLE)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Pool2d<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Pool2d<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(1));
        if y.layout.is_empty() {
            return Ok(());
        }
        // All other axes are planes.
        let image = |dims: &[usize]| match *dims {
            [ref lead @ .., h, w] => [1, lead.iter().product(), h, w],
            _ => [1, 1, 1, dims.iter().product()],
        };
        let (mode, windows) = pooling(op).map_err(|why| crate::error::failed("miopenPoolingForward", why))?;
        let (one, zero) = (1.0f32, 0.0f32);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let pooling = Pooling::new(lib, mode, windows)?;
            let from = Tensor::packed(lib, datatype(x), image(x.layout.dims()))?;
            let to = Tensor::packed(lib, datatype(y), image(y.layout.dims()))?;
            // SAFETY: handle and descriptors are live; both operands are packed and have these extents, and
            // lie in memory that the handle's stream may access. Without the backward pass no workspace is
            // used.
            let status = unsafe {
                lib.miopenPoolingForward(
                    handle.raw,
                    pooling.raw,
                    from_ref(&one).cast(),
                    from.raw,
                    pointer(x),
                    from_ref(&zero).cast(),
                    to.raw,
                    pointer(y),
                    false,
                    null_mut(),
                    0,
                )
            };
            check::<MiOpenLibrary>(lib, "miopenPoolingForward", status)
        })
    }
}
