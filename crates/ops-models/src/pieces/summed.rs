//! Products whose sums are divided over the ranks of a group.
use super::{Linear, Output};
use crate::{Result, Share};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf};
use std::ops::Range;

/// A matrix whose columns, and the features that they are multiplied by, are divided over the ranks of a group.
pub(crate) struct Summed<B: Backend> {
    /// The columns of each part of this rank, counted from its first one, and their matrix. An empty part has none.
    pub(crate) parts: Vec<Option<(Range<usize>, Linear<B>)>>,
    /// Rows of the matrix.
    pub(crate) rows: usize,
    pub(crate) share: Share<B::Space>,
}

impl<B: Backend> Summed<B> {
    /// One matrix, not divided.
    pub(crate) fn whole(linear: Linear<B>, [rows, columns]: [usize; 2]) -> Self {
        Summed { parts: vec![Some((0..columns, linear))], rows, share: Share::whole() }
    }

    fn undivided(&self) -> Option<&Linear<B>> {
        match &self.parts[..] {
            [Some((_, all))] if self.share.is_whole() => Some(all),
            _ => None,
        }
    }

    /// The product, added to `onto` if one kernel computes both. If ranks may add in any order, the first one adds its share of the product
    /// to `onto`, so that the sum over the ranks has both.
    pub(crate) fn apply_onto<T: Float>(
        &self,
        b: &B,
        x: Ref<'_, B, T>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>>
    where
        B: Transformer<T>,
    {
        match self.undivided() {
            Some(all) => all.apply_onto(b, x, onto),
            None => match (onto, &self.parts[..]) {
                (Some(onto), [own]) if !self.share.in_order() => {
                    let mut y = self.share_onto(b, x, own.as_ref(), onto)?;
                    self.share.all_reduce(&mut y)?;
                    Ok(Output::Added(y))
                }
                _ => Ok(Output::Alone(self.apply(b, x)?)),
            },
        }
    }

    /// This rank's share of the product; on the first rank with `onto` added.
    fn share_onto<T: Float>(
        &self,
        b: &B,
        x: Ref<'_, B, T>,
        own: Option<&(Range<usize>, Linear<B>)>,
        onto: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let first = self.share.rank() == 0;
        let Some((columns, own)) = own else {
            return Ok(if first { b.copy_of(onto)? } else { b.zeros(&[x.dims()[0], self.rows])? });
        };
        let x = x.narrow(1, columns.start, columns.len())?;
        if first { own.apply_onto(b, x, Some(onto))?.with(b, onto) } else { own.apply(b, x) }
    }

    /// The product with all columns. `x[t, k]` has those of this rank.
    pub(crate) fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        if let Some(all) = self.undivided() {
            return all.apply(b, x);
        }
        let (t, n) = (x.dims()[0], self.rows);
        let dims = [self.parts.len(), t, n];
        let mut y = if self.parts.iter().all(Option::is_some) { b.empty(&dims)? } else { b.zeros(&dims)? };
        for (i, part) in self.parts.iter().enumerate() {
            let Some((columns, Linear { weight, bias })) = part else { continue };
            let x = x.narrow(1, columns.start, columns.len())?;
            let to = y.as_mut().narrow(0, i, 1)?.reshape(&[t, n])?;
            b.linear_into(x, weight, bias.as_ref().map(|bias| bias.any()), to)?;
        }
        self.share.sum(b, y)
    }
}
