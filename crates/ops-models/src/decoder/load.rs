//! Reads a model's tensors. A tensor in the file that the model does not use is an error.
use super::{Attend, AttentionPart, Decoder, Layer, Rotation, Rotations};
use crate::keys::Keys;
use crate::pieces::Linear;
use crate::{Config, Error, HeadShape, Result};
use ops_core::Float;
use ops_core::model::{RopeScaling, RopeTables, Transformer};
use ops_core::ops::{CastMethods, LinearMethods};
use ops_gguf::Gguf;
use std::collections::HashSet;
use std::marker::PhantomData;

pub(crate) use crate::pieces::Loader;

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(super) fn layer(&self, i: usize) -> Result<Layer<T, B>> {
        let Config { parallel, feed_norm, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Layer {
            attention_norm: self.stream_norm(&part("attn_norm"))?,
            attend: match (self.config.latent, &self.config.recurrent) {
                (_, Some(plan)) if self.config.is_recurrent(i) => {
                    AttentionPart::Recurrent(Box::new(self.recurrent(i, plan)?))
                }
                (Some(latent), _) => AttentionPart::Latent(Box::new(self.latent(i, latent)?)),
                (None, _) => AttentionPart::Heads(Box::new(self.attend(i)?)),
            },
            slot: self.config.slot(i),
            post_attention_norm: self.post_norm(&part("post_attention_norm"))?,
            laurel: self.laurel(i)?,
            feed_norm: (!parallel).then(|| self.stream_norm(&part(feed_norm))).transpose()?,
            feed: self.feed_forward(i)?,
            post_feed_norm: self.post_norm(&part("post_ffw_norm"))?,
            end: self.end(i)?,
        })
    }

    /// Matrices `[n, dim]`, of which neighbours become one if they have the same type and either both or neither have a bias.
    fn stacked(&self, parts: &[(String, usize)]) -> Result<Vec<Linear<B>>> {
        let kind = |part: &str| {
            let of = self.gguf.find(&format!("{part}.weight")).map(|tensor| tensor.ggml_type());
            (of, self.has(&format!("{part}.bias")))
        };
        parts
            .chunk_by(|(one, _), (next, _)| kind(one) == kind(next))
            .map(|alike| self.one_matrix(alike))
            .collect()
    }

    /// Matrices of the same type, all or none of them with a bias, as one.
    fn one_matrix(&self, parts: &[(String, usize)]) -> Result<Linear<B>> {
        let dim = self.config.dim;
        if let [(part, n)] = parts {
            return self.linear(part, [*n, dim]);
        }
        let named = |kind: &str| parts.iter().map(|(part, _)| format!("{part}.{kind}")).collect::<Vec<_>>();
        let (weights, biases) = (named("weight"), named("bias"));
        weights.iter().for_each(|name| self.mark(name));
        let rows: Vec<_> =
            weights.iter().zip(parts).map(|(name, (_, n))| (name.as_str(), [*n, dim])).collect();
        let weight = self.backend.pack_weight::<T>(self.weights.stacked(&rows)?)?;
        let mut bias = Vec::new();
        for (name, (_, n)) in biases.iter().zip(parts).filter(|(name, _)| self.has(name)) {
            bias.extend(self.vector(name, *n)?.to_vec(self.backend)?);
        }
        let bias = (!bias.is_empty()).then(|| self.backend.tensor(&[bias.len()], &bias)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn attend(&self, i: usize) -> Result<Attend<B>> {
        let Config { dim, heads, value_norms, .. } = *self.config;
        let HeadShape { head_dim, .. } = self.config.heads_of(i);
        let (q, kv) = self.config.widths(i)?;
        let part = |name: &str| format!("blk.{i}.{name}");
        let fused = part("attn_qkv");
        let linear = |name, n| self.linear(&part(name), [n, dim]);
        let mut gate = None;
        let has_keys = self.config.has_own_keys(i);
        // Only families that norm values can do without them.
        let keys_are_values = value_norms && has_keys && !self.has(&format!("{}.weight", part("attn_v")));
        let projections = if !has_keys {
            // Real files have these tensors, which nothing uses.
            ["attn_k.weight", "attn_v.weight"].iter().for_each(|name| self.mark(&part(name)));
            vec![linear("attn_q", q)?]
        } else if keys_are_values {
            self.stacked(&[("attn_q", q), ("attn_k", kv)].map(|(name, n)| (part(name), n)))?
        } else if self.has(&format!("{fused}.weight")) {
            vec![self.linear(&fused, [q + 2 * kv, dim])?]
        } else if self.config.gated {
            // Each head's query is followed by its gate.
            let of_heads = |first| {
                let start = move |head| (2 * head + first) * head_dim;
                (0..heads).map(move |head| start(head)..start(head) + head_dim).collect::<Vec<_>>()
            };
            let (both, dims) = (part("attn_q"), [2 * q, dim]);
            gate = Some(self.row_groups(&both, &dims, &of_heads(1))?);
            vec![self.row_groups(&both, &dims, &of_heads(0))?, linear("attn_k", kv)?, linear("attn_v", kv)?]
        } else {
            self.stacked(&[("attn_q", q), ("attn_k", kv), ("attn_v", kv)].map(|(name, n)| (part(name), n)))?
        };
        Ok(Attend {
            projections,
            gate,
            output: self.linear(&part("attn_output"), [dim, q])?,
            keys_are_values,
            query_norm: self.optional(&part("attn_q_norm.weight"), head_dim)?,
            key_norm: self.optional(&part("attn_k_norm.weight"), head_dim)?,
            value_norm: (value_norms && has_keys).then(|| self.ones(head_dim)).transpose()?,
            sinks: match self.optional(&part("attn_sinks.weight"), self.config.heads)? {
                Some(sinks) => Some(self.backend.cast::<T>(&sinks)?.into()),
                None => None,
            },
        })
    }

    fn rotations(&self, context: usize) -> Result<Rotations<B>> {
        let Config { rope_dim, rope_base, .. } = *self.config;
        let factors = |name: &str| -> Result<Vec<f32>> {
            self.mark(name);
            Ok(self.gguf.tensor(name)?.view::<f32>()?.into_owned())
        };
        let mut scaling = self.config.rope_scaling.clone();
        if self.has("rope_freqs.weight") {
            scaling = RopeScaling::Factors(factors("rope_freqs.weight")?);
        }
        if let RopeScaling::LongRope { short, long, .. } = &mut scaling {
            *short = factors("rope_factors_short.weight")?;
            *long = factors("rope_factors_long.weight")?;
        }
        let upload = |tables: RopeTables| -> Result<Rotation<B>> {
            let (cos, sin) = tables.upload(self.backend)?;
            Ok(Rotation { cos, sin })
        };
        let tables = |d, base, scaling| RopeTables::new(context, d, base, scaling);
        let all = tables(rope_dim, rope_base, &scaling)?;
        let windowed = self.config.window.as_ref().and_then(|window| {
            let d = window.heads.map_or(rope_dim, |heads| heads.rope_dim);
            window.rope_base.map(|base| upload(tables(d, base, &RopeScaling::None)?))
        });
        let windowed = windowed.transpose()?;
        let unrotated = self.config.unrotated.map(|_| {
            let mut still = all.clone();
            still.cos.fill(1.0);
            still.sin.fill(0.0);
            upload(still)
        });
        let queries = self.config.query_growth.map(|growth| {
            let mut grown = all.clone();
            for table in [&mut grown.cos, &mut grown.sin] {
                for (position, row) in table.chunks_exact_mut((rope_dim / 2).max(1)).enumerate() {
                    row.iter_mut().for_each(|x| *x = (f64::from(*x) * growth.at(position)) as f32);
                }
            }
            upload(grown)
        });
        let (unrotated, queries) = (unrotated.transpose()?, queries.transpose()?);
        Ok(Rotations { all: upload(all)?, windowed, unrotated, queries })
    }
}

/// Loads a decoder that generates text.
pub(super) fn generator<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    config: Config,
    context: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    config.check_generates(gguf)?;
    load(backend, gguf, config, context, HashSet::new(), progress)
}

/// Loads a decoder from a file of which the caller has used some tensors already.
pub(crate) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    config: Config,
    context: usize,
    used: HashSet<String>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    let loader = Loader::new(backend, gguf, &config)?;
    used.iter().for_each(|name| loader.mark(name));
    let dims = gguf.tensor("token_embd.weight")?.dims();
    let &[vocabulary, _] = dims else {
        let (got, wanted) = (format!("dimensions {dims:?}"), format!("[vocabulary, {}]", config.dim));
        return Err(Error::Tensor { name: "token_embd.weight".into(), got, wanted });
    };
    check_rows(gguf, vocabulary)?;
    loader.mark("token_embd.weight");
    let per_layer = loader.per_layer(vocabulary)?;
    let rotations = loader.rotations(context)?;
    let layers = (0..config.layers).map(|i| {
        progress(i, config.layers);
        loader.layer(i)
    });
    let layers = layers.collect::<Result<_>>()?;
    progress(config.layers, config.layers);
    let output_norm = loader.stream_norm("output_norm")?;
    let matrix = [vocabulary, config.dim];
    let output = loader.has("output.weight").then(|| loader.linear("output", matrix)).transpose()?;
    let further = loader.further()?;
    loader.check_all_used(&config.architecture)?;
    Ok(Decoder {
        embedding: loader.weights.matrix("token_embd.weight", matrix)?,
        per_layer,
        layers,
        further,
        output_norm,
        output,
        rotations,
        config,
        computes_in: PhantomData,
    })
}

/// Checks that the embeddings have as many rows as the metadata says, if it does.
fn check_rows(gguf: &Gguf, rows: usize) -> Result<()> {
    let keys = Keys::new(gguf.metadata())?;
    match keys.find::<u64>("vocab_size")? {
        Some(said) if said != rows as u64 => {
            Err(keys.wrong("vocab_size", said, format!("{rows}, the rows of token_embd.weight")))
        }
        _ => Ok(()),
    }
}
