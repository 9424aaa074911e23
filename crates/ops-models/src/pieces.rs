//! Pieces of layers, of which decoders, encoders and the parts of single families are made.
use crate::{NormKind, Result};
use ops_core::model::Weight;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf};

mod candidates;
mod feed_forward;
mod load;
mod stream;
mod summed;

pub(crate) use candidates::{Candidates, most};
pub(crate) use feed_forward::{Dense, Matrices, Mixture};
pub(crate) use load::{EMBEDDINGS, Loader};
pub(crate) use stream::{Normed, Output, Projected};
pub(crate) use summed::Summed;

/// A matrix and its bias.
pub(crate) struct Linear<B: Backend> {
    pub(crate) weight: Weight<B::Space>,
    pub(crate) bias: Option<TensorOf<B, f32>>,
}

impl<B: Backend> Linear<B> {
    pub(crate) fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: LinearOps<T>,
    {
        Ok(b.linear_bias(x, &self.weight, self.bias.as_ref().map(|bias| bias.any()))?)
    }
}

/// A norm of any kind.
pub(crate) struct Norm<B: Backend> {
    pub(crate) kind: NormKind,
    pub(crate) eps: f64,
    pub(crate) weight: TensorOf<B, f32>,
    pub(crate) bias: Option<TensorOf<B, f32>>,
}

impl<B: Backend> Norm<B> {
    /// Whether it is `x / sqrt(mean(x²) + eps) · weight`.
    fn is_rms(&self) -> bool {
        self.kind == NormKind::Rms
    }

    pub(crate) fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: NormOps<T>,
    {
        Ok(match self.kind {
            NormKind::Rms => b.rms_norm(x, &self.weight, self.eps)?,
            NormKind::Layer => {
                let bias = self.bias.as_ref().map(|bias| bias.any());
                b.layer_norm(x, &self.weight, bias, self.eps)?
            }
        })
    }

    /// `(norm(a + x), a + x)`
    pub(crate) fn after_adding<T: Float>(
        &self,
        b: &B,
        a: &TensorOf<B, T>,
        x: &TensorOf<B, T>,
    ) -> Result<(TensorOf<B, T>, TensorOf<B, T>)>
    where
        B: NormOps<T> + ElementwiseOps<T>,
    {
        if self.is_rms() {
            return Ok(b.add_rms_norm(a, x, &self.weight, self.eps)?);
        }
        let sum = b.add(a, x)?;
        Ok((self.apply(b, sum.as_ref())?, sum))
    }
}
