//! Reads an encoder's tensors.
use super::stack::{Added, Layer, Rotations, Stack, Tables};
use super::{Encoder, EncoderConfig, Layers, MOST_DENSE, dense_name};
use crate::decoder::load;
use crate::keys::Keys;
use crate::pieces::{Dense, Linear, Loader, Norm, Summed};
use crate::{Activation, Config, NormKind, Result, Share};
use ops_core::model::{RopeScaling, RopeTables, Transformer, Weight};
use ops_core::ops::LinearMethods;
use ops_core::ops::{CastMethods, EmbeddingMethods};
use ops_core::{Float, TensorOf};
use ops_gguf::Gguf;

pub(super) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Encoder<T, B>> {
    let config = EncoderConfig::new(gguf.metadata())?;
    let loader: Loader<'_, B, T, _> = Loader::new(backend, gguf, &config, Share::whole())?;
    let dense = loader.dense_after()?;
    let layers = if config.is_decoder {
        Layers::Decoder(Box::new(load::load(
            backend,
            gguf,
            Config::new(gguf.metadata())?,
            config.max_tokens,
            (loader.used(), Share::whole()),
            progress,
        )?))
    } else {
        let stack = loader.stack(progress)?;
        loader.check_all_used(&config.architecture)?;
        Layers::Stack(Box::new(stack))
    };
    Ok(Encoder { config, layers, dense })
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T, EncoderConfig> {
    /// The matrices that pooled vectors are multiplied by.
    fn dense_after(&self) -> Result<Vec<Linear<B>>> {
        let (keys, mut width) = (Keys::new(self.gguf.metadata())?, self.config.dim);
        let mut all = Vec::new();
        for name in (0..MOST_DENSE).map(dense_name).take_while(|name| self.has(&format!("{name}.weight"))) {
            let rows = self.gguf.tensor(&format!("{name}.weight"))?.dims().first().copied().unwrap_or(0);
            for (key, wanted) in [("in", width), ("out", rows)] {
                let key = format!("{name}_feat_{key}");
                let said = keys.count_or(&key, wanted)?;
                if said != wanted {
                    return Err(keys.wrong(&key, said, format!("{wanted}, as the matrices {name} have")));
                }
            }
            all.push(self.linear(&name, [rows, width])?);
            width = rows;
        }
        Ok(all)
    }

    fn stack(&self, progress: &mut dyn FnMut(usize, usize)) -> Result<Stack<T, B>> {
        let EncoderConfig { layers: count, pre_norm, .. } = *self.config;
        let (words, added, norm) = (self.words()?, self.added()?, self.layer_norm("token_embd_norm")?);
        let rotations = (!self.config.has_positions).then(|| self.rotations()).transpose()?;
        let layers = (0..count).map(|i| {
            progress(i, count);
            self.encoder_layer(i)
        });
        let layers = layers.collect::<Result<_>>()?;
        progress(count, count);
        let output_norm = pre_norm.then(|| self.layer_norm("output_norm")).transpose()?;
        Ok(Stack { words, added, norm, rotations, layers, output_norm })
    }

    /// The word table. Its number of rows is the vocabulary.
    fn words(&self) -> Result<Weight<B::Space>> {
        let name = "token_embd.weight";
        self.mark(name);
        let vocabulary = self.gguf.tensor(name)?.dims().first().copied().unwrap_or(0);
        Ok(self.weights.matrix(name, [vocabulary, self.config.dim])?)
    }

    /// Every text consists of token type 0 only, so its row is added to that of each position once, here.
    fn added(&self) -> Result<Added<B, T>> {
        let EncoderConfig { dim, context, max_tokens, token_types, has_positions, .. } = *self.config;
        let kind = token_types.map(|rows| self.table("token_types.weight", [rows, dim])).transpose()?;
        let kind = kind.as_ref().and_then(|table| table.get(..dim));
        let upload = |rows: usize, values: &[f32]| -> Result<TensorOf<B, T>> {
            let values: TensorOf<B, f32> = self.backend.tensor(&[rows, dim], values)?;
            Ok(self.backend.cast(&values)?)
        };
        if !has_positions {
            return kind.map_or(Ok(Added::Nothing), |row| Ok(Added::Type(upload(1, row)?)));
        }
        let mut positions = self.table("position_embd.weight", [context, dim])?;
        positions.truncate(max_tokens * dim);
        for row in positions.chunks_exact_mut(dim) {
            row.iter_mut().zip(kind.into_iter().flatten()).for_each(|(position, kind)| *position += kind);
        }
        Ok(Added::Position(upload(max_tokens, &positions)?))
    }

    fn rotations(&self) -> Result<Rotations<B>> {
        let EncoderConfig { dim, heads, max_tokens, rope_base, window, .. } = *self.config;
        let tables = |base| -> Result<Tables<B>> {
            let tables = RopeTables::new(max_tokens, dim / heads, base, &RopeScaling::None)?;
            Ok(tables.upload(self.backend)?)
        };
        let windowed = window.map(|window| tables(window.rope_base)).transpose()?;
        Ok(Rotations { all: tables(rope_base)?, windowed })
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
        let EncoderConfig { dim, pre_norm, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        let (attention, feed) =
            if pre_norm { ("attn_norm", "ffn_norm") } else { ("attn_output_norm", "layer_output_norm") };
        // The input of a first layer is normed already.
        let without = pre_norm && i == 0 && !self.has(&part("attn_norm.weight"));
        Ok(Layer {
            query_key_value: self.query_key_value(i)?,
            output: self.linear(&part("attn_output"), [dim, dim])?,
            attention_norm: (!without).then(|| self.layer_norm(&part(attention))).transpose()?,
            feed: self.feed(&part("ffn_"))?,
            feed_norm: self.layer_norm(&part(feed))?,
        })
    }

    fn feed(&self, prefix: &str) -> Result<Dense<B>> {
        let EncoderConfig { dim, ffn, activation, .. } = *self.config;
        let part = |name: &str| format!("{prefix}{name}");
        let down = || -> Result<_> { Ok(Summed::whole(self.linear(&part("down"), [dim, ffn])?, [dim, ffn])) };
        let gated = matches!(activation, Activation::Swiglu | Activation::GegluErf);
        if gated && !self.has(&part("gate.weight")) {
            // Gate and up are in one matrix, in this order.
            let (both, dims) = (part("up"), [2 * ffn, dim]);
            let [gate, up] = [0..ffn, ffn..2 * ffn].map(|rows| self.rows(&both, &dims, rows));
            return Ok(Dense { gate: Some(gate?), up: up?, down: down()? });
        }
        let gate = gated.then(|| self.linear(&part("gate"), [ffn, dim])).transpose()?;
        let up = self.linear(&part("up"), [ffn, dim])?;
        Ok(Dense { gate, up, down: down()? })
    }

    /// Query, key and value as one matrix, so that their input is read once.
    fn query_key_value(&self, i: usize) -> Result<Linear<B>> {
        let dim = self.config.dim;
        let fused = format!("blk.{i}.attn_qkv");
        if self.has(&format!("{fused}.weight")) {
            return self.linear(&fused, [3 * dim, dim]);
        }
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
            weight: self.backend.pack_weight::<T>(weight)?,
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
