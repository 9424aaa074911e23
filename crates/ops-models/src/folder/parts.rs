//! What families say about their folders, and what the modules here share: metadata, and tensors on their way to GGUF.
use super::encoder::Names;
use super::options::{Notes, Options, wrong};
use crate::Result;
use ops_core::{bf16, f16};
use ops_gguf::{Assembly, Bytes, GgmlType, Metadata, Value};
use safetensors::Dtype;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A kind of folder: a family, or a member of one, as `config.json` describes it.
pub(crate) struct Folder {
    pub(crate) model_type: &'static str,
    /// What such models are called; empty for an encoder.
    pub(crate) title: &'static str,
    /// One of them, by its name on the Hugging Face Hub.
    pub(crate) example: &'static str,
    /// Which variants are refused, in Markdown.
    pub(crate) refused: &'static str,
    /// The names of an encoder's tensors; `None` for a decoder.
    pub(crate) encoder: Option<&'static Names>,
    /// The model with images of which this is the text model.
    pub(crate) images: Option<Images>,
    /// Whether there are dense blocks, whose width the file must give.
    pub(crate) dense: bool,
    pub(crate) eps: &'static str,
    pub(crate) activation: &'static str,
    /// The base of rotary frequencies if the file does not give it; `None` if it must.
    pub(crate) rope_base: Option<f64>,
    /// The rotated part of each head if the file does not give it; `None` if whole heads must be rotated.
    pub(crate) partial_rope: Option<f64>,
    /// Whether the file must give the width of heads.
    pub(crate) own_head_dim: bool,
    /// Whether each head of queries has its own keys if the file does not give their number.
    pub(crate) as_many_kv_heads: bool,
    /// Whether queries and keys are normalised by head.
    pub(crate) head_norms: bool,
    pub(crate) windows: Windows,
    /// Whether the embeddings are also the output matrix, if the file does not say.
    pub(crate) tied: bool,
    /// Whether 1 must be added to the weights of norms.
    pub(crate) norms_plus_one: bool,
    /// Whether `post_attention_layernorm` is `post_attention_norm` in GGUF; in other families it is
    /// `ffn_norm`.
    pub(crate) post_attention_norm: bool,
    /// Before the names of tensors of a layer that predicts further tokens.
    pub(crate) further: Option<&'static str>,
    /// Whether `layer_types` has names of its own, which `translate` reads.
    pub(crate) own_layer_types: bool,
    /// Whether rotary frequencies may have the factors of longrope.
    pub(crate) long_rope: bool,
    /// Whether rotary frequencies may be those of whole heads of which a part is rotated.
    pub(crate) proportional_rope: bool,
    /// Whether queries grow with their position, by `llama_4_scaling_beta`.
    pub(crate) query_growth: bool,
    /// Whether `mscale_all_dim` scales the scores of attention with YaRN.
    pub(crate) yarn_mscale: bool,
    /// Reads the options about experts that only this family has, if the model has experts.
    pub(crate) experts: fn(&Options, &mut Keys) -> Result<()>,
    /// Reads the other options that only this family has.
    pub(crate) translate: fn(&Options, &mut Keys) -> Result<Split>,
    /// Adds a tensor that has another form in GGUF.
    pub(crate) add_changed: AddChanged,
}

/// Adds a tensor that has another form in GGUF. `Waiting` has what the next tensors complete.
pub(crate) type AddChanged = fn(&mut Assembly, &Found<'_>, Split, &mut Waiting) -> Result<()>;

/// By which extents a family splits tensors that have another form in GGUF.
#[derive(Clone, Copy)]
pub(crate) enum Split {
    None,
    /// How keys and values are expanded, if attention is latent.
    Latent(Expansion),
    /// The heads of linear attention.
    Linear(LinearHeads),
}

/// Which layers have windowed attention.
pub(crate) enum Windows {
    None,
    /// All, if there is a size.
    All,
    /// None; a switch that turns them on is refused.
    Off,
    /// All layers except every n-th.
    ButEvery(usize),
}

/// A model for texts and images.
pub(crate) struct Images {
    pub(crate) model_type: &'static str,
    /// Options of the text model that files leave out.
    pub(crate) defaults: fn() -> serde_json::Value,
}

/// What most kinds have; each says what differs.
pub(crate) const COMMON: Folder = Folder {
    model_type: "",
    title: "",
    example: "",
    refused: "",
    encoder: None,
    images: None,
    dense: true,
    eps: "rms_norm_eps",
    activation: "silu",
    rope_base: Some(10_000.0),
    partial_rope: None,
    own_head_dim: false,
    as_many_kv_heads: false,
    head_norms: false,
    windows: Windows::None,
    tied: false,
    norms_plus_one: false,
    post_attention_norm: false,
    further: None,
    own_layer_types: false,
    long_rope: false,
    proportional_rope: false,
    query_growth: false,
    yarn_mscale: false,
    experts: |_, _| Ok(()),
    translate: |_, _| Ok(Split::None),
    add_changed: |_, found, _, _| Err(found.foreign()),
};

/// Extents for splitting the matrix that expands keys and values.
#[derive(Clone, Copy)]
pub(crate) struct Expansion {
    pub(crate) heads: usize,
    /// Features of a head's key that are not rotated.
    pub(crate) nope: usize,
    /// Features of a head's value.
    pub(crate) value: usize,
}

/// Extents for splitting the matrix of queries, keys, values and gates.
#[derive(Clone, Copy)]
pub(crate) struct LinearHeads {
    /// Heads of queries and keys.
    pub(crate) count: usize,
    /// Features of such a head.
    pub(crate) key: usize,
    /// Features of all values that such a head serves.
    pub(crate) value: usize,
}

/// Metadata under the name of an architecture.
pub(crate) struct Keys {
    architecture: &'static str,
    pub(crate) metadata: Metadata,
}

impl Keys {
    pub(crate) fn new(architecture: &'static str) -> Result<Self> {
        let mut metadata = Metadata::new();
        metadata.set("general.architecture", architecture)?;
        Ok(Keys { architecture, metadata })
    }
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Value>) -> Result<()> {
        self.metadata.set(format!("{}.{key}", self.architecture), value)?;
        Ok(())
    }
    pub(crate) fn set_if(&mut self, key: &str, value: Option<impl Into<Value>>) -> Result<()> {
        value.map_or(Ok(()), |value| self.set(key, value))
    }
}

/// The contents of `config.json`.
pub(crate) struct Translated {
    pub(crate) folder: &'static Folder,
    /// Whether the text model's tensors have a prefix, and others are for images.
    pub(crate) has_images: bool,
    /// Whether files say how the states of a text's tokens become one vector.
    pub(crate) embeds: bool,
    pub(crate) metadata: Metadata,
    pub(crate) tied: bool,
    pub(crate) layers: usize,
    /// Layers after these that predict further tokens. They are passed over, as in `transformers`.
    pub(crate) further_layers: usize,
    pub(crate) vocab_size: usize,
    pub(crate) split: Split,
    /// Factors of rotary frequencies, which are tensors in GGUF.
    pub(crate) long_factors: Option<LongFactors>,
    /// The folders of the matrices that pooled vectors are multiplied by.
    pub(crate) dense: Vec<PathBuf>,
    pub(crate) notes: Rc<Notes>,
}

/// Factors of rotary frequencies, for texts up to the original context and for longer ones.
pub(crate) struct LongFactors {
    pub(crate) short: Vec<f32>,
    pub(crate) long: Vec<f32>,
}

/// The matrix of one expert.
pub(crate) type Piece = (Bytes, Range<usize>);

/// A tensor of a file that has another form in GGUF.
pub(crate) struct Found<'a> {
    pub(crate) file: &'a Path,
    pub(crate) name: &'a str,
    pub(crate) layer: usize,
    /// Its name in the layer.
    pub(crate) part: &'static str,
    pub(crate) dtype: Dtype,
    pub(crate) dims: &'a [usize],
    pub(crate) piece: Piece,
}

impl Found<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.piece.0[self.piece.1.clone()]
    }
    /// The type of a float tensor.
    pub(crate) fn ty(&self) -> Result<GgmlType> {
        float_type(self.dtype).ok_or_else(|| self.wrong(format!("type {:?}", self.dtype), FLOATS))
    }
    pub(crate) fn wrong(&self, got: impl ToString, wanted: impl ToString) -> crate::Error {
        wrong(self.file, format!("tensor {}", self.name), got, wanted)
    }
    /// The error for a tensor that this family does not have.
    pub(crate) fn foreign(&self) -> crate::Error {
        self.wrong("a tensor of another kind of model", "the tensors of this kind of model")
    }
}

pub(crate) const FLOATS: &str = "F32, F16 or BF16";

pub(crate) fn float_type(dtype: Dtype) -> Option<GgmlType> {
    match dtype {
        Dtype::F32 => Some(GgmlType::F32),
        Dtype::F16 => Some(GgmlType::F16),
        Dtype::BF16 => Some(GgmlType::BF16),
        _ => None,
    }
}

/// Blocks that lack their scales so far, or scales that lack their blocks, by the tensor's name without the
/// ending.
pub(crate) type Waiting = BTreeMap<String, (Vec<usize>, Piece)>;

/// A vector in f32, the type in which norms and biases are used, after applying a function to each value.
pub(crate) fn widened(ty: GgmlType, bytes: &[u8], f: impl Fn(f32) -> f32) -> Vec<u8> {
    let two = |b: &[u8]| [b[0], b[1]];
    let values: Vec<f32> = match ty {
        GgmlType::F16 => bytes.chunks_exact(2).map(|b| f16::from_le_bytes(two(b)).to_f32()).collect(),
        GgmlType::BF16 => bytes.chunks_exact(2).map(|b| bf16::from_le_bytes(two(b)).to_f32()).collect(),
        _ => bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect(),
    };
    values.iter().flat_map(|value| f(*value).to_le_bytes()).collect()
}
