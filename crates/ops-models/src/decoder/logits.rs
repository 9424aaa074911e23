//! Logits, and the tokens drawn from them.
use super::drawn::{Draw, Drawn, Draws};
use super::{Decoder, PagedStep, Pages};
use crate::{Result, Share};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Float, Ref, Shape, Space, TensorOf};
use std::ops::Range;

/// The ids of which a rank computes the logits: equally many on each, except for the last ones. A rank without any has one of another.
pub(super) fn ids<S: Space>(share: &Share<S>, vocabulary: usize) -> Range<usize> {
    let each = vocabulary.div_ceil(share.ranks());
    let start = (share.rank() * each).min(vocabulary.saturating_sub(1));
    start..(start + each).min(vocabulary)
}

impl<T: Float, B: Transformer<T>> Decoder<T, B> {
    /// The token drawn after each row of the last layer's output. `positions` are those of the tokens before them.
    pub(super) fn drawn(
        &self,
        b: &B,
        h: &TensorOf<B, T>,
        draws: &[Draw<'_>],
        positions: &[usize],
    ) -> Result<Vec<Drawn>> {
        self.share.step(|| self.draw(b, h, draws, positions))
    }

    fn draw(&self, b: &B, h: &TensorOf<B, T>, draws: &[Draw<'_>], positions: &[usize]) -> Result<Vec<Drawn>> {
        let mut logits = self.capped(b, self.logits_on(b, h.as_ref())?)?;
        if draws.iter().any(|draw| draw.change.is_some()) {
            let mut host = logits.to_vec(b)?;
            for (row, draw) in host.chunks_mut(self.vocabulary().max(1)).zip(draws) {
                if let Some(change) = &draw.change {
                    change(row);
                }
            }
            logits = b.tensor(logits.dims(), &host)?;
        }
        let (mut all, mut start) = (Vec::with_capacity(draws.len()), 0);
        // Usually one call: all texts are drawn alike.
        for alike in draws.chunk_by(|one, other| one.op == other.op) {
            let counters: Vec<i64> = alike.iter().map(|draw| draw.counter).collect();
            let rows = match alike.len() == draws.len() {
                true => logits.as_ref(),
                false => logits.as_ref().narrow(0, start, alike.len())?,
            };
            let mut drawn = Draws::new(b, alike.len())?;
            drawn.draw(b, rows, b.tensor(&[alike.len()], &counters)?.as_ref(), alike[0].op)?;
            drawn.agree(&self.share)?;
            all.extend(drawn.read(b, positions.iter().copied().skip(start))?);
            start += alike.len();
        }
        Ok(all)
    }

    /// The logits with the softcap.
    pub(super) fn capped(&self, b: &B, mut logits: TensorOf<B, f32>) -> Result<TensorOf<B, f32>> {
        if let Some(cap) = self.config.logit_softcap {
            logits = b.affine(&logits, 1.0 / cap, 0.0)?;
            logits = b.tanh(&logits)?;
            b.affine_inplace(&mut logits, cap, 0.0)?;
        }
        Ok(logits)
    }

    /// [`logits_paged`](Self::logits_paged) of pages that were checked.
    pub(super) fn logits_of_step(
        &self,
        b: &B,
        pages: &mut Pages<B::Space, T>,
        step: &PagedStep<B::Space>,
    ) -> Result<TensorOf<B, f32>> {
        let logits = self.logits_on(b, self.paged_hidden(b, pages, step)?.as_ref())?;
        self.capped(b, logits)
    }

    /// The logits on the backend, without the softcap. All ranks get all of them.
    pub(super) fn logits_on(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, f32>> {
        let logits = match &self.output {
            Some(output) => output.apply(b, h)?,
            None if self.share.ranks() == 1 => b.linear(h, &self.embedding)?,
            None => {
                let ids = ids(&self.share, self.vocabulary());
                b.linear(h, self.embedding.as_ref().narrow(0, ids.start, ids.len())?)?
            }
        };
        if self.share.ranks() == 1 {
            return Ok(b.cast(&logits)?);
        }
        Ok(b.cast(&self.gathered(b, logits)?)?)
    }

    /// The logits of all ranks, `[n, vocabulary]`.
    fn gathered(&self, b: &B, own: TensorOf<B, T>) -> Result<TensorOf<B, T>> {
        let (n, vocabulary) = (own.dims()[0], self.vocabulary());
        let each = vocabulary.div_ceil(self.share.ranks());
        let mut padded = b.zeros(&[n, each])?;
        b.copy_into(&own, padded.as_mut().narrow(1, 0, own.dims()[1])?)?;
        let all = self.share.all_gather(b, padded)?;
        let mut logits = b.empty(Shape::new(&[n, vocabulary])?)?;
        for (rank, start) in (0..vocabulary).step_by(each.max(1)).enumerate() {
            let len = each.min(vocabulary - start);
            let from = all.as_ref().narrow(0, rank * n, n)?.narrow(1, 0, len)?;
            b.copy_into(from, logits.as_mut().narrow(1, start, len)?)?;
        }
        Ok(logits)
    }

    pub(super) fn logits(&self, b: &B, h: Ref<'_, B, T>) -> Result<Vec<f32>> {
        let mut logits = self.share.step(|| Ok(self.logits_on(b, h)?.to_vec(b)?))?;
        if let Some(cap) = self.config.logit_softcap {
            logits.iter_mut().for_each(|v| *v = (cap * (f64::from(*v) / cap).tanh()) as f32);
        }
        Ok(logits)
    }
}
