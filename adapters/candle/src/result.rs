//! Results, and the refusal of gradients.
use crate::convert::{Named, Number};
use candle_core::{CpuStorage, CustomOp1, Device, Error, Layout, Result, Shape, Tensor};
use std::sync::{Mutex, PoisonError};

/// A tensor of `data`. If candle tracks an operand, it tracks the result too, so that `backward` finds [`Refusal`] rather than no
/// gradient.
pub(crate) fn tensor<T: Number>(
    op: &'static str,
    operands: &[Named<'_>],
    data: Vec<T>,
    dims: &[usize],
) -> Result<Tensor> {
    let Some((_, tracked)) = operands.iter().find(|(_, x)| x.track_op()) else {
        return Tensor::from_vec(data, dims, &Device::Cpu);
    };
    let result = (T::to_cpu_storage_owned(data), Shape::from(dims));
    tracked.apply_op1(Refusal { op, result: Mutex::new(Some(result)) })
}

/// Gives the result that was computed, and no gradient.
struct Refusal {
    op: &'static str,
    result: Mutex<Option<(CpuStorage, Shape)>>,
}

impl CustomOp1 for Refusal {
    fn name(&self) -> &'static str {
        self.op
    }
    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        let result = self.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(|| Error::msg(format!("{}: its result was taken before", self.op)))
    }
    fn bwd(&self, _: &Tensor, _: &Tensor, _: &Tensor) -> Result<Option<Tensor>> {
        Err(Error::msg(format!(
            "{} of rocm-ops has no gradient; use the op of candle_nn in training, or detach() its operands",
            self.op
        )))
    }
}
