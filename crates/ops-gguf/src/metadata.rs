//! Metadata: typed values by key.

use std::fmt;

pub use convert::FromValue;
pub use value::{Array, Strings, Value};
pub(crate) use value::{MAX_DEPTH, tag};

use crate::error::{Error, Result};

mod convert;
pub(crate) mod parse;
mod value;

/// The key-value pairs of a file, in file order.
///
/// Errors from the getters name the key, the type found and the type wanted. Integers of any width convert if the value
/// fits, because writers use different widths.
///
/// ```
/// use rocm_ops::gguf::Metadata;
///
/// let mut meta = Metadata::new();
/// meta.set("general.architecture", "llama")?;
/// meta.set("llama.block_count", 32_u64)?;
/// meta.set("llama.rope.freq_base", 10000.0_f32)?;
///
/// assert_eq!(meta.architecture()?, "llama");
/// assert_eq!(meta.arch_u32("block_count")?, 32);
/// assert_eq!(meta.find::<f32>("llama.rope.scaling.factor")?, None);
/// let error = meta.u32("llama.rope.freq_base").unwrap_err();
/// assert_eq!(error.to_string(), "metadata key `llama.rope.freq_base`: got f32 10000.0, wanted u32");
/// # Ok::<(), rocm_ops::gguf::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Metadata {
    entries: Vec<Entry>,
    /// Indices into `entries`, sorted by key.
    by_key: Vec<u32>,
}

#[derive(Clone)]
struct Entry {
    key: Box<str>,
    value: Value,
    /// Position of the pair in the file it was read from; `None` if the program set it.
    at: Option<u64>,
}

/// Maximum key length in bytes, set by the format.
const MAX_KEY: usize = 65_535;

impl Metadata {
    /// Creates empty metadata.
    pub fn new() -> Self {
        Self::default()
    }

    fn from_entries(entries: Vec<Entry>) -> Result<Self> {
        // 2^32 pairs would take more than 50 GiB of metadata, so a 32-bit index is enough.
        let count = u32::try_from(entries.len())
            .map_err(|_| Error::malformed("count of metadata keys", 16, entries.len(), "less than 2^32"))?;
        let key = |i: u32| &entries[i as usize].key;
        let mut by_key: Vec<u32> = (0..count).collect();
        by_key.sort_by(|&a, &b| key(a).cmp(key(b)));
        for pair in by_key.windows(2) {
            // The sort is stable: of two equal keys, the later one in the file comes second.
            let (first, second) = (&entries[pair[0] as usize], &entries[pair[1] as usize]);
            if first.key == second.key {
                let what = format!("metadata key `{}`", second.key);
                let [first, second] = [first.at, second.at].map(|at| at.unwrap_or_default());
                let got = format!("a duplicate of the one at byte {first}");
                return Err(Error::Malformed { what, at: second, got, wanted: "unique keys".to_owned() });
            }
        }
        Ok(Self { entries, by_key })
    }

    /// The key's index in `by_key`, or the index to insert it at.
    fn position(&self, key: &str) -> Result<usize, usize> {
        self.by_key.binary_search_by(|&i| (*self.entries[i as usize].key).cmp(key))
    }

    /// Number of pairs.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The pairs in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|e| (&*e.key, &e.value))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let i = self.position(key).ok()?;
        Some(&self.entries[self.by_key[i] as usize])
    }

    /// The value of a key, of any type.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The error for a value that does not meet a requirement.
    pub(crate) fn unwanted(&self, key: &str, got: String, wanted: &str) -> Error {
        let at = self.entry(key).and_then(|entry| entry.at);
        Error::KeyType { key: key.to_owned(), at, got, wanted: wanted.to_owned() }
    }

    /// Sets a key: replaces its value if it exists, otherwise appends it.
    ///
    /// # Errors
    /// [`Error::Write`] if the format does not allow the key (1 to 65535 bytes of ASCII) or the value (arrays nested at most
    /// 8 deep).
    pub fn set(&mut self, key: impl AsRef<str>, value: impl Into<Value>) -> Result<&mut Self> {
        let (key, value) = (key.as_ref(), value.into());
        check_pair(key, &value)?;
        match self.position(key) {
            Ok(i) => {
                let entry = &mut self.entries[self.by_key[i] as usize];
                (entry.value, entry.at) = (value, None);
            }
            Err(i) => {
                let last = u32::try_from(self.entries.len())
                    .map_err(|_| Error::write(format_args!("metadata key `{key}`"), "2^32 keys", "fewer"))?;
                self.by_key.insert(i, last);
                self.entries.push(Entry { key: key.into(), value, at: None });
            }
        }
        Ok(self)
    }

    /// Removes a key and returns its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let i = self.position(key).ok()?;
        let gone = self.by_key.remove(i);
        for index in &mut self.by_key {
            *index -= u32::from(*index > gone);
        }
        Some(self.entries.remove(gone as usize).value)
    }

    /// The value of a key as `T`, or `None` if the key is missing.
    ///
    /// # Errors
    /// [`Error::KeyType`] if the value exists but is not a `T`.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        T::from_value(value).map(Some).map_err(|got| self.unwanted(key, got, T::WANTED))
    }

    /// The value of a key as `T`.
    ///
    /// # Errors
    /// [`Error::MissingKey`], or [`Error::KeyType`] if the value is not a `T`.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.find(key)?.ok_or_else(|| Error::MissingKey { key: key.to_owned(), wanted: T::WANTED })
    }

    /// An integer that fits u32; see [`Metadata::get`].
    pub fn u32(&self, key: &str) -> Result<u32> {
        self.get(key)
    }

    /// An integer that fits u64; see [`Metadata::get`].
    pub fn u64(&self, key: &str) -> Result<u64> {
        self.get(key)
    }

    /// A float; see [`Metadata::get`].
    pub fn f32(&self, key: &str) -> Result<f32> {
        self.get(key)
    }

    /// A boolean; see [`Metadata::get`].
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.get(key)
    }

    /// A string; see [`Metadata::get`].
    pub fn str(&self, key: &str) -> Result<&str> {
        self.get(key)
    }

    /// An array of strings; see [`Metadata::get`].
    pub fn strings(&self, key: &str) -> Result<&Strings> {
        self.get(key)
    }

    /// The model's architecture, `general.architecture`.
    pub fn architecture(&self) -> Result<&str> {
        self.str("general.architecture")
    }

    /// The full name of an architecture key: `block_count` becomes `llama.block_count` for Llama.
    pub fn arch_key(&self, key: &str) -> Result<String> {
        Ok(format!("{}.{key}", self.architecture()?))
    }

    /// [`Metadata::get`] for an architecture key.
    pub fn arch_get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.get(&self.arch_key(key)?)
    }

    /// [`Metadata::find`] for an architecture key.
    pub fn arch_find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        self.find(&self.arch_key(key)?)
    }

    /// An integer of the architecture that fits u32.
    pub fn arch_u32(&self, key: &str) -> Result<u32> {
        self.arch_get(key)
    }

    /// A float of the architecture.
    pub fn arch_f32(&self, key: &str) -> Result<f32> {
        self.arch_get(key)
    }
}

/// Checks that the format allows a pair; [`Metadata::set`] and the writer use it.
pub(crate) fn check_pair(key: &str, value: &Value) -> Result<()> {
    let wrong = |got: String, wanted: String| {
        Err(Error::write(format_args!("metadata key `{key:.80}`"), got, wanted))
    };
    if key.is_empty() || key.len() > MAX_KEY || !key.is_ascii() {
        return wrong(format!("a key of {} bytes", key.len()), format!("1 to {MAX_KEY} bytes of ASCII"));
    }
    match value {
        Value::Array(a) if a.depth() > MAX_DEPTH => {
            wrong(format!("arrays {} deep", a.depth()), format!("at most {MAX_DEPTH}"))
        }
        _ => Ok(()),
    }
}

/// Equal if they have the same pairs in the same order; file positions are ignored.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(k, v)| (k, v.to_string()))).finish()
    }
}
