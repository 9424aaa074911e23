//! Layers in which every token of a text sees every other, or those around it.
use super::EncoderConfig;
use super::batch::Batch;
use crate::Result;
use crate::pieces::{Dense, Linear, Norm};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Shape, TensorOf};

/// One layer: attention and feed-forward, each added to its input. Norms are after the sums, or before each of the two.
pub(super) struct Layer<B: Backend> {
    /// Query, key and value in one matrix.
    pub(super) query_key_value: Linear<B>,
    pub(super) output: Linear<B>,
    /// Absent in a first layer whose input is normed already.
    pub(super) attention_norm: Option<Norm<B>>,
    pub(super) feed: Dense<B>,
    pub(super) feed_norm: Norm<B>,
}

/// What is added to a token's embedding before the first norm.
pub(super) enum Added<B: Backend, T: Float> {
    Nothing,
    /// The embedding of token type 0, `[1, dim]`.
    Type(TensorOf<B, T>),
    /// `[max_tokens, dim]`: the embedding of the position, with that of token type 0.
    Position(TensorOf<B, T>),
}

/// Cosines and sines, `[max_tokens, features / 2]` each.
pub(super) type Tables<B> = (TensorOf<B, f32>, TensorOf<B, f32>);

/// How layers rotate queries and keys.
pub(super) struct Rotations<B: Backend> {
    pub(super) all: Tables<B>,
    /// For layers with a window.
    pub(super) windowed: Option<Tables<B>>,
}

/// The encoder without its pooling.
pub(super) struct Stack<T: Float, B: Backend> {
    /// Not packed, because it is used for lookups.
    pub(super) words: Weight<B::Space>,
    pub(super) added: Added<B, T>,
    pub(super) norm: Norm<B>,
    /// Absent if there is a table of positions.
    pub(super) rotations: Option<Rotations<B>>,
    pub(super) layers: Vec<Layer<B>>,
    /// After the last layer, if norms are before each block.
    pub(super) output_norm: Option<Norm<B>>,
}

impl<T: Float, B: Transformer<T>> Stack<T, B> {
    /// The output of the last layer, `[tokens, dim]`.
    pub(super) fn hidden(&self, b: &B, config: &EncoderConfig, batch: &Batch<B>) -> Result<TensorOf<B, T>> {
        let mut x: TensorOf<B, T> = b.embedding(&self.words, &batch.ids)?;
        match &self.added {
            Added::Nothing => {}
            Added::Type(row) => x = b.add(&x, row)?,
            Added::Position(table) => {
                x = b.add(&x, &b.index_select(table, &batch.places, 0)?)?;
            }
        }
        x = self.norm.apply(b, x.as_ref())?;
        for (i, layer) in self.layers.iter().enumerate() {
            x = if config.pre_norm {
                self.pre_normed(b, config, (i, layer), batch, x)?
            } else {
                let attended = self.attend(b, config, (i, layer), batch, &x)?;
                let h = match &layer.attention_norm {
                    Some(norm) => norm.after_adding(b, &attended, &x)?.0,
                    None => b.add(&attended, &x)?,
                };
                let fed = layer.feed.apply(b, config.activation, h.as_ref())?;
                layer.feed_norm.after_adding(b, &fed, &h)?.0
            };
        }
        match &self.output_norm {
            Some(norm) => norm.apply(b, x.as_ref()),
            None => Ok(x),
        }
    }

    fn pre_normed(
        &self,
        b: &B,
        config: &EncoderConfig,
        (i, layer): (usize, &Layer<B>),
        batch: &Batch<B>,
        x: TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>> {
        let normed = layer.attention_norm.as_ref().map(|norm| norm.apply(b, x.as_ref())).transpose()?;
        let attended = self.attend(b, config, (i, layer), batch, normed.as_ref().unwrap_or(&x))?;
        let (h, x) = layer.feed_norm.after_adding(b, &attended, &x)?;
        Ok(b.add(&x, &layer.feed.apply(b, config.activation, h.as_ref())?)?)
    }

    /// Attention of every token to the tokens of its own text.
    fn attend(
        &self,
        b: &B,
        config: &EncoderConfig,
        (i, layer): (usize, &Layer<B>),
        batch: &Batch<B>,
        x: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>> {
        let EncoderConfig { dim, heads, .. } = *config;
        let mut all = layer.query_key_value.apply(b, x.as_ref())?;
        let window = config.neighbours(i).map(|window| window.each_side);
        if let Some(Rotations { all: whole, windowed }) = &self.rotations {
            let (cos, sin) = windowed.as_ref().filter(|_| window.is_some()).unwrap_or(whole);
            let t = x.dims()[0];
            // The heads of query, key and value are interleaved, so those of query and key are one view.
            let both = all.as_mut().reshape(&[1, t, 3 * heads, dim / heads])?.transpose(1, 2)?;
            let (both, places) = (both.narrow(1, 0, 2 * heads)?, batch.places.as_ref().reshape(&[1, t])?);
            b.rope_at_inplace(both, cos, sin, places, Rope::new(RopeForm::Half))?;
        }
        let mut o = b.empty(Shape::new(x.dims())?)?;
        let (extras, op) = (AttentionExtras::new(), Attention::full().window(window, window));
        if let Some(len) = batch.common_length {
            let by_head = |heads: usize| [batch.count, len, heads, dim / config.heads];
            // Views [texts, heads, tokens, features] need no copy.
            let part = |i: usize| {
                let all = all.as_ref().reshape(&by_head(3 * heads))?.transpose(1, 2)?;
                all.narrow(1, i * heads, heads)
            };
            let rows = o.as_mut().reshape(&by_head(heads))?.transpose(1, 2)?;
            b.attention_with_into(part(0)?, part(1)?, part(2)?, extras, rows, op)?;
        } else {
            let by_head = |heads: usize| [x.dims()[0], heads, dim / config.heads];
            let part = |i: usize| all.as_ref().reshape(&by_head(3 * heads))?.narrow(1, i * heads, heads);
            let rows = o.as_mut().reshape(&by_head(heads))?;
            let starts = Starts { queries: &batch.starts, keys: &batch.starts };
            b.attention_varlen_into(part(0)?, part(1)?, part(2)?, starts, extras, rows, op)?;
        }
        layer.output.apply(b, o.as_ref())
    }
}
