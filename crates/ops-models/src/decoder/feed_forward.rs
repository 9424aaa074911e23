//! The feed-forward block of a layer.
use crate::families::gemma4::Beside;
use crate::pieces::{Dense, Loader, Mixture};
use crate::{Activation, Result};
use ops_core::model::Transformer;
use ops_core::{Backend, Float, Ref, TensorOf};

/// The feed-forward block of a layer.
pub(super) enum FeedForward<B: Backend> {
    Dense(Box<Dense<B>>),
    Mixture(Box<Mixture<B>>),
    Beside(Box<Beside<B>>),
}

impl<B: Backend> FeedForward<B> {
    /// The block applied to `h[t, dim]`, which is normed from `x`.
    pub(super) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        match self {
            FeedForward::Dense(dense) => dense.apply(b, activation, h),
            FeedForward::Mixture(mixture) => mixture.apply(b, activation, h),
            FeedForward::Beside(both) => both.apply(b, activation, h, x),
        }
    }
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The block of layer `i`.
    pub(super) fn feed_forward(&self, i: usize) -> Result<FeedForward<B>> {
        Ok(match self.config.experts.filter(|experts| i >= experts.leading_dense) {
            Some(experts) if self.config.experts_beside => {
                FeedForward::Beside(Box::new(self.beside(i, experts)?))
            }
            Some(experts) => FeedForward::Mixture(Box::new(self.mixture(i, experts)?)),
            None => FeedForward::Dense(Box::new(self.dense(i, "", self.config.ffn_of(i))?)),
        })
    }
}
