//! Reads a model's tensors. Whatever the file has and the model does not use is an error.
use super::feed_forward::{Dense, FeedForward, Mixture};
use super::{Attend, Decoder, Layer, Linear, Norm, Rotation};
use crate::{Activation, Config, Error, Experts, NormKind, Result};
use ops_core::model::{RopeScaling, RopeTables, Transformer, Weight};
use ops_core::ops::LinearOps;
use ops_core::{Float, TensorOf};
use ops_gguf::{Gguf, Weights};
use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;

/// Tensors that hold nothing the metadata does not say: tables of frequencies in old files.
const IGNORED: [&str; 2] = ["rope_freqs.weight", "attn_rot_embd"];

/// Reads tensors by name and remembers which.
struct Loader<'g, B, T> {
    backend: &'g B,
    gguf: &'g Gguf,
    weights: Weights<'g, B>,
    config: &'g Config,
    used: RefCell<HashSet<String>>,
    computes_in: PhantomData<T>,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    fn has(&self, name: &str) -> bool {
        self.weights.contains(name)
    }
    fn mark(&self, name: &str) {
        self.used.borrow_mut().insert(name.to_owned());
    }

    fn vector(&self, name: &str, len: usize) -> Result<TensorOf<B, f32>> {
        self.mark(name);
        Ok(self.weights.vector(name, len)?)
    }
    fn optional(&self, name: &str, len: usize) -> Result<Option<TensorOf<B, f32>>> {
        self.has(name).then(|| self.vector(name, len)).transpose()
    }

    fn norm(&self, part: &str, len: usize) -> Result<Norm<B>> {
        let kind = self.config.norm;
        let weight = self.vector(&format!("{part}.weight"), len)?;
        let bias = match kind {
            NormKind::Rms => None,
            NormKind::Layer => self.optional(&format!("{part}.bias"), len)?,
        };
        Ok(Norm { kind, eps: self.config.norm_eps, weight, bias })
    }
    fn optional_norm(&self, part: &str, len: usize) -> Result<Option<Norm<B>>> {
        self.has(&format!("{part}.weight")).then(|| self.norm(part, len)).transpose()
    }

    /// A matrix `[n, k]`, with its bias if the file has one.
    fn linear(&self, part: &str, dims: [usize; 2]) -> Result<Linear<B>> {
        let name = format!("{part}.weight");
        self.mark(&name);
        let weight = self.weights.packed::<T>(&name, dims)?;
        Ok(Linear { weight, bias: self.optional(&format!("{part}.bias"), dims[0])? })
    }
    /// Rows of a tensor as a matrix of their own.
    fn plain_rows(&self, part: &str, dims: &[usize], rows: Range<usize>) -> Result<Weight<B::Space>> {
        let name = format!("{part}.weight");
        self.mark(&name);
        let bias = format!("{part}.bias");
        if self.has(&bias) {
            let wanted = "no bias beside a matrix that is several in one".to_owned();
            return Err(Error::Tensor { name: bias, got: "a bias".into(), wanted });
        }
        Ok(self.weights.rows(&name, dims, rows)?)
    }
    /// The same, in the order in which the backend reads it fastest.
    fn rows(&self, part: &str, dims: &[usize], rows: Range<usize>) -> Result<Linear<B>> {
        let weight = self.plain_rows(part, dims, rows)?;
        Ok(Linear { weight: LinearOps::<T>::pack_weight(self.backend, weight)?, bias: None })
    }

    fn layer(&self, i: usize) -> Result<Layer<B>> {
        let Config { dim, parallel, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Layer {
            attention_norm: self.norm(&part("attn_norm"), dim)?,
            attend: self.attend(i)?,
            post_attention_norm: self.optional_norm(&part("post_attention_norm"), dim)?,
            feed_norm: (!parallel).then(|| self.norm(&part("ffn_norm"), dim)).transpose()?,
            feed: match self.config.experts {
                Some(experts) => FeedForward::Mixture(Box::new(self.mixture(i, experts)?)),
                None => FeedForward::Dense(Box::new(self.dense(i)?)),
            },
            post_feed_norm: self.optional_norm(&part("post_ffw_norm"), dim)?,
        })
    }

    fn attend(&self, i: usize) -> Result<Attend<B>> {
        let Config { dim, head_dim, .. } = *self.config;
        let (q, kv) = self.config.widths()?;
        let part = |name: &str| format!("blk.{i}.{name}");
        let fused = part("attn_qkv");
        let [query, key, value] = if self.has(&format!("{fused}.weight")) {
            let dims = [q + 2 * kv, dim];
            let rows = |rows| self.rows(&fused, &dims, rows);
            [rows(0..q)?, rows(q..q + kv)?, rows(q + kv..q + 2 * kv)?]
        } else {
            let linear = |name, n| self.linear(&part(name), [n, dim]);
            [linear("attn_q", q)?, linear("attn_k", kv)?, linear("attn_v", kv)?]
        };
        Ok(Attend {
            query,
            key,
            value,
            output: self.linear(&part("attn_output"), [dim, q])?,
            query_norm: self.optional(&part("attn_q_norm.weight"), head_dim)?,
            key_norm: self.optional(&part("attn_k_norm.weight"), head_dim)?,
        })
    }

    fn dense(&self, i: usize) -> Result<Dense<B>> {
        let Config { dim, ffn, activation, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        let down = self.linear(&part("ffn_down"), [dim, ffn])?;
        let up = part("ffn_up");
        if activation == Activation::Gelu {
            return Ok(Dense { gate: None, up: self.linear(&up, [ffn, dim])?, down });
        }
        if self.has(&part("ffn_gate.weight")) {
            let gate = Some(self.linear(&part("ffn_gate"), [ffn, dim])?);
            return Ok(Dense { gate, up: self.linear(&up, [ffn, dim])?, down });
        }
        // Gate and up in one matrix, in this order.
        let dims = [2 * ffn, dim];
        let gate = Some(self.rows(&up, &dims, 0..ffn)?);
        Ok(Dense { gate, up: self.rows(&up, &dims, ffn..2 * ffn)?, down })
    }

    fn mixture(&self, i: usize, experts: Experts) -> Result<Mixture<B>> {
        let Config { dim, .. } = *self.config;
        let Experts { count, ffn, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Mixture {
            router: self.linear(&part("ffn_gate_inp"), [count, dim])?,
            gate: self.matrices(&part("ffn_gate_exps"), [count, ffn, dim])?,
            up: self.matrices(&part("ffn_up_exps"), [count, ffn, dim])?,
            down: self.matrices(&part("ffn_down_exps"), [count, dim, ffn])?,
            plan: experts,
        })
    }
    /// A matrix for each expert, `[count, n, k]`.
    fn matrices(&self, part: &str, [count, n, k]: [usize; 3]) -> Result<Weight<B::Space>> {
        let weight = self.plain_rows(part, &[count, n, k], 0..count * n)?;
        let (dtype, layout) = (weight.dtype(), *weight.layout());
        let columns = layout.last();
        Ok(Weight::new(weight.into_buffer(), dtype, layout.reshape(&[count, n, columns])?)?)
    }

    /// Tables for layers without a window, and for those with one if they differ.
    fn rotations(&self, context: usize) -> Result<(Rotation<B>, Option<Rotation<B>>)> {
        let Config { rope_dim, rope_base, .. } = *self.config;
        let scaling = match self.gguf.find("rope_freqs.weight") {
            Some(factors) => RopeScaling::Factors(factors.view::<f32>()?.into_owned()),
            None => self.config.rope_scaling.clone(),
        };
        let tables = |base: f64, scaling: &RopeScaling| -> Result<Rotation<B>> {
            let (cos, sin) = RopeTables::new(context, rope_dim, base, scaling)?.upload(self.backend)?;
            Ok(Rotation { cos, sin })
        };
        let windowed = self.config.window.as_ref().and_then(|window| window.rope_base);
        let windowed = windowed.map(|base| tables(base, &RopeScaling::None)).transpose()?;
        Ok((tables(rope_base, &scaling)?, windowed))
    }

    fn check_all_used(&self) -> Result<()> {
        let used = self.used.borrow();
        let known = |name: &str| used.contains(name) || IGNORED.iter().any(|part| name.contains(part));
        match self.gguf.tensors().find(|tensor| !known(tensor.name())) {
            None => Ok(()),
            Some(tensor) => Err(Error::Tensor {
                name: tensor.name().to_owned(),
                got: format!("a tensor of {:?} that this program has no use for", tensor.dims()),
                wanted: format!("the tensors of a {:?} model", self.config.architecture),
            }),
        }
    }
}

pub(super) fn load<T: Float, B: Transformer<T>>(
    backend: &B,
    gguf: &Gguf,
    context: usize,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Decoder<T, B>> {
    let config = Config::new(gguf.metadata())?;
    let loader = Loader {
        backend,
        gguf,
        weights: Weights::new(backend, gguf),
        config: &config,
        used: RefCell::default(),
        computes_in: PhantomData,
    };
    let dims = gguf.tensor("token_embd.weight")?.dims();
    let &[vocabulary, _] = dims else {
        let (got, wanted) = (format!("dimensions {dims:?}"), format!("[vocabulary, {}]", config.dim));
        return Err(Error::Tensor { name: "token_embd.weight".into(), got, wanted });
    };
    loader.mark("token_embd.weight");
    let (rotation, windowed_rotation) = loader.rotations(context)?;
    let layers = (0..config.layers).map(|i| {
        progress(i, config.layers);
        loader.layer(i)
    });
    let layers = layers.collect::<Result<_>>()?;
    progress(config.layers, config.layers);
    let output_norm = loader.norm("output_norm", config.dim)?;
    let matrix = [vocabulary, config.dim];
    let output = loader.has("output.weight").then(|| loader.linear("output", matrix)).transpose()?;
    loader.check_all_used()?;
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
