//! Activations in f16 and f32: those of MIOpen that follow the ops' rules.
use super::descriptor::{Activation, Tensor};
use super::{HALF_AND_SINGLE, MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::providers::hip::bind::Binding;
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::{Unary, UnaryFn};
use ops_core::{Call, Determinism, Num, Op, Operands, Reason};
use std::ptr::from_ref;

/// MIOpen's mode for a function.
fn mode(f: UnaryFn) -> Result<sys::miopenActivationMode_t, Reason> {
    match f {
        UnaryFn::Sigmoid => Ok(sys::miopenActivationLOGISTIC),
        UnaryFn::Tanh => Ok(sys::miopenActivationTANH),
        UnaryFn::Abs => Ok(sys::miopenActivationABS),
        UnaryFn::Relu => Err(Reason::Because("MIOpen's relu turns NaN into 0".to_string())),
        other => Err(Reason::Because(format!("MIOpen has no {}", other.name()))),
    }
}

impl<T: Num> Provider<Unary<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &Unary<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Unary<T>, on: &dyn Operands) -> Result<(), Reason> {
        mode(op.function())?;
        suits(target, op.name(), on, HALF_AND_SINGLE)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Unary<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Unary<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(1));
        if x.layout.is_empty() {
            return Ok(());
        }
        let mode = mode(op.function()).map_err(|why| crate::error::failed("miopenActivationForward", why))?;
        let (one, zero) = (1.0f32, 0.0f32);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let activation = Activation::new(lib, mode)?;
            let tensor = Tensor::packed(lib, datatype(x), [1, 1, 1, x.layout.len()])?;
            // SAFETY: handle and descriptors are live; both operands are packed and of this length, and lie
            // in memory that the handle's stream may access.
            let status = unsafe {
                lib.miopenActivationForward(
                    handle.raw,
                    activation.raw,
                    from_ref(&one).cast(),
                    tensor.raw,
                    pointer(x),
                    from_ref(&zero).cast(),
                    tensor.raw,
                    pointer(y),
                )
            };
            check::<MiOpenLibrary>(lib, "miopenActivationForward", status)
        })
    }
}
