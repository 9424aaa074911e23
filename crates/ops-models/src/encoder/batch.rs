//! Texts of different lengths in one tensor.
use crate::{Error, Result};
use ops_core::{Backend, TensorOf};
use std::ops::Range;

/// Splits texts of these lengths into batches: each is a list of indices into `lengths`, longest texts first.
/// A batch has at most `tokens` tokens, or a single text.
///
/// ```
/// let batches = rocm_ops::models::batches(&[3, 20, 4, 21], 45);
/// assert_eq!(batches, [vec![3, 1, 2], vec![0]]);
/// ```
pub fn batches(lengths: &[usize], tokens: usize) -> Vec<Vec<usize>> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    // The sort is stable, so equal lengths keep their order.
    order.sort_by_key(|text| std::cmp::Reverse(lengths[*text]));
    let mut out: Vec<Vec<usize>> = Vec::new();
    // Number of tokens in the last batch.
    let mut full = 0_usize;
    for text in order {
        full = full.saturating_add(lengths[text]);
        match out.last_mut() {
            Some(batch) if full <= tokens => batch.push(text),
            _ => {
                out.push(vec![text]);
                full = lengths[text];
            }
        }
    }
    out
}

/// Truncates the tokens of a text to `max`, as `sentence-transformers` does: the last token, which ends a
/// text, stays last. Returns whether any were removed.
///
/// ```
/// let mut ids = vec![101, 7, 8, 9, 102];
/// assert!(rocm_ops::models::truncate(&mut ids, 4));
/// assert_eq!(ids, [101, 7, 8, 102]);
/// assert!(!rocm_ops::models::truncate(&mut ids, 4));
/// ```
pub fn truncate(ids: &mut Vec<u32>, max: usize) -> bool {
    if ids.len() <= max {
        return false;
    }
    let left_out = max.saturating_sub(1)..ids.len() - usize::from(max > 0);
    ids.drain::<Range<usize>>(left_out);
    true
}

/// Concatenated texts, without padding.
pub(super) struct Batch<B: Backend> {
    /// Number of texts.
    pub(super) count: usize,
    /// Tokens of all texts.
    pub(super) ids: TensorOf<B, u32>,
    /// Each token's position in its text.
    pub(super) places: TensorOf<B, u32>,
    /// The first token of each text, then the total number of tokens.
    pub(super) starts: TensorOf<B, u32>,
    /// The last token of each text.
    pub(super) lasts: TensorOf<B, u32>,
    /// The number of each text, then the number of texts.
    pub(super) numbers: TensorOf<B, u32>,
    /// The number of tokens of every text, if all are equal.
    pub(super) common_length: Option<usize>,
}

impl<B: Backend> Batch<B> {
    /// Texts of 1 to `max` tokens.
    pub(super) fn new(b: &B, texts: &[&[u32]], max: usize) -> Result<Self> {
        let lengths: Vec<usize> = texts.iter().map(|text| text.len()).collect();
        if let Some(&got) = lengths.iter().find(|len| !(1..=max).contains(*len)) {
            return Err(Error::Text { got, max });
        }
        let ids = texts.concat();
        let places: Vec<u32> = lengths.iter().flat_map(|len| (0..*len).map(|place| place as u32)).collect();
        let ends = lengths.iter().scan(0, |end, len| {
            *end += *len as u32;
            Some(*end)
        });
        let starts: Vec<u32> = std::iter::once(0).chain(ends).collect();
        let lasts: Vec<u32> = starts.iter().skip(1).map(|end| end - 1).collect();
        let numbers: Vec<u32> = (0..=texts.len() as u32).collect();
        let tensor = |values: &[u32]| b.tensor(&[values.len()], values);
        Ok(Batch {
            count: texts.len(),
            ids: tensor(&ids)?,
            places: tensor(&places)?,
            starts: tensor(&starts)?,
            lasts: tensor(&lasts)?,
            numbers: tensor(&numbers)?,
            common_length: lengths.first().copied().filter(|len| lengths.iter().all(|own| own == len)),
        })
    }
}
