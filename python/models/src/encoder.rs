//! A sentence encoder with its tokenizer.
use rocm_ops::gguf::Tokenizer;
use rocm_ops::model::Transformer;
use rocm_ops::models::{Result, batches, truncate};
use rocm_ops::{Backend, Float};

/// Most tokens of a batch.
const BATCH: usize = 4096;

/// A model that turns texts into vectors.
pub trait Embeds: Send + Sync {
    /// One vector for each text.
    ///
    /// # Errors
    /// A text cannot be encoded; those of the backend.
    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

pub(crate) struct Encoder<T: Float, B: Backend> {
    pub(crate) backend: B,
    pub(crate) tokenizer: Tokenizer,
    pub(crate) model: rocm_ops::models::Encoder<T, B>,
}

impl<T: Float, B: Transformer<T>> Embeds for Encoder<T, B> {
    fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        let config = self.model.config();
        let ids = |text: &String| {
            let mut ids = self.tokenizer.encode(text)?;
            truncate(&mut ids, config.max_tokens);
            Ok(ids)
        };
        let ids = texts.iter().map(ids).collect::<Result<Vec<_>>>()?;
        let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        for batch in batches(&lengths, BATCH) {
            let of_batch: Vec<&[u32]> = batch.iter().map(|at| ids[*at].as_slice()).collect();
            for (at, vector) in batch.iter().zip(self.model.embed(&self.backend, &of_batch)?) {
                vectors[*at] = vector;
            }
        }
        Ok(vectors)
    }
}
