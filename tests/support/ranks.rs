//! Models divided over the ranks of a group.
use crate::largest;
use rocm_ops::gguf::Gguf;
use rocm_ops::group::Group;
use rocm_ops::model::Transformer;
use rocm_ops::models::{Config, Decoder, Rank, Result, on_ranks};
use rocm_ops::{Determinism, Float};
use std::sync::Mutex;

/// A prompt that every small model reads.
pub const PROMPT: [u32; 7] = [5, 60, 7, 8, 200, 9, 33];

/// What `run` returns on each rank, in rank order.
pub fn each<G: Group, R: Send>(
    ranks: Vec<G>,
    level: Determinism,
    run: impl Fn(&Rank<'_, G::Backend>) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results: Vec<Mutex<Option<R>>> = ranks.iter().map(|_| Mutex::new(None)).collect();
    let run = |rank: &Rank<'_, G::Backend>| {
        *results[rank.share().rank()].lock().unwrap() = Some(run(rank)?);
        Ok(())
    };
    on_ranks(ranks, level, &run, &run)?;
    Ok(results.into_iter().map(|result| result.into_inner().unwrap().unwrap()).collect())
}

/// A rank's part of a model.
pub fn load<T: Float, B: Transformer<T>>(rank: &Rank<'_, B>, gguf: &Gguf) -> Result<Decoder<T, B>> {
    let config = Config::new(gguf.metadata())?;
    Decoder::load_share(rank.backend(), gguf, config, 64, rank.share(), &mut |_, _| ())
}

/// The logits after the prompt and after each of some further tokens.
pub fn logits<T: Float, B: Transformer<T>>(b: &B, model: &Decoder<T, B>, more: usize) -> Result<Vec<f32>> {
    let mut state = model.state(b, 32)?;
    let mut all = model.forward(b, &mut state, &PROMPT)?;
    for _ in 0..more {
        let next = largest(&all[all.len() - model.vocabulary()..]);
        all.extend(model.forward(b, &mut state, &[next])?);
    }
    Ok(all)
}

/// The same over pages.
pub fn logits_in_pages<T: Float, B: Transformer<T>>(
    b: &B,
    model: &Decoder<T, B>,
    more: usize,
) -> Result<Vec<f32>> {
    let mut pages = model.pages(b, 16, 4)?;
    let mut text = pages.blocks().sequence();
    let mut all = model.forward_paged(b, &mut pages, &mut [(&mut text, &PROMPT)])?.concat();
    for _ in 0..more {
        let next = largest(&all[all.len() - model.vocabulary()..]);
        all.extend(model.forward_paged(b, &mut pages, &mut [(&mut text, &[next])])?.concat());
    }
    Ok(all)
}

/// The logits of a model on these ranks, which all have the same.
pub fn logits_of<T: Float, G: Group<Backend: Transformer<T>>>(
    ranks: Vec<G>,
    gguf: &Gguf,
    level: Determinism,
    logits: impl Fn(&G::Backend, &Decoder<T, G::Backend>) -> Result<Vec<f32>> + Sync,
) -> Vec<f32> {
    let n = ranks.len();
    let of_rank = |rank: &Rank<'_, G::Backend>| logits(rank.backend(), &load::<T, _>(rank, gguf)?);
    let mut all = each(ranks, level, of_rank).unwrap();
    let first = all.remove(0);
    assert!(all.iter().all(|other| *other == first), "ranks of {n} differ");
    first
}

/// The mean squared error, relative to the mean square.
pub fn error(got: &[f32], want: &[f32]) -> f64 {
    let error: f64 = got.iter().zip(want).map(|(g, w)| f64::from(g - w).powi(2)).sum();
    error / want.iter().map(|w| f64::from(*w).powi(2)).sum::<f64>()
}
