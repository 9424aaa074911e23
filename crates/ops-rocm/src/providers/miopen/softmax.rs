//! Softmax in f16 and f32. The kernel would read any other type's memory as f32.
//!
//! Its indices are computed with 24-bit products, and since the kernel is HIP with f32 ones: both are exact
//! below 2^24.
use super::descriptor::Tensor;
use super::{HALF_AND_SINGLE, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::providers::hip::bind::Binding;
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::Softmax;
use ops_core::{Call, Determinism, Float, Op, Operands, Reason};
use std::ptr::from_ref;

impl<T: Float> Provider<Softmax<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &Softmax<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Softmax<T>, on: &dyn Operands) -> Result<(), Reason> {
        let (max, got) = (1 << 24, on.iter().next().map_or(0, |x| x.layout.len()));
        if got > max {
            return Err(Reason::Limit { what: "elements", got, max });
        }
        suits(target, op.name(), on, HALF_AND_SINGLE)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Softmax<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Softmax<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(1));
        if x.layout.is_empty() {
            return Ok(());
        }
        let axis = x.layout.shape().axis(op.axis)?;
        let (outer, inner) = x.layout.dims().split_at(axis);
        // Rows along the channels of an image.
        let dims = [outer.iter().product(), inner[0], inner[1..].iter().product(), 1];
        let algorithm = if op.log { sys::MIOPEN_SOFTMAX_LOG } else { sys::MIOPEN_SOFTMAX_ACCURATE };
        let (one, zero) = (1.0f32, 0.0f32);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), dims)?;
            // SAFETY: handle and descriptor are live; both operands are packed and have these extents, and
            // lie in memory that the handle's stream may access.
            let status = unsafe {
                lib.miopenSoftmaxForward_V2(
                    handle.raw,
                    from_ref(&one).cast(),
                    tensor.raw,
                    pointer(x),
                    from_ref(&zero).cast(),
                    tensor.raw,
                    pointer(y),
                    algorithm,
                    sys::MIOPEN_SOFTMAX_MODE_CHANNEL,
                )
            };
            check::<MiOpenLibrary>(lib, "miopenSoftmaxForward_V2", status)
        })
    }
}
