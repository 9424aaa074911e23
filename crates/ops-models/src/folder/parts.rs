//! What the modules of this folder share: families, metadata, and tensors on their way to GGUF.
use super::options::{Notes, Options, wrong};
use crate::Result;
use ops_core::{bf16, f16};
use ops_gguf::{Assembly, Bytes, GgmlType, Metadata, Value};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

/// A family as `config.json` describes it.
pub(super) struct Family {
    pub(super) model_type: &'static str,
    /// Whether it is an encoder, with its own options and tensor names.
    pub(super) encoder: bool,
    /// The same family's name in GGUF.
    pub(super) architecture: &'static str,
    pub(super) eps: &'static str,
    pub(super) activation: &'static str,
    /// The base of rotary frequencies if the file does not give it; `None` if it must.
    pub(super) rope_base: Option<f64>,
    /// The rotated part of each head if the file does not give it; `None` if whole heads must be rotated.
    pub(super) partial_rope: Option<f64>,
    /// Whether the file must give the width of heads.
    pub(super) own_head_dim: bool,
    pub(super) windows: Windows,
    /// Whether the embeddings are also the output matrix, if the file does not say.
    pub(super) tied: bool,
    /// Whether 1 must be added to the weights of norms.
    pub(super) norms_plus_one: bool,
    /// Whether `post_attention_layernorm` is `post_attention_norm` in GGUF; in other families it is
    /// `ffn_norm`.
    pub(super) post_attention_norm: bool,
    /// Tensors with this name prefix are ignored, as `transformers` does.
    pub(super) ignored: Option<&'static str>,
    /// Whether `layer_types` has names of its own, which `translate` reads.
    pub(super) own_layer_types: bool,
    /// Whether rotary frequencies may have the factors of longrope.
    pub(super) long_rope: bool,
    /// Whether `mscale_all_dim` scales the scores of attention with YaRN.
    pub(super) yarn_mscale: bool,
    /// Reads the options about experts that only this family has, if the model has experts.
    pub(super) experts: fn(&Options, &mut Keys) -> Result<()>,
    /// Reads the other options that only this family has.
    pub(super) translate: fn(&Options, &mut Keys) -> Result<Split>,
    /// Adds a tensor that has another form in GGUF.
    pub(super) add_changed: AddChanged,
}

/// Adds a tensor that has another form in GGUF. `Waiting` has what the next tensors complete.
pub(super) type AddChanged = fn(&mut Assembly, &Found<'_>, Split, &mut Waiting) -> Result<()>;

/// By which extents a family splits tensors that have another form in GGUF.
#[derive(Clone, Copy)]
pub(super) enum Split {
    None,
    /// How keys and values are expanded, if attention is latent.
    Latent(Expansion),
    /// The heads of linear attention.
    Linear(LinearHeads),
}

/// Which layers have windowed attention.
pub(super) enum Windows {
    None,
    /// All, if there is a size.
    All,
    /// None; a switch that turns them on is refused.
    Off,
    /// All layers except every n-th.
    ButEvery(usize),
}

/// A family of which the options of llama say all, and the start of all others.
pub(super) const COMMON: Family = Family {
    model_type: "llama",
    encoder: false,
    architecture: "llama",
    eps: "rms_norm_eps",
    activation: "silu",
    rope_base: Some(10_000.0),
    partial_rope: None,
    own_head_dim: false,
    windows: Windows::None,
    tied: false,
    norms_plus_one: false,
    post_attention_norm: false,
    ignored: None,
    own_layer_types: false,
    long_rope: false,
    yarn_mscale: false,
    experts: |_, _| Ok(()),
    translate: |_, _| Ok(Split::None),
    add_changed: |_, found, _, _| Err(found.foreign()),
};

impl Family {
    /// An encoder. It has no separate output matrix.
    pub(super) const fn encoder(model_type: &'static str, architecture: &'static str) -> Self {
        Family { model_type, architecture, encoder: true, tied: true, ..COMMON }
    }
}

/// Extents for splitting the matrix that expands keys and values.
#[derive(Clone, Copy)]
pub(super) struct Expansion {
    pub(super) heads: usize,
    /// Features of a head's key that are not rotated.
    pub(super) nope: usize,
    /// Features of a head's value.
    pub(super) value: usize,
}

/// Extents for splitting the matrix of queries, keys, values and gates.
#[derive(Clone, Copy)]
pub(super) struct LinearHeads {
    /// Heads of queries and keys.
    pub(super) count: usize,
    /// Features of such a head.
    pub(super) key: usize,
    /// Features of all values that such a head serves.
    pub(super) value: usize,
}

/// Metadata under the name of an architecture.
pub(super) struct Keys {
    architecture: &'static str,
    pub(super) metadata: Metadata,
}

impl Keys {
    pub(super) fn new(family: &Family) -> Result<Self> {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", family.architecture)?;
        Ok(Keys { architecture: family.architecture, metadata })
    }
    pub(super) fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.metadata.set(format!("{}.{key}", self.architecture), value)?;
        Ok(())
    }
    pub(super) fn set_if(&mut self, key: &str, value: Option<impl Into<Value>>) -> Result<()> {
        value.map_or(Ok(()), |value| self.set(key, value))
    }
}

/// The contents of `config.json`.
pub(super) struct Translated {
    pub(super) family: &'static Family,
    /// Whether the text model's tensors have a prefix, and others are for images.
    pub(super) has_images: bool,
    pub(super) metadata: Metadata,
    pub(super) tied: bool,
    pub(super) layers: usize,
    pub(super) vocab_size: usize,
    pub(super) split: Split,
    /// Factors of rotary frequencies, which are tensors in GGUF.
    pub(super) long_factors: Option<LongFactors>,
    pub(super) notes: Rc<Notes>,
}

/// Factors of rotary frequencies, for texts up to the original context and for longer ones.
pub(super) struct LongFactors {
    pub(super) short: Vec<f32>,
    pub(super) long: Vec<f32>,
}

/// The matrix of one expert.
pub(super) type Piece = (Bytes, Range<usize>);

/// A tensor of a file that has another form in GGUF.
pub(super) struct Found<'a> {
    pub(super) file: &'a Path,
    pub(super) name: &'a str,
    pub(super) layer: usize,
    /// Its name in the layer.
    pub(super) part: &'static str,
    pub(super) dtype: Dtype,
    pub(super) dims: &'a [usize],
    pub(super) piece: Piece,
}

impl Found<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.piece.0[self.piece.1.clone()]
    }
    /// The type of a float tensor.
    pub(super) fn ty(&self) -> Result<GgmlType> {
        float_type(self.dtype).ok_or_else(|| self.wrong(format!("type {:?}", self.dtype), FLOATS))
    }
    pub(super) fn wrong(&self, got: impl ToString, wanted: impl ToString) -> crate::Error {
        wrong(self.file, format!("tensor {}", self.name), got, wanted)
    }
    /// The error for a tensor that this family does not have.
    pub(super) fn foreign(&self) -> crate::Error {
        self.wrong("a tensor of another kind of model", "the tensors of this kind of model")
    }
}

pub(super) const FLOATS: &str = "F32, F16 or BF16";

pub(super) fn float_type(dtype: Dtype) -> Option<GgmlType> {
    match dtype {
        Dtype::F32 => Some(GgmlType::F32),
        Dtype::F16 => Some(GgmlType::F16),
        Dtype::BF16 => Some(GgmlType::BF16),
        _ => None,
    }
}

/// Blocks that lack their scales so far, or scales that lack their blocks, by the tensor's name without the
/// ending.
pub(super) type Waiting = BTreeMap<String, (Vec<usize>, Piece)>;

/// A vector in f32, the type in which norms and biases are used, after applying a function to each value.
pub(super) fn widened(ty: GgmlType, bytes: &[u8], f: impl Fn(f32) -> f32) -> Vec<u8> {
    let two = |b: &[u8]| [b[0], b[1]];
    let values: Vec<f32> = match ty {
        GgmlType::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes(two(b)).to_f32()).collect(),
        GgmlType::BF16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes(two(b)).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
    };
    values.iter().flat_map(|value| f(*value).to_le_bytes()).collect()
}
