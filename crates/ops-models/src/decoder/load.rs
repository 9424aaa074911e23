//! Reads a model's tensors. A tensor in the file that the model does not use is an error.
use super::feed_forward::{Dense, FeedForward, Matrices, Mixture};
use super::{Attend, AttentionPart, Decoder, Layer, Linear, Norm, Rotation};
use crate::keys::Keys;
use crate::{Activation, Config, Error, Experts, NormKind, Result};
use ops_core::model::{RopeScaling, RopeTables, Transformer, Weight};
use ops_core::ops::{CastOps, ElementwiseOps, LinearOps};
use ops_core::{Float, TensorOf};
use ops_gguf::{Gguf, Weights};
use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;

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
    fn stream_norm(&self, part: &str) -> Result<Norm<B>> {
        let unit = self.config.stream_unit::<T>();
        self.norm_of((self.config.norm, self.config.norm_eps / (unit * unit)), part, self.config.dim)
    }
    /// The norm of what a block adds to the residual stream, in its units.
    fn post_norm(&self, part: &str) -> Result<Option<Norm<B>>> {
        if !self.config.post_norms {
            return Ok(None);
        }
        let mut norm = self.norm(part, self.config.dim)?;
        let unit = self.config.stream_unit::<T>();
        if unit != 1.0 {
            ElementwiseOps::<f32>::affine_inplace(self.backend, &mut norm.weight, 1.0 / unit, 0.0)?;
        }
        Ok(Some(norm))
    }

    /// Rows of a tensor as a separate matrix.
    fn rows(&self, part: &str, dims: &[usize], rows: Range<usize>) -> Result<Linear<B>> {
        self.row_groups(part, dims, std::slice::from_ref(&rows))
    }
    /// The same for groups of rows, which are concatenated.
    pub(super) fn row_groups(
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

    fn layer(&self, i: usize) -> Result<Layer<T, B>> {
        let Config { parallel, feed_norm, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        let is_recurrent = |layer| self.config.is_recurrent(layer);
        Ok(Layer {
            attention_norm: self.stream_norm(&part("attn_norm"))?,
            attend: match (self.config.latent, &self.config.recurrent) {
                (_, Some(plan)) if is_recurrent(i) => {
                    AttentionPart::Recurrent(Box::new(self.recurrent(i, plan)?))
                }
                (Some(latent), _) => AttentionPart::Latent(Box::new(self.latent(i, latent)?)),
                (None, _) => AttentionPart::Heads(Box::new(self.attend(i)?)),
            },
            slot: (0..i).filter(|earlier| is_recurrent(*earlier) == is_recurrent(i)).count(),
            post_attention_norm: self.post_norm(&part("post_attention_norm"))?,
            feed_norm: (!parallel).then(|| self.stream_norm(&part(feed_norm))).transpose()?,
            feed: match self.config.experts.filter(|experts| i >= experts.leading_dense) {
                Some(experts) => FeedForward::Mixture(Box::new(self.mixture(i, experts)?)),
                None => FeedForward::Dense(Box::new(self.dense(i, "", self.config.ffn)?)),
            },
            post_feed_norm: self.post_norm(&part("post_ffw_norm"))?,
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
        let Config { dim, head_dim, heads, .. } = *self.config;
        let (q, kv) = self.config.widths()?;
        let part = |name: &str| format!("blk.{i}.{name}");
        let fused = part("attn_qkv");
        let linear = |name, n| self.linear(&part(name), [n, dim]);
        let mut gate = None;
        let projections = if self.has(&format!("{fused}.weight")) {
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
            query_norm: self.optional(&part("attn_q_norm.weight"), head_dim)?,
            key_norm: self.optional(&part("attn_k_norm.weight"), head_dim)?,
            sinks: match self.optional(&part("attn_sinks.weight"), self.config.heads)? {
                Some(sinks) => Some(CastOps::<T>::cast(self.backend, &sinks)?.into()),
                None => None,
            },
        })
    }

    /// The dense block of this width, whose tensors' names end in `suffix`.
    fn dense(&self, i: usize, suffix: &str, ffn: usize) -> Result<Dense<B>> {
        let Config { dim, activation, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}{suffix}");
        let down = self.linear(&part("ffn_down"), [dim, ffn])?;
        let up = part("ffn_up");
        if activation == Activation::Gelu {
            return Ok(Dense { gate: None, up: self.linear(&up, [ffn, dim])?, down });
        }
        if self.has(&format!("{}.weight", part("ffn_gate"))) {
            let gate = Some(self.linear(&part("ffn_gate"), [ffn, dim])?);
            return Ok(Dense { gate, up: self.linear(&up, [ffn, dim])?, down });
        }
        // Gate and up are in one matrix, in this order.
        let dims = [2 * ffn, dim];
        let gate = Some(self.rows(&up, &dims, 0..ffn)?);
        Ok(Dense { gate, up: self.rows(&up, &dims, ffn..2 * ffn)?, down })
    }

    fn mixture(&self, i: usize, experts: Experts) -> Result<Mixture<B>> {
        let Config { dim, .. } = *self.config;
        let Experts { count, ffn, shared, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Mixture {
            router: self.linear(&part("ffn_gate_inp"), [count, dim])?,
            gate: self.matrices(&part("ffn_gate_exps"), [count, ffn, dim])?,
            up: self.matrices(&part("ffn_up_exps"), [count, ffn, dim])?,
            down: self.matrices(&part("ffn_down_exps"), [count, dim, ffn])?,
            choice_bias: self.optional(&part("exp_probs_b.bias"), count)?,
            shared: (shared > 0).then(|| self.shared(i, shared)).transpose()?,
            plan: experts,
        })
    }
    /// The shared block of this width, and its gate, a row that files store as a vector or as a matrix.
    fn shared(&self, i: usize, width: usize) -> Result<(Dense<B>, Option<Linear<B>>)> {
        let (block, dim) = (self.dense(i, "_shexp", width)?, self.config.dim);
        let part = format!("blk.{i}.ffn_gate_inp_shexp");
        let name = format!("{part}.weight");
        let gate = match self.gguf.find(&name).map(|tensor| tensor.dims().len()) {
            None => None,
            Some(1) => {
                let row: Weight<B::Space> = self.vector(&name, dim)?.reshape(&[1, dim])?.into();
                Some(Linear { weight: LinearOps::<T>::pack_weight(self.backend, row)?, bias: None })
            }
            Some(_) => Some(self.linear(&part, [1, dim])?),
        };
        Ok((block, gate))
    }
    /// Several matrices in one tensor, `[count, n, k]`, with their biases if the file has them.
    pub(super) fn matrices(&self, part: &str, [count, n, k]: [usize; 3]) -> Result<Matrices<B>> {
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        let weight = self.weights.rows(&name, &[count, n, k], 0..self.product(part, count, n)?)?;
        let (dtype, layout) = (weight.dtype(), *weight.layout());
        let layout = layout.reshape(&[count, n, layout.last()])?;
        let weight = Weight::new(weight.into_buffer(), dtype, layout)?;
        let bias = match self.has(&bias) {
            true => {
                self.mark(&bias);
                Some(CastOps::<f32>::cast(self.backend, &self.weights.matrix(&bias, [count, n])?)?)
            }
            false => None,
        };
        Ok(Matrices { weight, bias })
    }
    /// A product of two extents from a file, checked for overflow: either may be arbitrarily large.
    pub(super) fn product(&self, what: &str, a: usize, b: usize) -> Result<usize> {
        a.checked_mul(b).ok_or_else(|| Error::Key {
            key: format!("{}: {what}", self.config.architecture),
            got: format!("{a} times {b}"),
            wanted: "a width that a tensor can have".into(),
        })
    }

    /// Tables for layers without a window, and for those with one if they differ.
    fn rotations(&self, context: usize) -> Result<(Rotation<B>, Option<Rotation<B>>)> {
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
        let tables = |base: f64, scaling: &RopeScaling| -> Result<Rotation<B>> {
            let (cos, sin) = RopeTables::new(context, rope_dim, base, scaling)?.upload(self.backend)?;
            Ok(Rotation { cos, sin })
        };
        let windowed = self.config.window.as_ref().and_then(|window| window.rope_base);
        let windowed = windowed.map(|base| tables(base, &RopeScaling::None)).transpose()?;
        Ok((tables(rope_base, &scaling)?, windowed))
    }
}

pub(super) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    context: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    let config = Config::new(gguf.metadata())?;
    let loader = Loader::new(backend, gguf, &config)?;
    let dims = gguf.tensor("token_embd.weight")?.dims();
    let &[vocabulary, _] = dims else {
        let (got, wanted) = (format!("dimensions {dims:?}"), format!("[vocabulary, {}]", config.dim));
        return Err(Error::Tensor { name: "token_embd.weight".into(), got, wanted });
    };
    check_rows(gguf, vocabulary)?;
    loader.mark("token_embd.weight");
    let (rotation, windowed_rotation) = loader.rotations(context)?;
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
        layers,
        output_norm,
        output,
        rotation,
        windowed_rotation,
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
