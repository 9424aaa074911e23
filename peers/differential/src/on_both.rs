//! One call on both sides, and on the reference in f64.
use crate::call::Call;
use crate::operand::Operand;
use crate::report::{Report, theirs};
use candle_core::{Tensor, WithDType};
use rocm_ops::ops::registry::OpsOnFloats;
use rocm_ops::{Cpu, Float, Host, Reference, Result, Scalar, TensorOf, TensorRef};

/// A call of an op on floats, with its options.
pub(crate) trait FloatCall: Copy {
    fn ours<T: Float, B: OpsOnFloats<T, Space = Host>>(
        self,
        b: &B,
        x: &[TensorRef<'_, Host, T>],
    ) -> Result<TensorOf<B, T>>;
    fn theirs(self, x: &[Tensor]) -> candle_core::Result<Tensor>;
}

/// The elements of our result.
pub(crate) fn ours<T: Scalar>(y: Result<TensorOf<Cpu, T>>) -> std::result::Result<Vec<f64>, String> {
    let read =
        |y: TensorOf<Cpu, T>| y.to_vec(&Cpu::new()).map(|y| y.into_iter().map(Scalar::to_f64).collect());
    y.and_then(read).map_err(|e| e.to_string())
}

/// Shapes and layouts of operands.
pub(crate) fn texts<T: Scalar + WithDType>(operands: &[Operand<T>]) -> String {
    operands.iter().map(Operand::text).collect::<Vec<_>>().join(", ")
}

/// Makes the call and compares the results.
pub(crate) fn on_both<T: Float + WithDType>(
    report: &mut Report,
    op: impl FloatCall,
    call: &Call<'_>,
    operands: &[Operand<T>],
) where
    Cpu: OpsOnFloats<T, Space = Host>,
{
    let views: Vec<_> = operands.iter().map(Operand::ours).collect();
    let wide: Vec<_> = operands.iter().map(Operand::wide).collect();
    let wide: Vec<_> = wide.iter().map(|x| x.as_ref()).collect();
    let tensors: Vec<Tensor> = operands.iter().map(|o| o.theirs.clone()).collect();
    let reference = Reference::new();
    let truth = op.ours::<f64, _>(&reference, &wide).and_then(|y| y.to_vec(&reference)).ok();
    report.compare(call, ours(op.ours(&Cpu::new(), &views)), theirs(|| op.theirs(&tensors)), truth);
}
