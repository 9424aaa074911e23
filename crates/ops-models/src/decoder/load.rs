//! Reads a model's tensors. A tensor in the file that the model does not use is an error.
use super::feed_forward::FeedForward;
use super::{Attend, AttentionPart, Decoder, Layer, Linear, Norm, Rotation, Rotations};
use crate::keys::Keys;
use crate::{Config, Error, HeadShape, NormKind, Result};
use ops_core::model::{RopeScaling, RopeTables, Transformer};
use ops_core::ops::{CastOps, ElementwiseOps, LinearOps};
use ops_core::{Float, TensorOf};
use ops_gguf::{Gguf, Weights};
use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;

mod feed_forward;

/// Tensors that only repeat the metadata: frequency tables in old files.
const IGNORED: [&str; 2] = ["rope_freqs.weight", "attn_rot_embd"];

/// Reads tensors by name and remembers which ones. `C` is the model's configuration.
pub(crate) struct Loader<'g, B, T, C = Config> {
    pub(crate) backend: &'g B,
    pub(crate) gguf: &'g Gguf,
    pub(crate) weights: Weights<'g, B>,
    pub(crate) config: &'g C,
    used: RefCell<HashSet<String>>,
    computes_in: PhantomData<T>,
}

/// Reading for models of any kind.
impl<'g, T: Float, B: Transformer<T>, C> Loader<'g, B, T, C> {
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(backend: &'g B, gguf: &'g Gguf, config: &'g C) -> Result<Self> {
        let sizes = gguf.tensors().map(|tensor| tensor.bytes().map_or(0, |bytes| bytes.len() as u64));
        let needed = sizes.fold(0, u64::saturating_add);
        if let Some(free) = backend.free_memory().filter(|free| *free < needed) {
            return Err(Error::Memory { backend: backend.name(), needed, free });
        }
        let weights = Weights::new(backend, gguf);
        Ok(Loader { backend, gguf, weights, config, used: RefCell::default(), computes_in: PhantomData })
    }
    pub(crate) fn has(&self, name: &str) -> bool {
        self.weights.contains(name)
    }
    pub(crate) fn mark(&self, name: &str) {
        self.used.borrow_mut().insert(name.to_owned());
    }

    /// The tensors that were read.
    pub(crate) fn used(&self) -> HashSet<String> {
        self.used.borrow().clone()
    }

    pub(crate) fn vector(&self, name: &str, len: usize) -> Result<TensorOf<B, f32>> {
        self.mark(name);
        Ok(self.weights.vector(name, len)?)
    }
    fn optional(&self, name: &str, len: usize) -> Result<Option<TensorOf<B, f32>>> {
        self.has(name).then(|| self.vector(name, len)).transpose()
    }

    /// A norm of this kind and `eps`. A bias is read if the file has one and the kind supports it.
    pub(crate) fn norm_of(&self, kind: (NormKind, f64), part: &str, len: usize) -> Result<Norm<B>> {
        let (kind, eps) = kind;
        let weight = self.vector(&format!("{part}.weight"), len)?;
        let bias = match kind {
            NormKind::Rms => None,
            NormKind::Layer => self.optional(&format!("{part}.bias"), len)?,
        };
        Ok(Norm { kind, eps, weight, bias })
    }

    /// A matrix `[n, k]`, with its bias if the file has one.
    pub(crate) fn linear(&self, part: &str, dims: [usize; 2]) -> Result<Linear<B>> {
        let name = format!("{part}.weight");
        self.mark(&name);
        let weight = self.weights.packed::<T>(&name, dims)?;
        Ok(Linear { weight, bias: self.optional(&format!("{part}.bias"), dims[0])? })
    }
    /// Rows of a tensor as a separate matrix.
    pub(crate) fn rows(&self, part: &str, dims: &[usize], rows: Range<usize>) -> Result<Linear<B>> {
        self.row_groups(part, dims, std::slice::from_ref(&rows))
    }
    /// The same for groups of rows, which are concatenated.
    pub(crate) fn row_groups(
        &self,
        part: &str,
        dims: &[usize],
        groups: &[Range<usize>],
    ) -> Result<Linear<B>> {
        let name = format!("{part}.weight");
        self.mark(&name);
        let bias = format!("{part}.bias");
        if self.has(&bias) {
            let wanted = "no bias on a matrix that combines several".to_owned();
            return Err(Error::Tensor { name: bias, got: "a bias".into(), wanted });
        }
        let weight = self.weights.row_groups(&name, dims, groups)?;
        Ok(Linear { weight: LinearOps::<T>::pack_weight(self.backend, weight)?, bias: None })
    }

    /// A matrix for ops that need it in the type that the model computes in.
    pub(crate) fn matrix_in_t(&self, name: &str, dims: [usize; 2]) -> Result<TensorOf<B, T>> {
        self.mark(name);
        Ok(CastOps::<T>::cast(self.backend, &self.weights.matrix(name, dims)?)?)
    }

    /// Counts the tensors of these layers as read.
    fn pass_over(&self, layers: Range<usize>) {
        for layer in layers {
            let prefix = format!("blk.{layer}.");
            self.gguf
                .tensors()
                .filter(|tensor| tensor.name().starts_with(&prefix))
                .for_each(|tensor| self.mark(tensor.name()));
        }
    }

    /// Refuses a file with a tensor that was not read.
    pub(crate) fn check_all_used(&self, architecture: &str) -> Result<()> {
        let used = self.used.borrow();
        let known = |name: &str| used.contains(name) || IGNORED.iter().any(|part| name.contains(part));
        match self.gguf.tensors().find(|tensor| !known(tensor.name())) {
            None => Ok(()),
            Some(tensor) => Err(Error::Tensor {
                name: tensor.name().to_owned(),
                got: format!("a tensor of {:?} that this program does not use", tensor.dims()),
                wanted: format!("the tensors of a {architecture:?} model"),
            }),
        }
    }
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(super) fn norm(&self, part: &str, len: usize) -> Result<Norm<B>> {
        self.norm_of((self.config.norm, self.config.norm_eps), part, len)
    }
    /// A norm of the residual stream, which is in units of [`Config::stream_unit`]: only `eps` needs to be in them, too.
    pub(super) fn stream_norm(&self, part: &str) -> Result<Norm<B>> {
        let unit = self.config.stream_unit::<T>();
        self.norm_of((self.config.norm, self.config.norm_eps / (unit * unit)), part, self.config.dim)
    }
    /// The norm of what a block adds to the residual stream, in its units.
    fn post_norm(&self, part: &str) -> Result<Option<Norm<B>>> {
        if !self.config.post_norms {
            return Ok(None);
        }
        Ok(Some(self.of_stream(self.norm(part, self.config.dim)?)?))
    }
    /// The same norm, whose results are in units of the residual stream.
    pub(super) fn of_stream(&self, mut norm: Norm<B>) -> Result<Norm<B>> {
        let unit = self.config.stream_unit::<T>();
        if unit != 1.0 {
            ElementwiseOps::<f32>::affine_inplace(self.backend, &mut norm.weight, 1.0 / unit, 0.0)?;
        }
        Ok(norm)
    }

    fn layer(&self, i: usize) -> Result<Layer<T, B>> {
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
            feed_norm: (!parallel).then(|| self.stream_norm(&part(feed_norm))).transpose()?,
            feed: match self.config.experts.filter(|experts| i >= experts.leading_dense) {
                Some(experts) if self.config.experts_beside => {
                    FeedForward::Beside(Box::new(self.beside(i, experts)?))
                }
                Some(experts) => FeedForward::Mixture(Box::new(self.mixture(i, experts)?)),
                None => FeedForward::Dense(Box::new(self.dense(i, "", self.config.ffn_of(i))?)),
            },
            post_feed_norm: self.post_norm(&part("post_ffw_norm"))?,
            end: self.end(i)?,
        })
    }

    /// Matrices `[n, dim]` as one, if they have the same type and either all or none of them have a bias;
    /// otherwise each separately.
    fn stacked<const N: usize>(&self, parts: [(String, usize); N]) -> Result<Vec<Linear<B>>> {
        let dim = self.config.dim;
        let named = |kind: &str| parts.each_ref().map(|(part, _)| format!("{part}.{kind}"));
        let (weights, biases) = (named("weight"), named("bias"));
        let types = weights.each_ref().map(|name| self.gguf.find(name).map(|tensor| tensor.ggml_type()));
        let biased = biases.iter().filter(|name| self.has(name)).count();
        if types.iter().any(|of| *of != types[0]) || biased % N != 0 {
            return parts.iter().map(|(part, n)| self.linear(part, [*n, dim])).collect();
        }
        weights.iter().for_each(|name| self.mark(name));
        let rows: [_; N] = std::array::from_fn(|at| (weights[at].as_str(), [parts[at].1, dim]));
        let weight = LinearOps::<T>::pack_weight(self.backend, self.weights.stacked(&rows)?)?;
        let mut bias = Vec::new();
        for (name, (_, n)) in biases.iter().zip(&parts).filter(|_| biased > 0) {
            bias.extend(self.vector(name, *n)?.to_vec(self.backend)?);
        }
        let bias = (biased > 0).then(|| self.backend.tensor(&[bias.len()], &bias)).transpose()?;
        Ok(vec![Linear { weight, bias }])
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
            vec![linear("attn_q", q)?]
        } else if keys_are_values {
            self.stacked([("attn_q", q), ("attn_k", kv)].map(|(name, n)| (part(name), n)))?
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
            self.stacked([("attn_q", q), ("attn_k", kv), ("attn_v", kv)].map(|(name, n)| (part(name), n)))?
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
                Some(sinks) => Some(CastOps::<T>::cast(self.backend, &sinks)?.into()),
                None => None,
            },
        })
    }

    fn ones(&self, len: usize) -> Result<TensorOf<B, f32>> {
        let mut ones = self.backend.zeros(&[len])?;
        ElementwiseOps::<f32>::affine_inplace(self.backend, &mut ones, 0.0, 1.0)?;
        Ok(ones)
    }

    /// A product of two extents from a file, checked for overflow: either may be arbitrarily large.
    pub(super) fn product(&self, what: &str, a: usize, b: usize) -> Result<usize> {
        a.checked_mul(b).ok_or_else(|| Error::Key {
            key: format!("{}: {what}", self.config.architecture),
            got: format!("{a} times {b}"),
            wanted: "a width that a tensor can have".into(),
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
    loader.used.replace(used);
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
    loader.pass_over(config.layers..config.layers + config.passed_over);
    loader.check_all_used(&config.architecture)?;
    Ok(Decoder {
        embedding: loader.weights.matrix("token_embd.weight", matrix)?,
        per_layer,
        layers,
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
