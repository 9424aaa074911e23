//! The block after the last layer that predicts the token after the next one. Gloeckle et al., "Better & Faster Large Language
//! Models via Multi-token Prediction", 2024.
use super::pages::Past;
use super::{Decoder, Layer, Row, State, attention};
use crate::pieces::{Linear, Loader, Norm, Normed};
use crate::{Config, Error, Result};
use ops_core::model::Transformer;
use ops_core::ops::CopyMethods;
use ops_core::{Backend, Float, Ref, Shape, Space, TensorOf};

/// One layer with keys and values of its own. It reads the normed result of the model's last layer, and the next token.
pub(super) struct Further<T: Float, B: Backend> {
    token_norm: Norm<B>,
    hidden_norm: Norm<B>,
    /// Of both, the token first.
    projection: Linear<B>,
    layer: Layer<T, B>,
    output_norm: Norm<B>,
    /// Of a model that has this layer alone.
    config: Config,
}

/// The keys and values of the block of a [`Decoder`] that predicts the token after the next one, for one text.
pub struct FurtherState<S: Space, T: Float>(State<S, T>);

impl<S: Space, T: Float> FurtherState<S, T> {
    /// Number of positions so far: one less than the text has tokens, after a step with all of them.
    pub fn len(&self) -> usize {
        self.0.len()
    }
    /// Whether there are no positions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Removes all but the first `len` positions.
    ///
    /// # Errors
    /// None: the block has no recurrent layer.
    pub fn truncate(&mut self, len: usize) -> Result<()> {
        self.0.truncate(len)
    }
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The block, if it is to be loaded. `own` is the configuration of this rank.
    pub(super) fn further(&self, own: &Config) -> Result<Option<Further<T, B>>> {
        let Config { dim, layers, further_layers, .. } = *self.config;
        if !self.config.loads_further {
            self.pass_over(layers..layers + further_layers);
            return Ok(None);
        }
        if !self.config.runs_further || further_layers != 1 {
            return Err(Error::Key {
                key: format!("{}.nextn_predict_layers", self.config.architecture),
                got: further_layers.to_string(),
                wanted: "1, in a family whose further layer this program runs".into(),
            });
        }
        let part = |name: &str| format!("blk.{layers}.nextn.{name}");
        let mut config = own.clone();
        (config.layers, config.recurrent) = (1, None);
        Ok(Some(Further {
            token_norm: self.norm(&part("enorm"), dim)?,
            hidden_norm: self.norm(&part("hnorm"), dim)?,
            projection: self.linear(&part("eh_proj"), [dim, self.product("embedding_length", 2, dim)?])?,
            layer: Layer { slot: 0, ..self.layer(layers)? },
            output_norm: self.norm(&part("shared_head_norm"), dim)?,
            config,
        }))
    }
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// Appends `tokens` to `state`, and returns the normed result of the last layer for each of them, `[tokens, dim]`: what
    /// [`logits_of`](Self::logits_of) and [`further`](Self::further) read.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_hidden(
        &self,
        b: &B,
        state: &mut State<B::Space, T>,
        tokens: &[u32],
    ) -> Result<TensorOf<B, T>> {
        self.hidden(b, &mut [(state, tokens)])
    }

    /// The logits after each row of the last layer's normed result, in rows of [`vocabulary`](Self::vocabulary).
    ///
    /// # Errors
    /// Those of the backend.
    pub fn logits_of(&self, b: &B, hidden: Ref<'_, B, T>) -> Result<Vec<f32>> {
        self.logits(b, hidden)
    }

    /// An empty state for [`further`](Self::further) and up to `capacity` positions.
    ///
    /// # Errors
    /// [`Error::Key`] if the model was loaded without the block; those of [`state`](Self::state).
    pub fn further_state(&self, b: &B, capacity: usize) -> Result<FurtherState<B::Space, T>> {
        let max = self.context();
        if capacity > max {
            return Err(Error::Capacity { got: capacity, max });
        }
        State::new(b, &self.loaded_further()?.config, capacity).map(FurtherState)
    }

    /// Predicts one token further than [`forward`](Self::forward): returns the logits for the token that follows the last of
    /// `next`. `hidden` has a row for each of some consecutive tokens of a text ([`forward_hidden`](Self::forward_hidden)), and
    /// `next` the token after each of them. `state` has the positions before these.
    ///
    /// ```no_run
    /// # use rocm_ops::models::{Config, Decoder, most_likely};
    /// # let (cpu, gguf) = (rocm_ops::Cpu::new(), rocm_ops::gguf::Gguf::open("model.gguf")?);
    /// let config = Config::new(gguf.metadata())?.with_further(true);
    /// let model = Decoder::<f32, _>::load_with(&cpu, &gguf, config, 512, &mut |_, _| ())?;
    /// let (mut state, mut further) = (model.state(&cpu, 512)?, model.further_state(&cpu, 512)?);
    /// let hidden = model.forward_hidden(&cpu, &mut state, &[1, 2, 3])?;
    /// let next = most_likely(&model.logits_of(&cpu, hidden.as_ref().narrow(0, 2, 1)?)?, 2).expect("numbers");
    /// // A guess at the token after `next`, which one step of the model can check together with `next`.
    /// let guess = most_likely(&model.further(&cpu, &mut further, hidden.as_ref(), &[2, 3, next])?, 3);
    /// # Ok::<(), rocm_ops::models::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Key`] if the model was loaded without the block ([`Config::with_further`]), [`Error::Tokens`] if there are no
    /// tokens, too many, or another number of rows; those of the backend. `state` then has the positions that it had.
    pub fn further(
        &self,
        b: &B,
        state: &mut FurtherState<B::Space, T>,
        hidden: Ref<'_, B, T>,
        next: &[u32],
    ) -> Result<Vec<f32>> {
        let (block, state, n) = (self.loaded_further()?, &mut state.0, next.len());
        state.check(n)?;
        if hidden.dims().first() != Some(&n) {
            let room = hidden.dims().first().copied().unwrap_or(0);
            return Err(Error::Tokens { got: n, before: state.len(), room });
        }
        state.begin();
        let logits = self.share.step(|| self.predict(b, block, (&mut *state, next), hidden))?;
        state.finish(n);
        Ok(logits)
    }

    fn predict(
        &self,
        b: &B,
        block: &Further<T, B>,
        row: Row<'_, B::Space, T>,
        hidden: Ref<'_, B, T>,
    ) -> Result<Vec<f32>> {
        let (next, n, dim) = (row.1, row.1.len(), self.config.dim);
        let ids = b.tensor(&[n], next)?;
        let token = block.token_norm.apply(b, self.embedded(b, &ids)?.as_ref())?;
        let hidden = block.hidden_norm.apply(b, hidden)?;
        let mut both = b.empty(Shape::new(&[n, 2 * dim])?)?;
        b.copy_into(&token, both.as_mut().narrow(1, 0, dim)?)?;
        b.copy_into(&hidden, both.as_mut().narrow(1, dim, dim)?)?;
        let x = block.projection.apply(b, both.as_ref())?;
        let input = Normed::new(&block.layer.attention_norm, x);
        let rows = &mut [row];
        let positions = attention::positions(b, rows)?;
        let mut past = Past::States(rows, &positions);
        let layer = (self.config.layers, &block.layer);
        let h = self.layer(b, layer, &mut past, &input, None, &block.output_norm)?.into_h(b)?;
        self.logits(b, h.as_ref().narrow(0, n - 1, 1)?)
    }

    fn loaded_further(&self) -> Result<&Further<T, B>> {
        self.further.as_ref().ok_or_else(|| Error::Key {
            key: format!("{}.nextn_predict_layers", self.config.architecture),
            got: self.config.further_layers.to_string(),
            wanted: "1, and a model loaded with Config::with_further".into(),
        })
    }
}
