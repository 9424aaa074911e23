//! Reads a golden file, without knowledge of any op.
use super::FileError;
use crate::{Array, CallError, Params};
use ops_core::ops::registry;
use ops_core::{DType, Layout, Tolerance};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;
use std::collections::HashMap;

/// The contents of a file.
pub(super) struct File {
    pub(super) op: String,
    pub(super) dtype: String,
    pub(super) params: Result<Params, CallError>,
    pub(super) tensors: Vec<Tensor>,
    /// Names of tensors that are neither inputs nor outputs.
    pub(super) others: Vec<String>,
}

/// One tensor and its metadata.
pub(super) struct Tensor {
    pub(super) output: bool,
    pub(super) name: String,
    pub(super) shape: Vec<usize>,
    pub(super) array: Result<Array, CallError>,
    pub(super) view: Option<Result<Place, CallError>>,
    pub(super) tolerance: Result<Tolerance, CallError>,
}

/// A view, and for outputs the length of the storage.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) layout: Layout,
    pub(super) len: Option<usize>,
}

impl File {
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, FileError> {
        let tensors = SafeTensors::deserialize(bytes)?;
        let (_, metadata) = SafeTensors::read_metadata(bytes)?;
        let metadata = metadata.metadata().clone().unwrap_or_default();
        let word = |key: &str| {
            let missing = || FileError::Metadata(format!("its metadata has no `{key}`"));
            metadata.get(key).cloned().ok_or_else(missing)
        };
        let mut file = File {
            op: word("op")?,
            dtype: word("dtype")?,
            params: params(metadata.get("params")),
            tensors: Vec::new(),
            others: Vec::new(),
        };
        for (name, tensor) in tensors.iter() {
            match Tensor::parse(name, &tensor, &metadata) {
                Some(tensor) => file.tensors.push(tensor),
                None => file.others.push(name.to_owned()),
            }
        }
        file.tensors.sort_by(|a, b| (a.output, &a.name).cmp(&(b.output, &b.name)));
        Ok(file)
    }

    pub(super) fn inputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|t| !t.output)
    }
    pub(super) fn outputs(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.iter().filter(|t| t.output)
    }
    pub(super) fn find(&self, output: bool, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.output == output && t.name == name)
    }

    /// The shape of the operand that the op's contract names first.
    pub(super) fn first_shape(&self) -> Vec<usize> {
        const FIRST: [&str; 9] = ["x", "a", "q", "cond", "gate", "table", "dst", "k", "logits"];
        let first = FIRST.into_iter().find_map(|n| self.find(false, n));
        let Some(first) = first.or_else(|| self.inputs().next()).or_else(|| self.outputs().next()) else {
            return Vec::new();
        };
        match &first.view {
            Some(Ok(place)) => place.layout.dims().to_vec(),
            _ => first.shape.clone(),
        }
    }
}

impl Tensor {
    fn parse(
        key: &str,
        tensor: &safetensors::tensor::TensorView<'_>,
        metadata: &HashMap<String, String>,
    ) -> Option<Self> {
        let (output, name) = match key.split_once('.')? {
            ("in", name) => (false, name),
            ("out", name) => (true, name),
            _ => return None,
        };
        Some(Tensor {
            output,
            name: name.to_owned(),
            shape: tensor.shape().to_vec(),
            array: dtype(tensor.dtype()).and_then(|d| Array::from_bytes(d, tensor.data())),
            view: metadata.get(&format!("view.{key}")).map(|text| place(text).map_err(|e| e.of(key))),
            tolerance: tolerance(name, metadata.get(&format!("limit.{name}"))),
        })
    }

    pub(super) fn array(&self) -> Result<&Array, CallError> {
        self.array.as_ref().map_err(|e| e.clone().of(&self.name))
    }
    pub(super) fn place(&self) -> Result<Option<Place>, CallError> {
        self.view.clone().transpose()
    }
}

/// Maps a stored type such as `F8_E4M3` to this build's `f8e4m3`.
fn dtype(stored: Dtype) -> Result<DType, CallError> {
    let name = match stored {
        // Booleans are stored as bytes of 0 and 1.
        Dtype::BOOL => "u8".to_owned(),
        number => format!("{number:?}").to_lowercase().replace('_', ""),
    };
    let known = registry::dtype(&name).filter(|dtype| !dtype.is_block());
    known.ok_or_else(|| CallError::Unsupported(format!("not available in {stored:?}")))
}

fn params(text: Option<&String>) -> Result<Params, CallError> {
    let Some(text) = text else { return Ok(Params::default()) };
    let value = serde_json::from_str(text).map_err(|e| CallError::Malformed(format!("params: {e}")))?;
    Params::new(value)
}

fn tolerance(name: &str, text: Option<&String>) -> Result<Tolerance, CallError> {
    let malformed = |why: &str| CallError::Malformed(format!("limit.{name} {why}"));
    match text.map(|t| t.trim_matches('"')) {
        None => Err(malformed("is missing")),
        Some("exact") => Ok(Tolerance::Exact),
        Some(number) => match number.parse::<f64>() {
            // The limit in a file already includes rounding.
            Ok(base) if base.is_finite() && base >= 0.0 => Ok(Tolerance::Nmse { base, rounding: 0.0 }),
            _ => Err(malformed(&format!("is `{number}`, wanted a number or `exact`"))),
        },
    }
}

fn place(text: &str) -> Result<Place, CallError> {
    let malformed = |why: String| CallError::Malformed(format!("view: {why}"));
    let value: Value = serde_json::from_str(text).map_err(|e| malformed(e.to_string()))?;
    const KEYS: [&str; 4] = ["shape", "strides", "offset", "len"];
    if let Some(key) = value.as_object().and_then(|view| view.keys().find(|k| !KEYS.contains(&k.as_str()))) {
        return Err(CallError::Unsupported(format!("view: `{key}` is not known")));
    }
    let list = |key: &str| {
        value.get(key).and_then(Value::as_array).ok_or_else(|| malformed(format!("`{key}` is not a list")))
    };
    let count = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
    let not = |key: &str| malformed(format!("`{key}` is not a list of counts"));

    let shape: Option<Vec<usize>> = list("shape")?.iter().map(count).collect();
    let stride = |v: &Value| v.as_i64().and_then(|n| isize::try_from(n).ok());
    let strides: Option<Vec<isize>> = list("strides")?.iter().map(stride).collect();
    let offset = value.get("offset").map_or(Some(0), count).ok_or_else(|| not("offset"))?;
    let len = value.get("len").map(|v| count(v).ok_or_else(|| not("len"))).transpose()?;

    let (shape, strides) = (shape.ok_or_else(|| not("shape"))?, strides.ok_or_else(|| not("strides"))?);
    Ok(Place { layout: Layout::strided(&shape, &strides, offset)?, len })
}
