//! Metadata values.

use std::fmt;

/// A metadata value, with the type it has in the file.
///
/// ```
/// use rocm_ops::gguf::Value;
///
/// assert_eq!(Value::from(32_u32), Value::U32(32));
/// assert_eq!(Value::from("llama"), Value::String("llama".into()));
/// assert_eq!(Value::from(vec![1.0_f32, 2.0]).type_name(), "array of f32");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names are the documentation
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    U64(u64),
    I64(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    String(Box<str>),
    Array(Array),
}

/// A packed array of values of one type: numbers as a slice, strings in one buffer.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the names are the documentation
pub enum Array {
    U8(Box<[u8]>),
    I8(Box<[i8]>),
    U16(Box<[u16]>),
    I16(Box<[i16]>),
    U32(Box<[u32]>),
    I32(Box<[i32]>),
    U64(Box<[u64]>),
    I64(Box<[i64]>),
    F32(Box<[f32]>),
    F64(Box<[f64]>),
    Bool(Box<[bool]>),
    String(Box<Strings>),
    /// Nested arrays, which may have different types.
    Array(Box<[Array]>),
}

/// Value type numbers in the file.
pub(crate) mod tag {
    pub(crate) const U8: u32 = 0;
    pub(crate) const I8: u32 = 1;
    pub(crate) const U16: u32 = 2;
    pub(crate) const I16: u32 = 3;
    pub(crate) const U32: u32 = 4;
    pub(crate) const I32: u32 = 5;
    pub(crate) const F32: u32 = 6;
    pub(crate) const BOOL: u32 = 7;
    pub(crate) const STRING: u32 = 8;
    pub(crate) const ARRAY: u32 = 9;
    pub(crate) const U64: u32 = 10;
    pub(crate) const I64: u32 = 11;
    pub(crate) const F64: u32 = 12;
}

/// Maximum nesting depth of arrays, for reading and writing.
pub(crate) const MAX_DEPTH: usize = 8;

impl Value {
    /// The type's name, such as "u32" or "array of string".
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::I8(_) => "i8",
            Self::U16(_) => "u16",
            Self::I16(_) => "i16",
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::U64(_) => "u64",
            Self::I64(_) => "i64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Bool(_) => "bool",
            Self::String(_) => "string",
            Self::Array(a) => a.type_name(),
        }
    }

    /// The value as i128 if it is an integer of any width.
    pub(crate) fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::U64(n) => n.into(),
            Self::I64(n) => n.into(),
            _ => return None,
        })
    }
}

/// Abbreviated: long strings are truncated, and arrays print as type and length.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::F32(x) => write!(f, "{x:?}"),
            Self::F64(x) => write!(f, "{x:?}"),
            Self::Bool(x) => write!(f, "{x}"),
            Self::String(s) => match s.char_indices().nth(60) {
                None => write!(f, "{s:?}"),
                Some((cut, _)) => write!(f, "{:?}… ({} bytes)", &s[..cut], s.len()),
            },
            Self::Array(a) => write!(f, "{} × {}", a.type_name(), a.len()),
            other => write!(f, "{}", other.integer().unwrap_or_default()),
        }
    }
}

impl Array {
    /// The type's name, such as "array of u32".
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "array of u8",
            Self::I8(_) => "array of i8",
            Self::U16(_) => "array of u16",
            Self::I16(_) => "array of i16",
            Self::U32(_) => "array of u32",
            Self::I32(_) => "array of i32",
            Self::U64(_) => "array of u64",
            Self::I64(_) => "array of i64",
            Self::F32(_) => "array of f32",
            Self::F64(_) => "array of f64",
            Self::Bool(_) => "array of bool",
            Self::String(_) => "array of string",
            Self::Array(_) => "array of arrays",
        }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(a) => a.len(),
            Self::I8(a) => a.len(),
            Self::U16(a) => a.len(),
            Self::I16(a) => a.len(),
            Self::U32(a) => a.len(),
            Self::I32(a) => a.len(),
            Self::U64(a) => a.len(),
            Self::I64(a) => a.len(),
            Self::F32(a) => a.len(),
            Self::F64(a) => a.len(),
            Self::Bool(a) => a.len(),
            Self::String(a) => a.len(),
            Self::Array(a) => a.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Nesting depth: 0 for an array of plain values.
    pub(crate) fn depth(&self) -> usize {
        match self {
            Self::Array(a) => 1 + a.iter().map(Self::depth).max().unwrap_or(0),
            _ => 0,
        }
    }

    /// The elements as `T`, if they are integers of any width and all fit.
    pub(crate) fn integers<T: TryFrom<i128>>(&self) -> Result<Vec<T>, ConversionError> {
        fn all<S: Copy + Into<i128>, T: TryFrom<i128>>(a: &[S]) -> Result<Vec<T>, ConversionError> {
            let fit =
                |(i, &x): (usize, &S)| T::try_from(x.into()).map_err(|_| ConversionError::At(i, x.into()));
            a.iter().enumerate().map(fit).collect()
        }
        match self {
            Self::U8(a) => all(a),
            Self::I8(a) => all(a),
            Self::U16(a) => all(a),
            Self::I16(a) => all(a),
            Self::U32(a) => all(a),
            Self::I32(a) => all(a),
            Self::U64(a) => all(a),
            Self::I64(a) => all(a),
            _ => Err(ConversionError::Type),
        }
    }
}

/// Why an array does not convert to the requested integer type.
pub(crate) enum ConversionError {
    Type,
    At(usize, i128),
}

/// Strings in one buffer, so that a vocabulary takes no more memory than in the file.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// The end of each string in `text`, on a character boundary.
    ends: Vec<usize>,
}

impl Strings {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reserves room for `count` strings of `bytes` bytes in total.
    pub(crate) fn with_capacity(count: usize, bytes: usize) -> Self {
        Self { text: String::with_capacity(bytes), ends: Vec::with_capacity(count) }
    }

    /// Appends a string.
    pub fn push(&mut self, s: &str) {
        self.text.push_str(s);
        self.ends.push(self.text.len());
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.text.get(start..end)
    }

    /// All strings in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i).unwrap_or_default())
    }
}

impl<S: AsRef<str>> FromIterator<S> for Strings {
    fn from_iter<I: IntoIterator<Item = S>>(iter: I) -> Self {
        let mut strings = Self::new();
        iter.into_iter().for_each(|s| strings.push(s.as_ref()));
        strings
    }
}

impl fmt::Debug for Strings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
