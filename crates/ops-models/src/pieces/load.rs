//! Reads the tensors of pieces by name. A tensor in the file that a model does not use is an error.
use super::{Linear, Norm, Summed};
use crate::share::{Cut, only};
use crate::{Config, Error, NormKind, Result, Share};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::{CastMethods, CopyMethods, ElementwiseMethods, LinearMethods};
use ops_core::{Backend, Float, TensorOf};
use ops_gguf::{Gguf, Weights};
use std::cell::RefCell;
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::Range;

mod feed_forward;
mod heads;

/// Tensors that only repeat the metadata: frequency tables in old files.
const IGNORED: [&str; 2] = ["rope_freqs.weight", "attn_rot_embd"];

/// The table of embeddings.
pub(crate) const EMBEDDINGS: &str = "token_embd.weight";

/// Reads tensors by name and remembers which ones. `C` is the model's configuration.
pub(crate) struct Loader<'g, B: Backend, T, C = Config> {
    pub(crate) backend: &'g B,
    pub(crate) gguf: &'g Gguf,
    pub(crate) weights: Weights<'g, B>,
    pub(crate) config: &'g C,
    /// What is loaded of matrices that are divided.
    pub(crate) share: Share<B::Space>,
    used: RefCell<HashSet<String>>,
    computes_in: PhantomData<T>,
}

/// Reading for models of any kind.
impl<'g, T: Float, B: Transformer<T>, C> Loader<'g, B, T, C> {
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn new(backend: &'g B, gguf: &'g Gguf, config: &'g C, share: Share<B::Space>) -> Result<Self> {
        // Every rank has all embeddings.
        let sizes = gguf.tensors().map(|tensor| {
            let bytes = tensor.bytes().map_or(0, |bytes| bytes.len() as u64);
            if tensor.name() == EMBEDDINGS { bytes } else { bytes / share.ranks() as u64 }
        });
        let needed = sizes.fold(0, u64::saturating_add);
        if let Some(free) = backend.free_memory().filter(|free| *free < needed) {
            return Err(Error::Memory { backend: backend.name(), needed, free });
        }
        let weights = Weights::new(backend, gguf);
        let used = RefCell::default();
        Ok(Loader { backend, gguf, weights, config, share, used, computes_in: PhantomData })
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
    pub(crate) fn optional(&self, name: &str, len: usize) -> Result<Option<TensorOf<B, f32>>> {
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
        self.row_groups(part, dims, &only(rows))
    }
    /// The same for groups of rows, which are concatenated, with their part of the bias.
    pub(crate) fn row_groups(
        &self,
        part: &str,
        dims: &[usize],
        groups: &[Range<usize>],
    ) -> Result<Linear<B>> {
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        let weight = self.weights.row_groups(&name, dims, groups)?;
        let n = dims.first().copied().unwrap_or(0);
        let bias = self.has(&bias).then(|| self.vector_groups(&bias, n, groups)).transpose()?;
        Ok(Linear { weight: self.pack(weight, n)?, bias })
    }
    /// Packs a part of a matrix of `rows` rows.
    ///
    /// A product with a packed weight may have other bits, and whether packing pays off depends on the weight's size. So, if sums are in
    /// order, this is decided for a sixteenth of the rows: no rank has fewer.
    pub(crate) fn pack(&self, weight: Weight<B::Space>, rows: usize) -> Result<Weight<B::Space>> {
        if self.share.in_order() {
            let least = (rows / 16).clamp(1, weight.dims().first().map_or(1, |rows| (*rows).max(1)));
            let some = self.backend.copy_of_any(weight.as_ref().narrow(0, 0, least)?)?;
            if self.backend.pack_weight::<T>(some)?.packing().is_none() {
                return Ok(weight);
            }
        }
        Ok(self.backend.pack_weight::<T>(weight)?)
    }
    /// Groups of a vector's elements, which are concatenated.
    pub(crate) fn vector_groups(
        &self,
        name: &str,
        len: usize,
        groups: &[Range<usize>],
    ) -> Result<TensorOf<B, f32>> {
        let all = self.vector(name, len)?;
        if let [range] = groups
            && *range == (0..len)
        {
            return Ok(all);
        }
        let all = all.to_vec(self.backend)?;
        let some: Vec<f32> = groups.iter().flat_map(|range| &all[range.clone()]).copied().collect();
        Ok(self.backend.tensor(&[some.len()], &some)?)
    }

    /// A matrix `[n, k]` of which the ranks have different columns: those of `cut`, each part of which is these groups of columns in the
    /// file.
    pub(crate) fn summed(
        &self,
        part: &str,
        dims: [usize; 2],
        cut: &Cut<B::Space>,
        groups: impl Fn(Range<usize>) -> Vec<Range<usize>>,
    ) -> Result<Summed<B>> {
        if cut.share.is_whole() {
            return Ok(Summed::whole(self.linear(part, dims)?, dims));
        }
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        let mut bias = self.optional(&bias, dims[0])?;
        let parts = cut.parts.iter().enumerate().map(|(i, columns)| {
            if columns.is_empty() {
                return Ok(None);
            }
            let weight = self.weights.column_groups(&name, dims, &groups(columns.clone()))?;
            let weight = self.backend.pack_weight::<T>(weight)?;
            let bias = if cut.first == Some(i) { bias.take() } else { None };
            Ok(Some((columns.start - cut.own.start..columns.end - cut.own.start, Linear { weight, bias })))
        });
        Ok(Summed { parts: parts.collect::<Result<_>>()?, rows: dims[0], share: cut.share.clone() })
    }

    /// How many columns of a matrix are read together.
    pub(crate) fn block_of(&self, part: &str) -> usize {
        let tensor = self.gguf.find(&format!("{part}.weight"));
        tensor.and_then(|tensor| tensor.ggml_type().block()).map_or(1, |block| block.len)
    }

    /// Groups of rows of a matrix, for ops that need it in the type that the model computes in.
    pub(crate) fn rows_in_t(
        &self,
        name: &str,
        dims: [usize; 2],
        groups: &[Range<usize>],
    ) -> Result<TensorOf<B, T>> {
        self.mark(name);
        Ok(self.backend.cast::<T>(&self.weights.row_groups(name, &dims, groups)?)?)
    }

    /// Counts the tensors of these layers as read.
    pub(crate) fn pass_over(&self, layers: Range<usize>) {
        let layer = |name: &str| name.strip_prefix("blk.")?.split('.').next()?.parse::<usize>().ok();
        let names = self.gguf.tensors().map(|tensor| tensor.name());
        names
            .filter(|name| layer(name).is_some_and(|layer| layers.contains(&layer)))
            .for_each(|name| self.mark(name));
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
    pub(crate) fn norm(&self, part: &str, len: usize) -> Result<Norm<B>> {
        self.norm_of((self.config.norm, self.config.norm_eps), part, len)
    }
    /// A norm of the residual stream, which is in units of [`Config::stream_unit`]: only `eps` needs to be in them, too.
    pub(crate) fn stream_norm(&self, part: &str) -> Result<Norm<B>> {
        let unit = self.config.stream_unit::<T>();
        self.norm_of((self.config.norm, self.config.norm_eps / (unit * unit)), part, self.config.dim)
    }
    /// The norm of what a block adds to the residual stream, in its units.
    pub(crate) fn post_norm(&self, part: &str) -> Result<Option<Norm<B>>> {
        if !self.config.post_norms {
            return Ok(None);
        }
        Ok(Some(self.of_stream(self.norm(part, self.config.dim)?)?))
    }
    /// The same norm, whose results are in units of the residual stream.
    pub(crate) fn of_stream(&self, mut norm: Norm<B>) -> Result<Norm<B>> {
        let unit = self.config.stream_unit::<T>();
        if unit != 1.0 {
            self.backend.affine_inplace(&mut norm.weight, 1.0 / unit, 0.0)?;
        }
        Ok(norm)
    }

    pub(crate) fn ones(&self, len: usize) -> Result<TensorOf<B, f32>> {
        let mut ones = self.backend.zeros(&[len])?;
        self.backend.affine_inplace(&mut ones, 0.0, 1.0)?;
        Ok(ones)
    }

    /// A product of two extents from a file, checked for overflow: either may be arbitrarily large.
    pub(crate) fn product(&self, what: &str, a: usize, b: usize) -> Result<usize> {
        a.checked_mul(b).ok_or_else(|| Error::Key {
            key: format!("{}: {what}", self.config.architecture),
            got: format!("{a} times {b}"),
            wanted: "a width that a tensor can have".into(),
        })
    }
}
