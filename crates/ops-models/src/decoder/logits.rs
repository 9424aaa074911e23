//! Logits, and the tokens drawn from them.
use super::Decoder;
use super::drawn::{Draw, Drawn, Draws};
use crate::Result;
use crate::pieces::{Candidates, most};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Float, Ref, TensorOf};

/// Whether one of these draws changes the logits on the host.
fn change_logits(draws: &[Draw<'_>]) -> bool {
    draws.iter().any(|draw| draw.change.is_some())
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
        let most = most(draws.iter().map(|draw| draw.op)).filter(|_| !change_logits(draws));
        let candidates = self.candidates(b, h.as_ref(), most)?;
        self.draw_among(b, &candidates, draws, positions)
    }

    /// The token drawn among each row of candidates, which suffice for these draws.
    pub(super) fn draw_among(
        &self,
        b: &B,
        candidates: &Candidates<B::Space>,
        draws: &[Draw<'_>],
        positions: &[usize],
    ) -> Result<Vec<Drawn>> {
        let changed = self.changed(b, candidates, draws)?;
        let candidates = changed.as_ref().unwrap_or(candidates);
        let (mut all, mut start) = (Vec::with_capacity(draws.len()), 0);
        // Usually one call: all texts are drawn alike.
        for alike in draws.chunk_by(|one, other| one.op == other.op) {
            let counters: Vec<i64> = alike.iter().map(|draw| draw.counter).collect();
            let mut drawn = Draws::new(b, alike.len())?;
            drawn.draw(b, (candidates, start), b.tensor(&[alike.len()], &counters)?.as_ref(), alike[0].op)?;
            drawn.agree(b, &self.share)?;
            all.extend(drawn.read(b, positions.iter().copied().skip(start))?);
            start += alike.len();
        }
        Ok(all)
    }

    /// All logits, changed on the host; `None` if no draw changes them.
    fn changed(
        &self,
        b: &B,
        candidates: &Candidates<B::Space>,
        draws: &[Draw<'_>],
    ) -> Result<Option<Candidates<B::Space>>> {
        if !change_logits(draws) {
            return Ok(None);
        }
        let mut host = candidates.logits.to_vec(b)?;
        for (row, draw) in host.chunks_mut(self.vocabulary().max(1)).zip(draws) {
            if let Some(change) = &draw.change {
                change(row);
            }
        }
        Ok(Some(b.tensor(candidates.logits.dims(), &host)?.into()))
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

    /// What the token after each row is drawn from, by draws that need only the `most` largest logits, or all of them.
    pub(super) fn candidates(
        &self,
        b: &B,
        h: Ref<'_, B, T>,
        most: Option<usize>,
    ) -> Result<Candidates<B::Space>> {
        // An id and a logit in f32 for each candidate must be fewer bytes than all logits.
        let pays = |k: usize| k.saturating_mul(8 * self.share.ranks()) < self.vocabulary() * T::DTYPE.size();
        let most = most.filter(|k| pays(*k) && (*k == 1 || !self.share.in_order()));
        match most.zip(self.names.as_ref()) {
            Some((k, names)) => {
                let own = self.capped(b, b.cast(&self.own_logits(b, h)?)?)?;
                self.share.largest_logits(b, own.as_ref(), names.as_ref(), k)
            }
            None => Ok(self.capped(b, self.logits_on(b, h)?)?.into()),
        }
    }

    /// The logits on the backend, without the softcap. All ranks get all of them.
    pub(super) fn logits_on(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, f32>> {
        Ok(b.cast(&self.share.all_logits(b, self.own_logits(b, h)?, self.vocabulary())?)?)
    }

    /// The logits of the ids of this rank.
    fn own_logits(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>> {
        match &self.output {
            Some(output) => output.apply(b, h),
            None if self.share.ranks() == 1 => Ok(b.linear(h, &self.embedding)?),
            None => {
                let ids = self.share.ids(self.vocabulary());
                Ok(b.linear(h, self.embedding.as_ref().narrow(0, ids.start, ids.len())?)?)
            }
        }
    }

    pub(super) fn logits(&self, b: &B, h: Ref<'_, B, T>) -> Result<Vec<f32>> {
        let mut logits = self.share.step(|| Ok(self.logits_on(b, h)?.to_vec(b)?))?;
        if let Some(cap) = self.config.logit_softcap {
            logits.iter_mut().for_each(|v| *v = (cap * (f64::from(*v) / cap).tanh()) as f32);
        }
        Ok(logits)
    }
}
