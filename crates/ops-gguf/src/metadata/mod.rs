//! Metadata: typed values by key.

use std::fmt;

pub use convert::FromValue;
pub use value::{Array, Strings, Value};
pub(crate) use value::{MAX_DEPTH, tag};

use crate::error::{Error, Result};

mod convert;
pub(crate) mod parse;
mod value;

/// The key-value pairs of a file, in the file's order.
///
/// The getters name the key, the type found and the type wanted when they fail. Integers of any width convert when the
/// value fits, for writers disagree on widths.
///
/// ```
/// use ops_gguf::Metadata;
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
/// # Ok::<(), ops_gguf::Error>(())
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
    /// Where the pair lies in the file it was read from; `None` when the program set it.
    at: Option<u64>,
}

/// The longest key that the format allows, in bytes.
const MAX_KEY: usize = 65_535;

impl Metadata {
    /// No pairs yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn from_entries(entries: Vec<Entry>) -> Result<Self> {
        // 2^32 pairs would take a file of more than 50 GiB of metadata; a smaller index is not worth an error of its own.
        let count = u32::try_from(entries.len())
            .map_err(|_| Error::malformed("count of metadata keys", 16, entries.len(), "less than 2^32"))?;
        let key = |i: u32| &entries[i as usize].key;
        let mut by_key: Vec<u32> = (0..count).collect();
        by_key.sort_by(|&a, &b| key(a).cmp(key(b)));
        for pair in by_key.windows(2) {
            // The sort is stable: of two equal keys the later in the file comes second.
            let (first, second) = (&entries[pair[0] as usize], &entries[pair[1] as usize]);
            if first.key == second.key {
                let what = format!("metadata key `{}`", second.key);
                let [first, second] = [first.at, second.at].map(|at| at.unwrap_or_default());
                let got = format!("a duplicate of the one at byte {first}");
                return Err(Error::Malformed { what, at: second, got, wanted: "every key once".to_owned() });
            }
        }
        Ok(Self { entries, by_key })
    }

    /// Where the key is in `by_key`, or where it belongs.
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

    /// The pairs in the file's order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value)> {
        self.entries.iter().map(|e| (&*e.key, &e.value))
    }

    fn entry(&self, key: &str) -> Option<&Entry> {
        let i = self.position(key).ok()?;
        Some(&self.entries[self.by_key[i] as usize])
    }

    /// The value of a key, of whatever type.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// The error for a value that is not what is wanted of it.
    pub(crate) fn unwanted(&self, key: &str, got: String, wanted: &str) -> Error {
        let at = self.entry(key).and_then(|entry| entry.at);
        Error::KeyType { key: key.to_owned(), at, got, wanted: wanted.to_owned() }
    }

    /// Sets a key: in its place when it is there already, else at the end.
    ///
    /// # Errors
    /// [`Error::Write`] when the format does not allow the key (ASCII, 1 to 65535 bytes) or the value (arrays nested
    /// more than 8 deep).
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

    /// Removes a key and says what it had.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let i = self.position(key).ok()?;
        let gone = self.by_key.remove(i);
        for index in &mut self.by_key {
            *index -= u32::from(*index > gone);
        }
        Some(self.entries.remove(gone as usize).value)
    }

    /// The value of a key as `T`, or `None` when the key is absent.
    ///
    /// # Errors
    /// [`Error::KeyType`] when the value is there and is no `T`.
    pub fn find<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        T::from_value(value).map(Some).map_err(|got| self.unwanted(key, got, T::WANTED))
    }

    /// The value of a key as `T`.
    ///
    /// # Errors
    /// [`Error::MissingKey`], or [`Error::KeyType`] when the value is no `T`.
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

    /// A truth value; see [`Metadata::get`].
    pub fn bool(&self, key: &str) -> Result<bool> {
        self.get(key)
    }

    /// A text; see [`Metadata::get`].
    pub fn str(&self, key: &str) -> Result<&str> {
        self.get(key)
    }

    /// Many texts; see [`Metadata::get`].
    pub fn strings(&self, key: &str) -> Result<&Strings> {
        self.get(key)
    }

    /// The model's architecture, `general.architecture`.
    pub fn architecture(&self) -> Result<&str> {
        self.str("general.architecture")
    }

    /// The full name of a key of the architecture: `block_count` is `llama.block_count` in a Llama.
    pub fn arch_key(&self, key: &str) -> Result<String> {
        Ok(format!("{}.{key}", self.architecture()?))
    }

    /// [`Metadata::get`] of a key of the architecture.
    pub fn arch_get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.get(&self.arch_key(key)?)
    }

    /// [`Metadata::find`] of a key of the architecture.
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

/// Whether the format allows a pair: what [`Metadata::set`] and the writer ask.
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

/// The same pairs in the same order, wherever they were read from.
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
