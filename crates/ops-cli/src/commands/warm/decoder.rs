//! The calls of a decoder, derived from the front of its file: which kernels a model uses depends only on
//! types and extents.
use crate::exit::Failure;
use ops_core::model::{KvCache, Transformer};
use ops_core::ops::registry;
use ops_core::ops::{
    ActivationMethods, AttentionMethods, CastMethods, EmbeddingMethods, NormMethods, RopeMethods,
};
use ops_core::ops::{AddRmsNorm, Attention, LinearMethods, RmsNorm, Rope, RopeForm};
use ops_core::{AnyOf, Backend, DType, Float, Result, Shape, TensorOf};
use ops_gguf::{Metadata, Outline, TensorOutline};

/// A matrix in the file: its type, and its extents in elements or blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Matrix {
    dtype: DType,
    dims: [usize; 2],
}

/// What the calls of a Llama-family decoder depend on.
#[derive(Debug)]
pub(super) struct Decoder {
    dim: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    rope_dim: usize,
    ffn: usize,
    table: Matrix,
    /// The weights of its layers, one per kind.
    weights: Vec<Matrix>,
    /// The last product, of one row.
    output: Matrix,
}

impl Decoder {
    /// Reads a model's description.
    ///
    /// # Errors
    /// The file is not a decoder's, or has a weight type that no op supports.
    pub(super) fn of(outline: &Outline) -> std::result::Result<Self, Failure> {
        Self::read(outline).map_err(|error| Failure::Usage(error.to_string()))
    }

    fn read(outline: &Outline) -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let meta = outline.metadata();
        let (dim, heads) = (count(meta, "embedding_length")?, count(meta, "attention.head_count")?);
        let head_dim = or(meta, "attention.key_length", dim / heads)?;
        let table = outline.find("token_embd.weight").ok_or("the file has no tensor token_embd.weight")?;
        let table = matrix(&table)?;
        let mut weights: Vec<Matrix> = Vec::new();
        let of_layers = |tensor: &TensorOutline<'_>| {
            tensor.name().starts_with("blk.")
                && tensor.name().ends_with(".weight")
                && tensor.dims().len() == 2
        };
        for tensor in outline.tensors().filter(of_layers) {
            let weight = matrix(&tensor)?;
            if !weights.contains(&weight) {
                weights.push(weight);
            }
        }
        let output = outline.find("output.weight").map_or_else(|| Ok(table.clone()), |t| matrix(&t))?;
        Ok(Decoder {
            dim,
            heads,
            kv_heads: or(meta, "attention.head_count_kv", heads)?,
            head_dim,
            rope_dim: or(meta, "rope.dimension_count", head_dim)?,
            ffn: count(meta, "feed_forward_length")?,
            table,
            weights,
            output,
        })
    }

    /// Makes the calls of one step of `tokens` tokens after `earlier` others, in `T`. The operands have no
    /// defined contents.
    ///
    /// # Errors
    /// An op declines its operands; the backend is out of memory.
    pub(super) fn step<T: Float, B: Transformer<T>>(
        &self,
        b: &B,
        tokens: usize,
        earlier: usize,
    ) -> Result<()> {
        let Decoder { dim, heads, kv_heads, head_dim, rope_dim, ffn, .. } = *self;
        let x: TensorOf<B, T> =
            b.embedding(&empty(b, &self.table)?, &b.empty::<u32>(Shape::new(&[tokens])?)?)?;
        let scale: TensorOf<B, f32> = b.empty(Shape::new(&[dim])?)?;
        let h = b.rms_norm(&x, &scale, RmsNorm::eps(1e-5))?;
        b.add_rms_norm(&h, &x, &scale, AddRmsNorm::eps(1e-5))?;
        for weight in &self.weights {
            self.product::<T, B>(b, weight, tokens)?;
        }
        let by_head =
            |heads| -> Result<TensorOf<B, T>> { b.empty(Shape::new(&[1, tokens, heads, head_dim])?) };
        let (mut q, k) = (by_head(heads)?, by_head(kv_heads)?);
        let angles: TensorOf<B, f32> = b.empty(Shape::new(&[earlier + tokens, rope_dim / 2])?)?;
        let rotated = q.as_mut().transpose(1, 2)?.narrow(-1, 0, rope_dim)?;
        b.rope_inplace(rotated, &angles, &angles, Rope::new(RopeForm::Interleaved).start(earlier))?;
        let mut cache = KvCache::<B::Space, T>::new(b, [1, kv_heads, earlier + tokens, head_dim])?;
        // As if the earlier tokens had been appended.
        let whole = b.empty::<T>(Shape::new(&[1, kv_heads, earlier, head_dim])?)?;
        cache.append(b, whole.as_ref(), whole.as_ref())?;
        let k = k.as_ref().transpose(1, 2)?;
        cache.append(b, k, k)?;
        let mut o = by_head(heads)?;
        let o = o.as_mut().transpose(1, 2)?;
        b.attention_into(
            q.as_ref().transpose(1, 2)?,
            cache.keys()?,
            cache.values()?,
            o,
            Attention::<T>::causal(),
        )?;
        let gate: TensorOf<B, T> = b.empty(Shape::new(&[tokens, ffn])?)?;
        b.swiglu(&gate, &gate)?;
        let logits = self.product::<T, B>(b, &self.output, 1)?;
        let _: TensorOf<B, f32> = b.cast(&logits)?;
        Ok(())
    }

    fn product<T: Float, B: Transformer<T>>(
        &self,
        b: &B,
        weight: &Matrix,
        rows: usize,
    ) -> Result<TensorOf<B, T>> {
        let packed = b.pack_weight::<T>(empty(b, weight)?)?;
        let k = weight.dims[1] * weight.dtype.values();
        let x: TensorOf<B, T> = b.empty(Shape::new(&[rows, k])?)?;
        b.linear(&x, &packed)
    }
}

fn empty<B: Backend>(b: &B, matrix: &Matrix) -> Result<AnyOf<B>> {
    b.empty_any(matrix.dtype, Shape::new(&matrix.dims)?)
}

fn matrix(tensor: &TensorOutline<'_>) -> std::result::Result<Matrix, String> {
    let dtype = tensor.ggml_type().name().and_then(registry::dtype).filter(|dtype| dtype.is_real());
    match (dtype, tensor.dims()) {
        (Some(dtype), &[n, k]) => Ok(Matrix { dtype, dims: [n, k / dtype.values()] }),
        (None, _) => {
            Err(format!("tensor {} has type {}, which no op supports", tensor.name(), tensor.ggml_type()))
        }
        (_, dims) => Err(format!("tensor {} has dimensions {dims:?}, expected two", tensor.name())),
    }
}

fn count(meta: &Metadata, key: &str) -> std::result::Result<usize, Box<dyn std::error::Error>> {
    match meta.arch_u32(key)? as usize {
        0 => Err(format!("{} is 0, expected a positive number", meta.arch_key(key)?).into()),
        n => Ok(n),
    }
}

fn or(
    meta: &Metadata,
    key: &str,
    otherwise: usize,
) -> std::result::Result<usize, Box<dyn std::error::Error>> {
    if meta.arch_find::<u32>(key)?.is_some() { count(meta, key) } else { Ok(otherwise) }
}
