//! The feed-forward block of a layer.
use crate::families::gemma4::Beside;
use crate::pieces::{Dense, Loader, Mixture, Normed, Output};
use crate::{Activation, Result};
use ops_core::model::Transformer;
use ops_core::{Backend, Float, TensorOf};

/// The feed-forward block of a layer.
pub(super) enum FeedForward<B: Backend> {
    Dense(Box<Dense<B>>),
    Mixture(Box<Mixture<B>>),
    Beside(Box<Beside<B>>),
}

impl<B: Backend> FeedForward<B> {
    /// The block applied to the stream, and added to `onto` if one kernel computes both.
    pub(super) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        input: &Normed<'_, T, B>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>>
    where
        B: Transformer<T>,
    {
        Ok(Output::Alone(match self {
            FeedForward::Dense(dense) => return dense.apply_onto(b, activation, input, onto),
            FeedForward::Mixture(mixture) => mixture.apply(b, activation, input.h(b)?)?,
            FeedForward::Beside(both) => both.apply(b, activation, input.h(b)?, input.x().as_ref())?,
        }))
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
