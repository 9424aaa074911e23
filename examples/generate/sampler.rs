//! Choosing the next tokens.
use crate::args::Args;
use examples_shared::Result;
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use rocm_ops::models::{Decoder, Drawn, Row};
use rocm_ops::ops::Sample;

/// A step of several texts: returns the next token of each; `counters` are the numbers of tokens generated so
/// far. Tokens are drawn on the backend, so that only they leave its memory.
pub(crate) fn next<T: Float, B: Transformer<T>>(
    args: &Args,
    backend: &B,
    model: &Decoder<T, B>,
    rows: &mut [Row<'_, B::Space, T>],
    counters: &[i64],
) -> Result<Vec<Drawn>> {
    let mut op = Sample::temperature(args.temperature).seed(args.seed);
    (op.top_k, op.top_p) = (args.top_k.filter(|k| *k > 0), args.top_p);
    Ok(model.sample_batch(backend, rows, counters, op)?)
}
