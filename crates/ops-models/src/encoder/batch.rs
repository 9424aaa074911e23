//! Texts of different lengths as one tensor.
use crate::{Error, Result};
use ops_core::{Backend, Float, TensorOf};
use std::ops::Range;

/// Tokens of a batch from which on another one costs less than much padding.
const ENOUGH: usize = 128;

/// Splits texts of these lengths into batches of similar length: each a list of places in `lengths`, longest texts first. A batch
/// has at most `tokens` tokens with its padding, or one text. A batch of 128 tokens takes no text that is shorter than three
/// quarters of its longest, because that would mostly add padding.
///
/// ```
/// let batches = ops_models::batches(&[3, 20, 4, 21], 45);
/// assert_eq!(batches, [vec![3, 1], vec![2, 0]]);
/// let batches = ops_models::batches(&[64, 10, 64, 50], 1000);
/// assert_eq!(batches, [vec![0, 2, 3], vec![1]]);
/// ```
pub fn batches(lengths: &[usize], tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    // The sort is stable, so equal lengths keep their order.
    order.sort_by_key(|text| std::cmp::Reverse(lengths[*text]));
    let mut out: Vec<Vec<usize>> = Vec::new();
    let takes = |batch: &[usize], text: usize| {
        let (count, longest, own) = (batch.len(), lengths[batch[0]], lengths[text]);
        let similar = own >= longest - longest / 4 || count.saturating_mul(longest) < ENOUGH;
        similar && (count + 1).saturating_mul(longest) <= tokens
    };
    for text in order {
        match out.last_mut() {
            Some(batch) if takes(batch, text) => batch.push(text),
            _ => out.push(vec![text]),
        }
    }
    out
}

/// Shortens the tokens of a text to `max`, as `sentence-transformers` does: the last token, which ends a text, stays the last.
/// Returns whether any were left out.
///
/// ```
/// let mut ids = vec![101, 7, 8, 9, 102];
/// assert!(ops_models::truncate(&mut ids, 4));
/// assert_eq!(ids, [101, 7, 8, 102]);
/// assert!(!ops_models::truncate(&mut ids, 4));
/// ```
pub fn truncate(ids: &mut Vec<u32>, max: usize) -> bool {
    if ids.len() <= max {
        return false;
    }
    let left_out = max.saturating_sub(1)..ids.len() - usize::from(max > 0);
    ids.drain::<Range<usize>>(left_out);
    true
}

/// Texts side by side, padded to the longest.
pub(super) struct Batch<B: Backend> {
    /// Number of texts.
    pub(super) count: usize,
    /// Tokens of the longest text.
    pub(super) len: usize,
    /// `[count · len]`; padding is token 0.
    pub(super) ids: TensorOf<B, u32>,
    /// `[count, 1, 1, len]`, 0 for padding; absent if there is none.
    pub(super) mask: Option<TensorOf<B, u8>>,
    lengths: Vec<usize>,
}

impl<B: Backend> Batch<B> {
    /// Texts of 1 to `max` tokens.
    pub(super) fn new(b: &B, texts: &[&[u32]], max: usize) -> Result<Self> {
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        if let Some(&got) = lengths.iter().find(|len| !(1..=max).contains(*len)) {
            return Err(Error::Text { got, max });
        }
        let (count, len) = (texts.len(), lengths.iter().copied().max().unwrap_or(0));
        let mut ids = vec![0; count * len];
        let mut visible = vec![0_u8; count * len];
        for (i, text) in texts.iter().enumerate() {
            ids[i * len..][..text.len()].copy_from_slice(text);
            visible[i * len..][..text.len()].fill(1);
        }
        let padded = lengths.iter().any(|own| *own < len);
        let mask = padded.then(|| b.tensor(&[count, 1, 1, len], &visible)).transpose()?;
        Ok(Batch { count, len, ids: b.tensor(&[count * len], &ids)?, mask, lengths })
    }

    /// `[count, 1, len]`: what a product with the vectors of a text's tokens makes their mean.
    pub(super) fn shares<T: Float>(&self, b: &B) -> Result<TensorOf<B, T>> {
        let mut shares = vec![T::from_f64(0.0); self.count * self.len];
        for (row, own) in shares.chunks_exact_mut(self.len).zip(&self.lengths) {
            row[..*own].fill(T::from_f64(1.0 / *own as f64));
        }
        Ok(b.tensor(&[self.count, 1, self.len], &shares)?)
    }
}
