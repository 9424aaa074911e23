//! Embeds texts in batches.
use super::input::Input;
use crate::output::Progress;
use crate::text::{Prepare, Result};
use ops_command::stderr;
use ops_core::Float;
use ops_core::model::Transformer;
use ops_models::Encoder;
use std::time::{Duration, Instant};

/// The embeddings of all texts, in order.
pub(super) fn embed<T: Float, B: Transformer<T>>(
    input: &Input<'_>,
    name: &str,
    backend: &B,
    prepare: &Prepare<'_>,
) -> Result<Vec<Vec<f32>>> {
    let Input { common, args, model, texts } = input;
    let (begin, mut progress) = (Instant::now(), Progress::new(common.progress));
    let mut step = |done, all| progress.step(done, all, "layers loaded");
    let encoder = Encoder::<T, B>::load_with(backend, model, &mut step)?;
    progress.clear();
    let lengths: Vec<usize> = texts.iter().map(|text| text.ids.len()).collect();
    let batches = ops_models::batches(&lengths, args.batch as usize);
    let one = |batch: &[usize]| -> Result<Vec<Vec<f32>>> {
        let ids: Vec<&[u32]> = batch.iter().map(|text| texts[*text].ids.as_slice()).collect();
        Ok(encoder.embed(backend, &ids)?)
    };
    prepare(&mut || batches.first().map_or(Ok(()), |batch| one(batch).map(drop)))?;
    let loaded = begin.elapsed();

    let mut embeddings = vec![Vec::new(); texts.len()];
    let mut fastest = Duration::MAX;
    for _ in 0..args.repeat {
        let (begin, mut progress, mut done) = (Instant::now(), Progress::new(common.progress), 0);
        for batch in &batches {
            for (text, embedding) in batch.iter().zip(one(batch)?) {
                embeddings[*text] = embedding;
            }
            done += batch.len();
            progress.step(done, texts.len(), "texts embedded");
        }
        fastest = fastest.min(begin.elapsed());
        progress.clear();
    }
    embeddings.iter().zip(1..).try_for_each(|(embedding, text)| check(embedding, text))?;
    if let Some(dims) = args.dims {
        embeddings
            .iter_mut()
            .try_for_each(|embedding| cut(embedding, dims as usize, encoder.config().normalize))?;
    }
    let (tokens, seconds) = (lengths.iter().sum::<usize>(), fastest.as_secs_f64());
    writeln!(
        stderr(),
        "{} texts of {tokens} tokens in {} batches: {seconds:.6} s, {:.0} tokens/s, on {name} in {}",
        texts.len(),
        batches.len(),
        tokens as f64 / seconds.max(1e-9),
        T::DTYPE.name(),
    );
    if args.running.stats {
        writeln!(stderr(), "loading {:.2} s", loaded.as_secs_f64());
    }
    Ok(embeddings)
}

/// Keeps the first numbers.
fn cut(embedding: &mut Vec<f32>, dims: usize, normalize: bool) -> Result<()> {
    if dims > embedding.len() {
        return Err(format!(
            "--dims {dims}: wanted at most {}, the width of this model's vectors",
            embedding.len()
        )
        .into());
    }
    embedding.truncate(dims);
    let length = embedding.iter().map(|number| f64::from(*number).powi(2)).sum::<f64>().sqrt();
    if normalize && length > 0.0 {
        embedding.iter_mut().for_each(|number| *number = (f64::from(*number) / length) as f32);
    }
    Ok(())
}

/// Neither JSON nor a similarity has a use for NaN and infinity.
fn check(embedding: &[f32], text: usize) -> Result<()> {
    match embedding.iter().zip(0..).find(|(number, _)| !number.is_finite()) {
        None => Ok(()),
        Some((number, at)) => Err(format!(
            "text {text}: number {at} of its embedding is {number}, wanted a finite one; compute in f32, or check the weights of \
             the model"
        )
        .into()),
    }
}
