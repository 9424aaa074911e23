//! Parses one record of a trace, which is untrusted.
use super::{CallDetail, Memory, NotRecorded, TracedCall, TracedOperand};
use crate::{CallError, Params};
use ops_core::ops::registry;
use ops_core::{DType, Layout, Scalar, Wide, with_type};
use serde_json::{Map, Value};

/// A description of what is wrong with a record.
pub(super) type Wrong = String;

/// A record.
#[derive(Debug)]
pub(super) enum Record {
    /// This many bytes of data follow.
    Data(u64),
    Call(TracedCall),
    /// The numbers of the next calls in the run.
    Run(Vec<usize>),
    End {
        calls: u64,
        not_recorded: Vec<NotRecorded>,
    },
}

/// Reads a record. `blocks` are the lengths of the blocks of data before it.
pub(super) fn record(line: &[u8], blocks: &[u64]) -> Result<Record, Wrong> {
    let value: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    let (name, value) = match value {
        Value::Object(map) if map.len() == 1 => map.into_iter().next(),
        _ => None,
    }
    .ok_or("got something else, wanted an object with one of data, call, run and end")?;
    match name.as_str() {
        "data" => {
            Ok(Record::Data(value.as_u64().ok_or_else(|| wanted("data", &value, "a number of bytes"))?))
        }
        "call" => Ok(Record::Call(call(Fields::of("call", value)?, blocks)?)),
        "run" => Ok(Record::Run(list("run", &value, "numbers of calls", count)?)),
        "end" => end(Fields::of("end", value)?),
        other => Err(format!("`{other}` is not a record of this version")),
    }
}

fn end(mut fields: Fields) -> Result<Record, Wrong> {
    let calls = fields.take("calls")?;
    let calls = calls.as_u64().ok_or_else(|| wanted("calls", &calls, "a number of calls"))?;
    let listed = match fields.take("not_recorded")? {
        Value::Array(listed) => listed,
        other => return Err(wanted("not_recorded", &other, "a list")),
    };
    let missing = |value: Value| {
        let mut fields = Fields::of("not_recorded", value)?;
        let calls = fields.take("calls")?;
        let calls = calls.as_u64().ok_or_else(|| wanted("calls", &calls, "a number of calls"))?;
        let missing = NotRecorded { op: fields.text("op")?, calls, reason: fields.text("reason")? };
        fields.done().map(|()| missing)
    };
    let not_recorded = listed.into_iter().map(missing).collect::<Result<_, _>>()?;
    fields.done()?;
    Ok(Record::End { calls, not_recorded })
}

fn call(mut fields: Fields, blocks: &[u64]) -> Result<TracedCall, Wrong> {
    let (op, dtype) = (fields.text("op")?, fields.text("dtype")?);
    let detail = detail(&op, &dtype, fields, blocks)?;
    Ok(TracedCall { op, dtype, detail })
}

/// Returns an error if the file is damaged, and an inner error if this build does not know something that the
/// file names.
fn detail(
    op: &str,
    dtype: &str,
    mut fields: Fields,
    blocks: &[u64],
) -> Result<Result<CallDetail, CallError>, Wrong> {
    let params = Params::new(fields.take("options")?).map_err(|e| format!("{op}: {e}"))?;
    let Value::Array(listed) = fields.take("operands")? else {
        return Err(format!("{op}: `operands` is not a list"));
    };
    fields.done()?;
    let unknown =
        |dtype: &str| CallError::Unsupported(format!("`{dtype}` is not an element type of this build"));
    let mut operands: Vec<TracedOperand> = Vec::new();
    let mut unsupported = None;
    for value in listed {
        match operand(Fields::of("operand", value)?, blocks).map_err(|why| format!("{op}: {why}"))? {
            Ok(operand) if operands.iter().any(|known| known.name == operand.name) => {
                return Err(format!("{op}: operand `{}` occurs twice", operand.name));
            }
            Ok(operand) => operands.push(operand),
            Err(dtype) => unsupported = Some(unknown(&dtype)),
        }
    }
    Ok(match (unsupported, registry::dtype(dtype)) {
        (Some(unsupported), _) => Err(unsupported),
        (None, None) => Err(unknown(dtype)),
        (None, Some(dtype)) => Ok(CallDetail { dtype, params, operands }),
    })
}

/// An operand, or the name of an element type that this build does not support.
fn operand(mut fields: Fields, blocks: &[u64]) -> Result<Result<TracedOperand, String>, Wrong> {
    let (name, dtype) = (fields.text("name")?, fields.text("dtype")?);
    let shape = list("shape", &fields.take("shape")?, "extents", count)?;
    let strides =
        fields.find("strides").map(|value| list("strides", &value, "strides", stride)).transpose()?;
    let layout = layout(&shape, strides.as_deref()).map_err(|why| format!("{name}: {why}"))?;
    let Some(dtype) = registry::dtype(&dtype) else { return Ok(Err(dtype)) };
    let memory = memory(&mut fields, dtype, &layout, blocks).map_err(|why| format!("{name}: {why}"))?;
    fields.done()?;
    Ok(Ok(TracedOperand { name, dtype, layout, memory }))
}

/// The layout whose lowest element is the first of its memory.
fn layout(shape: &[usize], strides: Option<&[isize]>) -> Result<Layout, Wrong> {
    let Some(strides) = strides else { return Layout::contiguous(shape).map_err(|e| e.to_string()) };
    let below = |(extent, stride): (&usize, &isize)| match stride {
        0.. => Some(0),
        _ => extent.saturating_sub(1).checked_mul(stride.unsigned_abs()),
    };
    let empty = shape.contains(&0);
    let offset = shape.iter().zip(strides).try_fold(0usize, |sum, axis| sum.checked_add(below(axis)?));
    let offset = offset.ok_or_else(|| format!("strides {strides:?} lead outside the address space"))?;
    Layout::strided(shape, strides, if empty { 0 } else { offset }).map_err(|e| e.to_string())
}

fn memory(fields: &mut Fields, dtype: DType, layout: &Layout, blocks: &[u64]) -> Result<Memory, Wrong> {
    let len = layout.extent().len();
    let given = ["values", "bounds", "data"].map(|name| fields.find(name));
    match given {
        [None, None, None] => Ok(Memory::Unknown),
        [Some(values), None, None] => {
            let values = list("values", &values, "integers", Value::as_i64)?;
            if values.len() != len {
                return Err(format!("{} values, wanted {len}, as many as its memory has", values.len()));
            }
            bytes(dtype, &values).map(Memory::Bytes)
        }
        [None, Some(bounds), None] => match list("bounds", &bounds, "two integers", Value::as_i64)?[..] {
            [least, greatest] if least <= greatest && dtype.is_index() => Ok(Memory::Bounds(least, greatest)),
            _ => {
                Err(wanted("bounds", &bounds, &format!("the smallest and the largest integer, for {dtype}")))
            }
        },
        [None, None, Some(number)] => {
            let at = count(&number).filter(|at| *at < blocks.len());
            let at = at.ok_or_else(|| wanted("data", &number, "the number of a block of data before it"))?;
            if len.checked_mul(dtype.size()).map(|want| want as u64) == Some(blocks[at]) {
                return Ok(Memory::Block(at));
            }
            let (got, size) = (blocks[at], dtype.size());
            Err(format!("data {at} has {got} bytes, wanted {len} elements of {size} bytes"))
        }
        _ => Err("more than one of values, bounds and data".into()),
    }
}

/// Integers as elements.
fn bytes(dtype: DType, values: &[i64]) -> Result<Vec<u8>, Wrong> {
    fn elements<T: Scalar>(values: &[i64]) -> Option<Vec<u8>> {
        let element = |value: &i64| {
            let element = T::from_wide(Wide::Int(*value));
            (element.to_wide() == Wide::Int(*value)).then_some(element)
        };
        let elements = values.iter().map(element).collect::<Option<Vec<T>>>()?;
        Some(bytemuck::cast_slice(&elements).to_vec())
    }
    let elements = with_type!(indices, dtype, T => elements::<T>(values), _ => None);
    elements.ok_or_else(|| format!("not all of its values are {dtype}"))
}

fn list<T>(
    name: &str,
    value: &Value,
    want: &str,
    each: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>, Wrong> {
    let all = value.as_array().and_then(|values| values.iter().map(each).collect());
    all.ok_or_else(|| wanted(name, value, want))
}

fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|n| usize::try_from(n).ok())
}

fn stride(value: &Value) -> Option<isize> {
    value.as_i64().and_then(|n| isize::try_from(n).ok())
}

fn wanted(name: &str, got: &Value, want: &str) -> Wrong {
    let mut got = got.to_string();
    let end = got.char_indices().nth(80).map(|(end, _)| end);
    if let Some(end) = end {
        got.truncate(end);
        got += "…";
    }
    format!("`{name}` is {got}, wanted {want}")
}

/// The fields of an object; each can be taken once.
struct Fields {
    of: &'static str,
    map: Map<String, Value>,
}

impl Fields {
    fn of(of: &'static str, value: Value) -> Result<Self, Wrong> {
        match value {
            Value::Object(map) => Ok(Fields { of, map }),
            other => Err(wanted(of, &other, "an object")),
        }
    }
    fn find(&mut self, name: &str) -> Option<Value> {
        self.map.remove(name)
    }
    fn take(&mut self, name: &str) -> Result<Value, Wrong> {
        self.find(name).ok_or_else(|| format!("`{}` has no `{name}`", self.of))
    }
    fn text(&mut self, name: &str) -> Result<String, Wrong> {
        match self.take(name)? {
            Value::String(text) => Ok(text),
            other => Err(wanted(name, &other, "a text")),
        }
    }
    /// Checks that every field was taken, so that none is ignored.
    fn done(self) -> Result<(), Wrong> {
        match self.map.keys().next() {
            None => Ok(()),
            Some(name) => {
                Err(format!("`{}` has a field `{name}`, which this version does not know", self.of))
            }
        }
    }
}
