//! The logits that the next tokens are drawn from, where each rank of a group has those of some ids.
use crate::{Result, Share};
use ops_core::ops::*;
use ops_core::{Backend, Element, Float, Ref, Shape, Space, Tensor, TensorOf};
use std::ops::Range;

/// What the next token of each of `n` texts is drawn from.
pub(crate) struct Candidates<S: Space> {
    /// `[n, candidates]`.
    pub(crate) logits: Tensor<S, f32>,
    /// The ids of these logits, unless they are those of the whole vocabulary.
    pub(crate) ids: Option<Tensor<S, u32>>,
}

impl<S: Space> From<Tensor<S, f32>> for Candidates<S> {
    fn from(logits: Tensor<S, f32>) -> Self {
        Candidates { logits, ids: None }
    }
}

/// How many of the largest logits suffice for all of these draws; `None` if one of them may draw any id, or if there are none.
///
/// A draw among several ids rounds probabilities by the length of its row, so among fewer logits it may differ, about once in 10¹² draws.
/// A bound on probabilities (`top_p`) can be such that this decides, so these draws get all logits.
pub(crate) fn most(draws: impl IntoIterator<Item = Sample<f32>>) -> Option<usize> {
    let of_one = |draw: Sample<f32>| match draw {
        Sample { temperature: 0.0, .. } => Some(1),
        Sample { top_p: None, top_k, .. } => top_k,
        _ => None,
    };
    draws.into_iter().map(of_one).try_fold(0, |most, one| Some(most.max(one?))).filter(|most| *most > 0)
}

impl<S: Space> Share<S> {
    /// How many ids each rank has, except for the last ones.
    fn ids_each(&self, vocabulary: usize) -> usize {
        vocabulary.div_ceil(self.ranks())
    }

    /// The ids of which this rank computes the logits. If it has none, the last id, which is another rank's.
    pub(crate) fn ids(&self, vocabulary: usize) -> Range<usize> {
        let each = self.ids_each(vocabulary);
        let start = (self.rank() * each).min(vocabulary.saturating_sub(1));
        start..(start + each).min(vocabulary)
    }

    /// The logits of all ranks, `[n, vocabulary]`.
    pub(crate) fn all_logits<T: Float, B>(
        &self,
        b: &B,
        own: TensorOf<B, T>,
        vocabulary: usize,
    ) -> Result<TensorOf<B, T>>
    where
        B: Backend<Space = S> + CopyOps,
    {
        if self.ranks() == 1 {
            return Ok(own);
        }
        let (n, each) = (own.dims()[0], self.ids_each(vocabulary));
        let mut padded = b.zeros(&[n, each])?;
        b.copy_into(&own, padded.as_mut().narrow(1, 0, own.dims()[1])?)?;
        let all = self.all_gather(b, padded)?;
        let mut logits = b.empty(Shape::new(&[n, vocabulary])?)?;
        for (rank, start) in (0..vocabulary).step_by(each.max(1)).enumerate() {
            let len = each.min(vocabulary - start);
            let from = all.as_ref().narrow(0, rank * n, n)?.narrow(1, 0, len)?;
            b.copy_into(from, logits.as_mut().narrow(1, start, len)?)?;
        }
        Ok(logits)
    }

    /// This rank's own ids as a tensor, which turns the index of a logit into a token; `None` if there is one rank. Made once, when the
    /// model is loaded.
    pub(crate) fn names<B: Backend<Space = S>>(
        &self,
        b: &B,
        vocabulary: usize,
    ) -> Result<Option<TensorOf<B, u32>>> {
        if self.ranks() == 1 {
            return Ok(None);
        }
        let ids = self.ids(vocabulary);
        let has_own = ids.start == self.rank() * self.ids_each(vocabulary);
        let own: Vec<u32> = ids.filter(|_| has_own).map(|id| id as u32).collect();
        Ok(Some(b.tensor([own.len()], &own)?))
    }

    /// Gathers the `k` largest logits of every rank. `own` are this rank's logits, and `names` their ids. Among equal logits, ids are in
    /// ascending order, as in the whole vocabulary. So a draw that keeps at most `k` gets the same token.
    pub(crate) fn largest_logits<B>(
        &self,
        b: &B,
        own: Ref<'_, B, f32>,
        names: Ref<'_, B, u32>,
        k: usize,
    ) -> Result<Candidates<S>>
    where
        B: Backend<Space = S> + CopyOps + IndexOps + FillOps<f32> + SortOps<f32>,
    {
        let (n, count) = (own.dims()[0], k.min(names.dims()[0]));
        // What fills up the rest is never drawn.
        let (mut logits, mut ids) = (b.full(&[n, k], f32::NEG_INFINITY)?, b.zeros::<u32>(&[n, k])?);
        if count > 0 {
            let (values, indices) = b.topk(own, count)?;
            b.copy_into(&values, logits.as_mut().narrow(1, 0, count)?)?;
            let named = b.index_select(names, &indices.reshape([n * count])?, 0)?.reshape([n, count])?;
            b.copy_into(&named, ids.as_mut().narrow(1, 0, count)?)?;
        }
        Ok(Candidates { logits: self.beside(b, logits)?, ids: Some(self.beside(b, ids)?) })
    }

    /// The rows `[n, k]` of all ranks beside each other, `[n, ranks · k]`.
    fn beside<T: Element, B>(&self, b: &B, x: TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Backend<Space = S> + CopyOps,
    {
        let (n, k, ranks) = (x.dims()[0], x.dims()[1], self.ranks());
        let all = self.all_gather(b, x)?.reshape([ranks, n, k])?;
        Ok(b.copy_of(all.as_ref().transpose(0, 1)?)?.reshape([n, ranks * k])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::Determinism;
    use ops_cpu::{Cpu, HostGroup};
    use std::sync::Arc;

    const N: usize = 3;

    /// Logits with many equal ones, in which some rows have NaN or infinities.
    fn logits(vocabulary: usize, seed: usize) -> Vec<f32> {
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];
        let one = |at: usize| match (at * 7919 + seed * 104_729) % 101 {
            odd_one if seed > 3 && odd_one < 5 => odd[odd_one],
            other => (other % 6) as f32 - 2.0,
        };
        (0..N * vocabulary).map(one).collect()
    }

    /// The tokens that each of `ranks` draws from the largest logits of all.
    fn drawn(all: &[f32], vocabulary: usize, ranks: usize, sample: Sample<f32>) -> Vec<Vec<u32>> {
        let one = |group: HostGroup<Cpu>| {
            let b = Cpu::new();
            let share = Share::noting(group, Determinism::Run, Arc::default()).unwrap();
            let all = b.tensor(&[N, vocabulary], all).unwrap();
            let ids = share.ids(vocabulary);
            let own = all.as_ref().narrow(1, ids.start, ids.len()).unwrap();
            let k = most([sample]).unwrap();
            let names = share.names(&b, vocabulary).unwrap().unwrap();
            let of = share.largest_logits(&b, own, names.as_ref(), k).unwrap();
            assert_eq!(of.logits.dims(), [N, ranks * k]);
            let at = b.sample(&of.logits, &b.tensor(&[N], &[5i64, 6, 7]).unwrap(), sample).unwrap();
            let (at, ids) = (at.to_vec(&b).unwrap(), of.ids.unwrap().to_vec(&b).unwrap());
            at.iter().zip(ids.chunks(ranks * k)).map(|(at, ids)| ids[*at as usize]).collect()
        };
        let group = HostGroup::of(vec![Cpu::new(); ranks]).unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> = group.into_iter().map(|rank| scope.spawn(|| one(rank))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        })
    }

    #[test]
    fn the_largest_logits_of_each_rank_give_the_token_of_all() {
        let b = Cpu::new();
        // On 4 ranks, 13 ids are 4, 4, 4 and 1; 9 are 3, 3, 3 and none.
        for (vocabulary, seed) in [(40, 0), (13, 1), (9, 2), (40, 4), (13, 5), (9, 6), (40, 7), (40, 8)] {
            let all = logits(vocabulary, seed);
            let x = b.tensor(&[N, vocabulary], &all).unwrap();
            for sample in
                [Sample::greedy(), Sample::temperature(0.8).top_k(2), Sample::temperature(2.0).top_k(7)]
            {
                let want = b
                    .sample(&x, &b.tensor(&[N], &[5i64, 6, 7]).unwrap(), sample)
                    .unwrap()
                    .to_vec(&b)
                    .unwrap();
                for ranks in [2, 3, 4] {
                    let got = drawn(&all, vocabulary, ranks, sample);
                    assert!(
                        got.iter().all(|got| *got == want),
                        "{vocabulary} {seed} {sample:?} on {ranks}: {got:?}, wanted {want:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn only_draws_from_some_ids_need_few() {
        let (greedy, few, any) =
            (Sample::greedy(), Sample::temperature(1.0).top_k(9), Sample::temperature(1.0));
        assert_eq!(most([greedy, few, greedy]), Some(9));
        assert_eq!((most([greedy]), most([greedy, any]), most([])), (Some(1), None, None));
        assert_eq!(most([few.top_p(0.9)]), None);
    }
}
