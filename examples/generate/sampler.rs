//! Choosing the next tokens.
use crate::args::Args;
use examples_shared::Result;
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use rocm_ops::models::{Decoder, Row};
use rocm_ops::ops::Sample;

/// A step of several texts: returns the next token of each; `counters` are the numbers of tokens generated so
/// far. Tokens are drawn on the backend, so that only their ids leave its memory; the most likely tokens are
/// found here. `None` if all logits of a text are NaN.
pub(crate) fn next<T: Float, B: Transformer<T>>(
    args: &Args,
    backend: &B,
    model: &Decoder<T, B>,
    rows: &mut [Row<'_, B::Space, T>],
    counters: &[i64],
) -> Result<Option<Vec<u32>>> {
    Ok(if args.temperature == 0.0 {
        model.forward_batch(backend, rows)?.iter().map(|logits| most_likely(logits)).collect()
    } else {
        model.sample_batch(backend, rows, counters, sampling(args))?.into_iter().collect()
    })
}

fn sampling(args: &Args) -> Sample<f32> {
    let mut op = Sample::temperature(args.temperature).seed(args.seed);
    (op.top_k, op.top_p) = (args.top_k.filter(|k| *k > 0), args.top_p);
    op
}

/// The id of the largest logit, ignoring NaN; the lowest id if several are equal.
pub(crate) fn most_likely(logits: &[f32]) -> Option<u32> {
    let numbers = logits.iter().zip(0..).filter(|(v, _)| !v.is_nan());
    numbers.reduce(|best, next| if next.0.total_cmp(best.0).is_gt() { next } else { best }).map(|(_, i)| i)
}
