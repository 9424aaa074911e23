//! Parses metadata.

use std::fmt::{self, Display};

use bytemuck::Pod;

use super::value::{Array, MAX_DEPTH, Strings, Value, tag};
use super::{Entry, Metadata};
use crate::cursor::Cursor;
use crate::error::{Error, Result};

/// Minimum bytes of a key-value pair: key length, type, and a value of one byte.
const MIN_PAIR_BYTES: usize = 8 + 4 + 1;

/// Reads the number of pairs and checks it against the file's size.
pub(crate) fn pair_count(cur: &mut Cursor<'_>) -> Result<usize> {
    cur.count(MIN_PAIR_BYTES, "count of metadata keys")
}

pub(crate) fn metadata(cur: &mut Cursor<'_>, count: usize) -> Result<Metadata> {
    let mut entries = Vec::new();
    for i in 0..count {
        let at = cur.at();
        let key = cur.string(format_args!("metadata key {i} of {count}"))?;
        if key.is_empty() {
            return Err(Error::malformed(
                format_args!("metadata key {i} of {count}"),
                at,
                "an empty key",
                "a name",
            ));
        }
        let value = value(cur, key)?;
        entries.push(Entry { key: key.into(), value, at: Some(at as u64) });
    }
    Metadata::from_entries(entries)
}

fn value(cur: &mut Cursor<'_>, key: &str) -> Result<Value> {
    let at = cur.at();
    let what = Named { key, part: "value" };
    Ok(match cur.number::<u32>(Named { key, part: "type" })? {
        tag::U8 => Value::U8(cur.number(what)?),
        tag::I8 => Value::I8(cur.number(what)?),
        tag::U16 => Value::U16(cur.number(what)?),
        tag::I16 => Value::I16(cur.number(what)?),
        tag::U32 => Value::U32(cur.number(what)?),
        tag::I32 => Value::I32(cur.number(what)?),
        tag::U64 => Value::U64(cur.number(what)?),
        tag::I64 => Value::I64(cur.number(what)?),
        tag::F32 => Value::F32(cur.number(what)?),
        tag::F64 => Value::F64(cur.number(what)?),
        tag::BOOL => Value::Bool(bools(cur, 1, key)?[0]),
        tag::STRING => Value::String(cur.string(what)?.into()),
        tag::ARRAY => Value::Array(array(cur, key, 0)?),
        other => return Err(unknown_type(key, at, other)),
    })
}

fn unknown_type(key: &str, at: usize, got: u32) -> Error {
    let what = Named { key, part: "type" };
    Error::malformed(what, at, got, "a value type from 0 to 12")
}

fn array(cur: &mut Cursor<'_>, key: &str, depth: usize) -> Result<Array> {
    let at = cur.at();
    if depth > MAX_DEPTH {
        let wanted = format!("at most {MAX_DEPTH} levels of nested arrays");
        return Err(Error::malformed(Named { key, part: "value" }, at, "deeper arrays", wanted));
    }
    Ok(match cur.number::<u32>(Named { key, part: "element type" })? {
        tag::U8 => Array::U8(numbers(cur, key)?),
        tag::I8 => Array::I8(numbers(cur, key)?),
        tag::U16 => Array::U16(numbers(cur, key)?),
        tag::I16 => Array::I16(numbers(cur, key)?),
        tag::U32 => Array::U32(numbers(cur, key)?),
        tag::I32 => Array::I32(numbers(cur, key)?),
        tag::U64 => Array::U64(numbers(cur, key)?),
        tag::I64 => Array::I64(numbers(cur, key)?),
        tag::F32 => Array::F32(numbers(cur, key)?),
        tag::F64 => Array::F64(numbers(cur, key)?),
        tag::BOOL => {
            let count = length(cur, key, 1)?;
            Array::Bool(bools(cur, count, key)?)
        }
        tag::STRING => Array::String(Box::new(strings(cur, key)?)),
        tag::ARRAY => {
            // Minimum bytes of an empty array: type and length.
            let count = length(cur, key, 4 + 8)?;
            // Do not preallocate: each nested array could claim the rest of the file.
            let mut inner = Vec::new();
            for _ in 0..count {
                inner.push(array(cur, key, depth + 1)?);
            }
            Array::Array(inner.into())
        }
        other => return Err(unknown_type(key, at, other)),
    })
}

fn length(cur: &mut Cursor<'_>, key: &str, min_bytes: usize) -> Result<usize> {
    cur.count(min_bytes, Named { key, part: "array length" })
}

fn numbers<T: Pod>(cur: &mut Cursor<'_>, key: &str) -> Result<Box<[T]>> {
    let count = length(cur, key, size_of::<T>())?;
    let bytes = cur.take(count * size_of::<T>(), Named { key, part: "array" })?;
    Ok(bytemuck::pod_collect_to_vec(bytes).into())
}

fn bools(cur: &mut Cursor<'_>, count: usize, key: &str) -> Result<Box<[bool]>> {
    let at = cur.at();
    let bytes = cur.take(count, Named { key, part: "bool" })?;
    match bytes.iter().position(|&b| b > 1) {
        None => Ok(bytes.iter().map(|&b| b == 1).collect()),
        Some(i) => Err(Error::malformed(Named { key, part: "bool" }, at + i, bytes[i], "0 or 1")),
    }
}

/// Walks the strings twice: first to check them and sum their lengths, then to copy them into one buffer.
fn strings(cur: &mut Cursor<'_>, key: &str) -> Result<Strings> {
    let count = length(cur, key, 8)?;
    let start = cur.at();
    for index in 0..count {
        cur.string(Element { key, index })?;
    }
    let total = cur.at() - start - 8 * count;
    cur.seek_back(start);
    let mut strings = Strings::with_capacity(count, total);
    for index in 0..count {
        strings.push(cur.string(Element { key, index })?);
    }
    Ok(strings)
}

/// The part of a pair that an error is about.
#[derive(Clone, Copy)]
struct Named<'a> {
    key: &'a str,
    part: &'static str,
}

impl Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of metadata key `{}`", self.part, self.key)
    }
}

/// The string of an array that an error is about.
#[derive(Clone, Copy)]
struct Element<'a> {
    key: &'a str,
    index: usize,
}

impl Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "string {} of metadata key `{}`", self.index, self.key)
    }
}
