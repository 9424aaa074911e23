//! Batch norm for inference.
use super::descriptor::Tensor;
use super::{MiOpen, datatype, pointer, suits};
use crate::ProviderId;
use crate::choice::Target;
use crate::provider::Provider;
use crate::providers::hip::bind::Binding;
use crate::vendor::{MiOpenLibrary, check};
use crate::{HipSpace, Result, Rocm};
use miopen_sys as sys;
use ops_core::ops::BatchNorm;
use ops_core::{Call, DType, Determinism, Float, Op, Operands, Reason};
use std::ptr::{from_mut, null_mut};

/// Checks what MIOpen requires of the vectors of a batch norm: all four given, packed, in f32.
fn vectors_suit(on: &dyn Operands) -> Result<(), Reason> {
    for name in ["weight", "bias", "mean", "var"] {
        let Some(vector) = on.get(name) else {
            return Err(Reason::Because(format!("MIOpen's batch norm needs a {name}")));
        };
        if vector.dtype != DType::F32 {
            return Err(Reason::DType { operand: name, dtype: vector.dtype });
        }
        if !vector.layout.is_contiguous() {
            return Err(Reason::Because(format!("operand {name} must be packed")));
        }
    }
    Ok(())
}

/// x and y without the vectors, which have their own type.
struct Images<'o>(&'o dyn Operands);

impl Operands for Images<'_> {
    fn count(&self) -> usize {
        self.0.count()
    }
    fn operand(&self, index: usize) -> Option<ops_core::Operand<'_>> {
        self.0.operand(index).filter(|operand| matches!(operand.name, "x" | "y"))
    }
}

impl<T: Float> Provider<BatchNorm<T>> for MiOpen {
    fn id(&self) -> ProviderId {
        ProviderId::MIOPEN
    }

    fn determinism(&self, _: &Target, _: &BatchNorm<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &BatchNorm<T>, on: &dyn Operands) -> Result<(), Reason> {
        vectors_suit(on)?;
        suits(target, op.name(), &Images(on), super::ALL_SINGLE_AND_BELOW)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, BatchNorm<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<BatchNorm<T>>(args, rocm)?;
        let (x, y) = (problem.at(0), problem.at(5));
        let [batch, channels, ref image @ ..] = *x.layout.dims() else { return Ok(()) };
        if x.layout.is_empty() {
            return Ok(());
        }
        let vector = |place| problem.get(place).map_or(null_mut(), pointer);
        let (mut one, mut zero) = (1.0f32, 0.0f32);
        rocm.with_library::<MiOpenLibrary, _>(|lib, handle| {
            let tensor = Tensor::packed(lib, datatype(x), [batch, channels, image.iter().product(), 1])?;
            let parameters = Tensor::packed(lib, sys::miopenFloat, [1, channels, 1, 1])?;
            // SAFETY: handle and descriptors are live; the operands are packed and have these extents, and
            // lie in memory that the handle's stream may access. MIOpen reads the two factors before it
            // returns, and only reads the vectors.
            let status = unsafe {
                lib.miopenBatchNormalizationForwardInference(
                    handle.raw,
                    sys::miopenBNSpatial,
                    from_mut(&mut one).cast(),
                    from_mut(&mut zero).cast(),
                    tensor.raw,
                    pointer(x),
                    tensor.raw,
                    pointer(y),
                    parameters.raw,
                    vector(1),
                    vector(2),
                    vector(3),
                    vector(4),
                    op.eps,
                )
            };
            check::<MiOpenLibrary>(lib, "miopenBatchNormalizationForwardInference", status)
        })
    }
}
