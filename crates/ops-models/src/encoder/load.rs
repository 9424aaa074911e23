//! Reads an encoder's tensors.
use super::{Encoder, EncoderConfig, Layer};
use crate::decoder::feed_forward::Dense;
use crate::decoder::load::Loader;
use crate::decoder::{Linear, Norm};
use crate::{NormKind, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::LinearOps;
use ops_core::{Float, TensorOf};
use ops_gguf::Gguf;

pub(super) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Encoder<T, B>> {
    let config = EncoderConfig::new(gguf.metadata())?;
    let loader: Loader<'_, B, T, _> = Loader::new(backend, gguf, &config)?;
    let words = loader.words()?;
    let positions = loader.positions()?;
    let norm = loader.layer_norm("token_embd_norm")?;
    let layers = (0..config.layers).map(|i| {
        progress(i, config.layers);
        loader.encoder_layer(i)
    });
    let layers = layers.collect::<Result<_>>()?;
    progress(config.layers, config.layers);
    loader.check_all_used(&config.architecture)?;
    Ok(Encoder { words, positions, norm, layers, config })
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T, EncoderConfig> {
    /// The word table. Its number of rows is the vocabulary.
    fn words(&self) -> Result<Weight<B::Space>> {
        let name = "token_embd.weight";
        self.mark(name);
        let vocabulary = self.gguf.tensor(name)?.dims().first().copied().unwrap_or(0);
        Ok(self.weights.matrix(name, [vocabulary, self.config.dim])?)
    }

    /// Every text consists of token type 0 only, so its row is added to that of each position once, here.
    fn positions(&self) -> Result<TensorOf<B, T>> {
        let EncoderConfig { dim, context, max_tokens, token_types, .. } = *self.config;
        let mut positions = self.table("position_embd.weight", [context, dim])?;
        let types = self.table("token_types.weight", [token_types, dim])?;
        positions.truncate(max_tokens * dim);
        for row in positions.chunks_exact_mut(dim) {
            row.iter_mut().zip(&types).for_each(|(position, kind)| *position += kind);
        }
        let sums: TensorOf<B, f32> = self.backend.tensor(&[max_tokens, dim], &positions)?;
        Ok(self.backend.cast(&sums)?)
    }

    /// A table in f32, on the host.
    fn table(&self, name: &str, dims: [usize; 2]) -> Result<Vec<f32>> {
        self.mark(name);
        let table: TensorOf<B, f32> = self.backend.cast(&self.weights.matrix(name, dims)?)?;
        Ok(table.to_vec(self.backend)?)
    }

    fn layer_norm(&self, part: &str) -> Result<Norm<B>> {
        self.norm_of((NormKind::Layer, self.config.norm_eps), part, self.config.dim)
    }

    fn encoder_layer(&self, i: usize) -> Result<Layer<B>> {
        let EncoderConfig { dim, ffn, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Layer {
            query_key_value: self.query_key_value(i)?,
            output: self.linear(&part("attn_output"), [dim, dim])?,
            attention_norm: self.layer_norm(&part("attn_output_norm"))?,
            feed: Dense {
                gate: None,
                up: self.linear(&part("ffn_up"), [ffn, dim])?,
                down: self.linear(&part("ffn_down"), [dim, ffn])?,
            },
            feed_norm: self.layer_norm(&part("layer_output_norm"))?,
        })
    }

    /// Query, key and value as one matrix, so that their input is read once.
    fn query_key_value(&self, i: usize) -> Result<Linear<B>> {
        let dim = self.config.dim;
        let names = |kind: &str| ["q", "k", "v"].map(|part| format!("blk.{i}.attn_{part}.{kind}"));
        let (weights, biases) = (names("weight"), names("bias"));
        weights.iter().for_each(|name| self.mark(name));
        let weights = weights.each_ref().map(|name| name.as_str());
        let mut types = Vec::new();
        for name in weights {
            types.push(self.gguf.tensor(name)?.ggml_type());
        }
        let weight = match types[0] == types[1] && types[0] == types[2] {
            true => self.weights.joined(&weights, [dim, dim])?,
            false => self.widened(&weights)?,
        };
        let mut bias = Vec::with_capacity(3 * dim);
        for name in &biases {
            bias.extend(self.vector(name, dim)?.to_vec(self.backend)?);
        }
        Ok(Linear {
            weight: LinearOps::<T>::pack_weight(self.backend, weight)?,
            bias: Some(self.backend.tensor(&[3 * dim], &bias)?),
        })
    }

    /// Square matrices of unlike types as one, in f32. Looking up all rows of a matrix decodes its blocks.
    fn widened(&self, names: &[&str; 3]) -> Result<Weight<B::Space>> {
        let dim = self.config.dim;
        let ids: Vec<u32> = (0..dim as u32).collect();
        let ids = self.backend.tensor(&[dim], &ids)?;
        let mut values = Vec::with_capacity(3 * dim * dim);
        for name in names {
            let rows: TensorOf<B, T> =
                self.backend.embedding(&self.weights.matrix(name, [dim, dim])?, &ids)?;
            let rows: TensorOf<B, f32> = self.backend.cast(&rows)?;
            values.extend(rows.to_vec(self.backend)?);
        }
        let matrix: TensorOf<B, f32> = self.backend.tensor(&[3 * dim, dim], &values)?;
        Ok(matrix.into())
    }
}
