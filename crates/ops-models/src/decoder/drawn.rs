//! Drawn tokens, each with the logit that it was drawn by.
use crate::pieces::Candidates;
use crate::{NanLogit, Result, Share};
use ops_core::ops::{
    CopyMethods, CopyOps, ElementwiseMethods, ElementwiseOps, IndexMethods, IndexOps, Sample,
    SamplingMethods, SamplingOps,
};
use ops_core::{Backend, DType, Error, Layout, Space, Tensor, TensorMut, TensorRef};

/// The token drawn for a text of a step, or why there is none.
pub type Drawn = core::result::Result<u32, NanLogit>;

/// Changes logits in place.
type Change<'d> = Box<dyn Fn(&mut [f32]) + 'd>;

/// How the next token of a text is drawn.
pub(crate) struct Draw<'d> {
    pub(crate) op: Sample<f32>,
    /// How many tokens the text has drawn.
    pub(crate) counter: i64,
    /// Changes the logits first. They are then copied to the host and back.
    pub(crate) change: Option<Change<'d>>,
}

impl Draw<'_> {
    /// One for each of `texts` texts, which all draw alike.
    pub(super) fn alike(op: Sample<f32>, counters: &[i64], texts: usize) -> Result<Vec<Self>> {
        if counters.len() != texts {
            let got = counters.len().to_string();
            return Err(crate::Error::Option {
                name: "counters",
                got,
                wanted: format!("{texts}, one per text"),
            });
        }
        Ok(counters.iter().map(|counter| Draw { op, counter: *counter, change: None }).collect())
    }
}

/// The id of the largest of the logits after the token at `position`; the lowest id if several are equal.
///
/// # Errors
/// A logit is NaN.
pub fn most_likely(logits: &[f32], position: usize) -> Drawn {
    let mut best = (f32::NEG_INFINITY, 0);
    for (logit, id) in logits.iter().zip(0..) {
        if logit.is_nan() {
            return Err(NanLogit { position, id });
        }
        if *logit > best.0 {
            best = (*logit, id);
        }
    }
    Ok(best.1)
}

/// The tokens drawn for the texts of a step, and the bits of the logits that they were drawn by: `[2, texts]`.
///
/// [`Sample`] draws the first NaN of a row that has one, at every temperature. So the logit of the drawn token says whether there is
/// one. It is copied to the host with the token.
pub(super) struct Draws<S: Space>(Tensor<S, u32>);

impl<S: Space> Draws<S> {
    pub(super) fn new<B: Backend<Space = S>>(b: &B, texts: usize) -> Result<Self> {
        Ok(Draws(b.zeros(&[2, texts])?))
    }

    /// Draws a token from each row of candidates, from row `first` on.
    pub(super) fn draw<B>(
        &mut self,
        b: &B,
        (candidates, first): (&Candidates<S>, usize),
        counter: TensorRef<'_, S, i64>,
        sample: Sample<f32>,
    ) -> Result<()>
    where
        B: SamplingOps<f32> + IndexOps + ElementwiseOps<f32> + CopyOps + Backend<Space = S>,
    {
        let texts = counter.dims()[0];
        let (ids, mut bits) = self.0.as_mut().split_at(0, 1)?;
        let mut ids = ids.reshape(&[texts])?;
        let logits = candidates.logits.as_ref().narrow(0, first, texts)?;
        b.sample_into(logits, counter, ids.reborrow(), sample)?;
        let numbers = S::typed_mut(S::bytes_mut(bits.data_mut()));
        let numbers = numbers.ok_or(Error::Align { operand: "logits of drawn tokens", dtype: DType::F32 })?;
        let numbers = TensorMut::<S, f32>::new(numbers, Layout::contiguous(&[texts])?)?;
        // The elements at all drawn indices in all texts; each text's own is on the diagonal.
        let own = Layout::strided(&[texts], &[texts as isize + 1], 0)?;
        let all = b.index_select(logits, ids.as_ref(), 1)?;
        b.affine_into(all.as_ref().with_layout(own)?, numbers, 1.0, 0.0)?;
        if let Some(of) = &candidates.ids {
            let all = b.index_select(of.as_ref().narrow(0, first, texts)?, ids.as_ref(), 1)?;
            b.copy_into(all.as_ref().with_layout(own)?, ids)?;
        }
        Ok(())
    }

    /// Replaces the tokens by those of rank 0, so that ranks never differ, even if their devices round differently.
    pub(super) fn agree<B: Backend<Space = S> + CopyOps>(&mut self, b: &B, share: &Share<S>) -> Result<()> {
        share.take_first(b, &mut self.0)
    }

    /// The tokens on the backend, `[texts]`.
    pub(super) fn ids(&self) -> Result<TensorRef<'_, S, u32>> {
        Ok(self.0.as_ref().narrow(0, 0, 1)?.reshape(&[self.0.dims()[1]])?)
    }

    /// Copies the tokens to the host. `positions` are those of the tokens that the logits follow.
    pub(super) fn read<B: Backend<Space = S>>(
        &self,
        b: &B,
        positions: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<Drawn>> {
        let all = self.0.to_vec(b)?;
        let (ids, logits) = all.split_at(all.len() / 2);
        let drawn = ids.iter().zip(logits).zip(positions).map(|((&id, &logit), position)| {
            if f32::from_bits(logit).is_nan() { Err(NanLogit { position, id }) } else { Ok(id) }
        });
        Ok(drawn.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_cpu::Cpu;

    const NAN: f32 = f32::NAN;
    const ROWS: [[f32; 3]; 5] =
        [[0.0, 9.0, NAN], [NAN, NAN, NAN], [0.0, 9.0, 0.0], [NAN, 0.0, 9.0], [f32::NEG_INFINITY; 3]];

    #[test]
    fn one_nan_among_the_logits_is_found_at_every_temperature() {
        let b = Cpu::new();
        let logits = b.tensor(&[5, 3], ROWS.as_flattened()).unwrap().into();
        let counters = b.tensor(&[5], &[0i64; 5]).unwrap();
        let nan = |position, id| Err(NanLogit { position, id });
        let want = [nan(10, 2), nan(11, 0), Ok(1), nan(13, 0), Ok(0)];
        for sample in [Sample::greedy(), Sample::temperature(1e-3), Sample::temperature(1e-2).seed(7)] {
            let mut draws = Draws::new(&b, 5).unwrap();
            draws.draw(&b, (&logits, 0), counters.as_ref(), sample).unwrap();
            assert_eq!(draws.read(&b, 10..).unwrap(), want, "{sample:?}");
        }
        for ((position, row), want) in (10..).zip(ROWS).zip(want) {
            assert_eq!(most_likely(&row, position), want);
        }
        let message = want[0].unwrap_err().to_string();
        assert!(message.contains("position 10") && message.contains("id 2"), "{message}");
    }
}
