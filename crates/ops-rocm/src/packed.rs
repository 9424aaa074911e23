//! Weights as the kernels read them: as they are.
use crate::{HipSpace, Result, Rocm};
use ops_core::model::{PackWeights, QuantTransformer, Weight, matrix};
use ops_core::{Float, Ref, TensorOf};

/// Weights stay as they are: the kernels load them in the order that files have.
impl<T: Float> PackWeights<T> for Rocm
where
    Rocm: QuantTransformer<T>,
{
    type Packed = Weight<HipSpace>;

    fn pack(&self, weight: Weight<HipSpace>) -> Result<Weight<HipSpace>> {
        matrix(weight)
    }
    fn packed_bytes(&self, weight: &Weight<HipSpace>) -> usize {
        weight.bytes()
    }
    fn linear_packed(&self, x: Ref<'_, Self, T>, weight: &Weight<HipSpace>) -> Result<TensorOf<Self, T>> {
        weight.linear(self, x)
    }
}
