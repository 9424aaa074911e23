//! Conversions between Rust types and metadata values.

use super::value::{Array, ConversionError, Strings, Value};

/// A type that a metadata value can be read as.
///
/// Integers of any width convert if the value fits, and f32 and f64 convert to each other. Nothing else converts.
pub trait FromValue<'a>: Sized {
    /// The type's name in errors.
    const WANTED: &'static str;

    /// Converts the value, or describes what it is instead.
    fn from_value(value: &'a Value) -> Result<Self, String>;
}

/// Describes a value and its type, for errors.
fn describe(value: &Value) -> String {
    format!("{} {value}", value.type_name())
}

fn integer<T: TryFrom<i128>>(value: &Value) -> Result<T, String> {
    value.integer().and_then(|n| T::try_from(n).ok()).ok_or_else(|| describe(value))
}

macro_rules! integers {
    ($($t:ty => $variant:ident),+ $(,)?) => {$(
        impl FromValue<'_> for $t {
            const WANTED: &'static str = stringify!($t);
            fn from_value(value: &Value) -> Result<Self, String> {
                integer(value)
            }
        }
        impl FromValue<'_> for Vec<$t> {
            const WANTED: &'static str = concat!("array of ", stringify!($t));
            fn from_value(value: &Value) -> Result<Self, String> {
                let Value::Array(array) = value else { return Err(describe(value)) };
                array.integers().map_err(|unfit| match unfit {
                    ConversionError::Type => describe(value),
                    ConversionError::At(i, n) => format!("{} with {n} at index {i}", array.type_name()),
                })
            }
        }
    )+};
}
integers!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, usize => U64);

macro_rules! into_value {
    ($($t:ty => $variant:ident),+ $(,)?) => {$(
        impl From<$t> for Value {
            fn from(x: $t) -> Self {
                Self::$variant(x)
            }
        }
        impl From<Vec<$t>> for Value {
            fn from(x: Vec<$t>) -> Self {
                Self::Array(Array::$variant(x.into()))
            }
        }
    )+};
}
into_value!(u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64,
    f32 => F32, f64 => F64, bool => Bool);

impl FromValue<'_> for f64 {
    const WANTED: &'static str = "f64";
    fn from_value(value: &Value) -> Result<Self, String> {
        match *value {
            Value::F32(x) => Ok(x.into()),
            Value::F64(x) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl FromValue<'_> for f32 {
    const WANTED: &'static str = "f32";
    fn from_value(value: &Value) -> Result<Self, String> {
        f64::from_value(value).map(|x| x as f32)
    }
}

impl FromValue<'_> for bool {
    const WANTED: &'static str = "bool";
    fn from_value(value: &Value) -> Result<Self, String> {
        match *value {
            Value::Bool(x) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a str {
    const WANTED: &'static str = "string";
    fn from_value(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::String(x) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a Strings {
    const WANTED: &'static str = "array of string";
    fn from_value(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Array(Array::String(x)) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a [f32] {
    const WANTED: &'static str = "array of f32";
    fn from_value(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Array(Array::F32(x)) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a [bool] {
    const WANTED: &'static str = "array of bool";
    fn from_value(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Array(Array::Bool(x)) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl<'a> FromValue<'a> for &'a Array {
    const WANTED: &'static str = "array";
    fn from_value(value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Array(x) => Ok(x),
            _ => Err(describe(value)),
        }
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::String(s.into())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::String(s.into())
    }
}

impl From<Strings> for Value {
    fn from(s: Strings) -> Self {
        Self::Array(Array::String(s.into()))
    }
}

impl<S: AsRef<str>> From<&[S]> for Value {
    fn from(s: &[S]) -> Self {
        s.iter().collect::<Strings>().into()
    }
}

impl From<Array> for Value {
    fn from(a: Array) -> Self {
        Self::Array(a)
    }
}
