//! Reads a model's tensors. A tensor in the file that the model does not use is an error.
use super::{Attend, AttentionPart, Decoder, Layer, Rotation, Rotations};
use crate::keys::Keys;
use crate::pieces::{EMBEDDINGS, Linear};
use crate::share::only;
use crate::{Config, Error, HeadShape, Result, Share};
use ops_core::Float;
use ops_core::model::{RopeScaling, RopeTables, Transformer, Weight};
use ops_core::ops::CastMethods;
use ops_gguf::Gguf;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;

pub(crate) use crate::pieces::Loader;

/// Rows of a matrix: its name, its number of rows, and which of them.
pub(super) type Part = (String, usize, Vec<Range<usize>>);

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

    /// Rows of matrices `[n, dim]`, of which neighbours become one if they have the same type and either both or neither have a bias.
    pub(super) fn stacked(&self, parts: &[Part]) -> Result<Vec<Linear<B>>> {
        let kind = |part: &str| {
            let of = self.gguf.find(&format!("{part}.weight")).map(|tensor| tensor.ggml_type());
            (of, self.has(&format!("{part}.bias")))
        };
        parts
            .chunk_by(|(one, ..), (next, ..)| kind(one) == kind(next))
            .map(|alike| self.one_matrix(alike))
            .collect()
    }

    /// Rows of matrices of the same type, all or none of them with a bias, as one.
    fn one_matrix(&self, parts: &[Part]) -> Result<Linear<B>> {
        let dim = self.config.dim;
        if let [(part, n, rows)] = parts {
            return self.row_groups(part, &[*n, dim], rows);
        }
        let named = |kind: &str| parts.iter().map(|(part, ..)| format!("{part}.{kind}")).collect::<Vec<_>>();
        let (weights, biases) = (named("weight"), named("bias"));
        weights.iter().for_each(|name| self.mark(name));
        let some = weights.iter().zip(parts);
        let some: Vec<_> = some.map(|(name, (_, n, rows))| (name.as_str(), [*n, dim], &rows[..])).collect();
        let all = parts.iter().map(|(_, n, _)| n).sum();
        let weight = self.pack(self.weights.stacked(&some)?, all)?;
        let mut bias = Vec::new();
        for (name, (_, n, rows)) in biases.iter().zip(parts).filter(|(name, _)| self.has(name)) {
            bias.extend(self.vector_groups(name, *n, rows)?.to_vec(self.backend)?);
        }
        let bias = (!bias.is_empty()).then(|| self.backend.tensor(&[bias.len()], &bias)).transpose()?;
        Ok(Linear { weight, bias })
    }

    fn attend(&self, i: usize) -> Result<Attend<B>> {
        let Config { dim, value_norms, .. } = *self.config;
        let HeadShape { kv_heads, head_dim, .. } = self.config.heads_of(i);
        let ((q, kv), cut) = (self.config.widths(i)?, self.heads());
        let part = |name: &str| format!("blk.{i}.{name}");
        let rows = |head: usize| head * head_dim..(head + 1) * head_dim;
        let query = only(cut.own.start * head_dim..cut.own.end * head_dim);
        let keys: Vec<_> = match self.share.is_whole() {
            true => only(0..kv),
            false => self.config.kv_heads_for(&cut.own, kv_heads).into_iter().map(rows).collect(),
        };
        let [of_query, of_key, of_value] =
            [("attn_q", q, &query), ("attn_k", kv, &keys), ("attn_v", kv, &keys)]
                .map(|(name, n, rows)| (part(name), n, rows.clone()));
        let fused = part("attn_qkv");
        let mut gate = None;
        let has_keys = self.config.has_own_keys(i);
        // Only families that norm values can do without them.
        let keys_are_values = value_norms && has_keys && !self.has(&format!("{}.weight", part("attn_v")));
        let projections = if !has_keys {
            // Real files have these tensors, which nothing uses.
            ["attn_k.weight", "attn_v.weight"].iter().for_each(|name| self.mark(&part(name)));
            self.stacked(&[of_query])?
        } else if keys_are_values {
            self.stacked(&[of_query, of_key])?
        } else if self.has(&format!("{fused}.weight")) {
            let after = |start: usize| keys.iter().map(move |rows| start + rows.start..start + rows.end);
            let all: Vec<_> = query.iter().cloned().chain(after(q)).chain(after(q + kv)).collect();
            let all = if self.share.is_whole() { only(0..q + 2 * kv) } else { all };
            vec![self.row_groups(&fused, &[q + 2 * kv, dim], &all)?]
        } else if self.config.gated {
            // Each head's query is followed by its gate.
            let of_heads = |first| cut.own.clone().map(|head| rows(2 * head + first)).collect::<Vec<_>>();
            let both = part("attn_q");
            gate = Some(self.row_groups(&both, &[2 * q, dim], &of_heads(1))?);
            self.stacked(&[(both, 2 * q, of_heads(0)), of_key, of_value])?
        } else {
            self.stacked(&[of_query, of_key, of_value])?
        };
        Ok(Attend {
            projections,
            gate,
            output: self.summed(&part("attn_output"), [dim, q], &cut.times(head_dim), only)?,
            keys_are_values,
            query_norm: self.optional(&part("attn_q_norm.weight"), head_dim)?,
            key_norm: self.optional(&part("attn_k_norm.weight"), head_dim)?,
            value_norm: (value_norms && has_keys).then(|| self.ones(head_dim)).transpose()?,
            sinks: self.sinks(&part("attn_sinks.weight"), cut.own)?,
        })
    }

    fn sinks(&self, name: &str, own: Range<usize>) -> Result<Option<Weight<B::Space>>> {
        if !self.has(name) {
            return Ok(None);
        }
        let sinks = self.vector_groups(name, self.config.heads, &only(own))?;
        Ok(Some(self.backend.cast::<T>(&sinks)?.into()))
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
    share: Share<B::Space>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    config.check_generates(gguf)?;
    load(backend, gguf, config, context, (HashSet::new(), share), progress)
}

/// Loads a decoder from a file of which the caller has used some tensors already.
pub(crate) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    config: Config,
    context: usize,
    (used, share): (HashSet<String>, Share<B::Space>),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    let loader = Loader::new(backend, gguf, &config, share.clone())?;
    used.iter().for_each(|name| loader.mark(name));
    let dims = gguf.tensor(EMBEDDINGS)?.dims();
    let &[vocabulary, _] = dims else {
        let (got, wanted) = (format!("dimensions {dims:?}"), format!("[vocabulary, {}]", config.dim));
        return Err(Error::Tensor { name: EMBEDDINGS.into(), got, wanted });
    };
    check_rows(gguf, vocabulary)?;
    loader.mark(EMBEDDINGS);
    let own = config.with_heads(&loader.heads().own, &loader.recurrent_heads().own, !share.is_whole());
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
    let ids = share.ids(vocabulary);
    let output = loader.has("output.weight").then(|| loader.rows("output", &matrix, ids)).transpose()?;
    let further = loader.further(&own)?;
    loader.check_all_used(&config.architecture)?;
    let embedding = loader.weights.matrix(EMBEDDINGS, matrix)?;
    let bytes_read = loader.weights.bytes_read();
    Ok(Decoder {
        names: share.names(backend, vocabulary)?,
        embedding,
        per_layer,
        layers,
        further,
        output_norm,
        output,
        rotations,
        config: own,
        whole: config,
        share,
        bytes_read,
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
