//! Metadata keys prefixed with the architecture.
use crate::{Error, Result};
use ops_core::model::RopeScaling;
use ops_gguf::{FromValue, Metadata, Value};

/// The metadata of a model.
#[derive(Clone, Copy)]
pub(crate) struct Keys<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl<'a> Keys<'a> {
    pub(crate) fn new(metadata: &'a Metadata) -> Result<Self> {
        Ok(Keys { metadata, architecture: metadata.architecture()? })
    }
    pub(crate) fn architecture(&self) -> &'a str {
        self.architecture
    }
    pub(crate) fn find<T: FromValue<'a>>(&self, key: &str) -> Result<Option<T>> {
        Ok(self.metadata.find(&format!("{}.{key}", self.architecture))?)
    }
    /// A float; 32 bits in the file.
    pub(crate) fn float(&self, key: &str) -> Result<Option<f64>> {
        Ok(self.find::<f32>(key)?.map(f64::from))
    }
    /// A positive number.
    pub(crate) fn count(&self, key: &str) -> Result<usize> {
        self.positive(key, self.metadata.arch_u32(key)?)
    }
    /// A positive number, or `otherwise` if the key is missing.
    pub(crate) fn count_or(&self, key: &str, otherwise: usize) -> Result<usize> {
        self.find::<u32>(key)?.map_or(Ok(otherwise), |n| self.positive(key, n))
    }
    /// One number for each of `layers` layers, if the file has a list.
    pub(crate) fn by_layer(&self, key: &str, layers: usize) -> Result<Option<Vec<usize>>> {
        let name = format!("{}.{key}", self.architecture);
        if !matches!(self.metadata.value(&name), Some(Value::Array(_))) {
            return Ok(None);
        }
        let all: Vec<u32> = self.metadata.get(&name)?;
        if all.len() != layers {
            let wanted = format!("one value for each of the {layers} layers");
            return Err(self.wrong(key, format!("{} values", all.len()), wanted));
        }
        all.into_iter().map(|n| self.positive(key, n)).collect::<Result<_>>().map(Some)
    }
    fn positive(&self, key: &str, n: u32) -> Result<usize> {
        if n == 0 { Err(self.wrong(key, 0, "a positive number")) } else { Ok(n as usize) }
    }
    /// The error for an unsupported value.
    pub(crate) fn wrong(&self, key: &str, got: impl ToString, wanted: impl ToString) -> Error {
        let key = format!("{}.{key}", self.architecture);
        Error::Key { key, got: got.to_string(), wanted: wanted.to_string() }
    }
    /// Refuses a key whose effect the family does not implement.
    pub(crate) fn refuse(&self, key: &str) -> Result<()> {
        match self.metadata.value(&format!("{}.{key}", self.architecture)) {
            Some(value) if !is_neutral(&value.to_string()) => {
                Err(self.wrong(key, value, "no such key: this program runs this family without it"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses keys of this architecture that are on none of these lists.
    pub(crate) fn only(&self, known: &[&[&str]]) -> Result<()> {
        let own = self.metadata.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix(self.architecture)?.strip_prefix('.')?;
            Some((key, value))
        });
        let is_known = |key: &str| known.iter().any(|list| list.contains(&key));
        match own.into_iter().find(|(key, value)| !is_known(key) && !is_neutral(&value.to_string())) {
            Some((key, value)) => Err(self.wrong(
                key,
                value,
                "no such key: this program does not know its effect on this family",
            )),
            None => Ok(()),
        }
    }

    /// How positions map to angles.
    pub(crate) fn rope_scaling(&self) -> Result<RopeScaling> {
        let factor = match self.float("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            // The key in files that predate typed scaling.
            None => self.float("rope.scale_linear")?,
        };
        match (self.find::<&str>("rope.scaling.type")?, factor) {
            (Some("none"), _) | (None, None) => Ok(RopeScaling::None),
            (None | Some("linear"), Some(factor)) => Ok(RopeScaling::Linear { factor }),
            (Some("llama3"), Some(factor)) => {
                let wanted = |key: &str| {
                    let value = self.float(&format!("rope.scaling.{key}"))?;
                    value.ok_or_else(|| self.wrong(&format!("rope.scaling.{key}"), "no such key", "a number"))
                };
                Ok(RopeScaling::Llama3 {
                    factor,
                    low_freq_factor: wanted("low_freq_factor")?,
                    high_freq_factor: wanted("high_freq_factor")?,
                    original_context: self.count("rope.scaling.original_context_length")? as f64,
                })
            }
            (Some("yarn"), Some(factor)) => Ok(RopeScaling::Yarn {
                factor,
                original_context: self.count("rope.scaling.original_context_length")? as f64,
                beta_fast: self.float("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: self.float("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                // Only folders give this.
                truncate: self.find("rope.scaling.truncate")?.unwrap_or(true),
                attention_factor: self.float("rope.scaling.attn_factor")?,
            }),
            (Some(kind), factor) => Err(self.wrong(
                "rope.scaling.type",
                format!("{kind:?} with factor {factor:?}"),
                "none, or linear, llama3 or yarn with a factor",
            )),
        }
    }
}

/// Whether a value means that what its key names is absent.
fn is_neutral(value: &str) -> bool {
    let number = value.rsplit(' ').next().and_then(|n| n.parse::<f64>().ok());
    number == Some(0.0) || value.ends_with("false")
}
