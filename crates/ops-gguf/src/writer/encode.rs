//! Encodes metadata and tensor descriptions.

use crate::metadata::{Array, Strings, Value, tag};

/// Collects everything before the tensor data in memory; tensor data does not pass through here.
#[derive(Default)]
pub(super) struct Encoder {
    pub(super) bytes: Vec<u8>,
}

impl Encoder {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn u32(&mut self, n: u32) {
        self.raw(&n.to_le_bytes());
    }

    pub(super) fn u64(&mut self, n: u64) {
        self.raw(&n.to_le_bytes());
    }

    pub(super) fn string(&mut self, s: &str) {
        self.u64(s.len() as u64);
        self.raw(s.as_bytes());
    }

    pub(super) fn value(&mut self, value: &Value) {
        self.u32(value_tag(value));
        match value {
            Value::U8(x) => self.raw(&x.to_le_bytes()),
            Value::I8(x) => self.raw(&x.to_le_bytes()),
            Value::U16(x) => self.raw(&x.to_le_bytes()),
            Value::I16(x) => self.raw(&x.to_le_bytes()),
            Value::U32(x) => self.raw(&x.to_le_bytes()),
            Value::I32(x) => self.raw(&x.to_le_bytes()),
            Value::U64(x) => self.raw(&x.to_le_bytes()),
            Value::I64(x) => self.raw(&x.to_le_bytes()),
            Value::F32(x) => self.raw(&x.to_le_bytes()),
            Value::F64(x) => self.raw(&x.to_le_bytes()),
            Value::Bool(x) => self.raw(&[u8::from(*x)]),
            Value::String(x) => self.string(x),
            Value::Array(x) => self.array(x),
        }
    }

    fn array(&mut self, array: &Array) {
        self.u32(array_tag(array));
        self.u64(array.len() as u64);
        match array {
            Array::U8(a) => self.raw(a),
            Array::I8(a) => self.raw(bytemuck::cast_slice(a)),
            Array::U16(a) => self.raw(bytemuck::cast_slice(a)),
            Array::I16(a) => self.raw(bytemuck::cast_slice(a)),
            Array::U32(a) => self.raw(bytemuck::cast_slice(a)),
            Array::I32(a) => self.raw(bytemuck::cast_slice(a)),
            Array::U64(a) => self.raw(bytemuck::cast_slice(a)),
            Array::I64(a) => self.raw(bytemuck::cast_slice(a)),
            Array::F32(a) => self.raw(bytemuck::cast_slice(a)),
            Array::F64(a) => self.raw(bytemuck::cast_slice(a)),
            Array::Bool(a) => self.bytes.extend(a.iter().map(|&b| u8::from(b))),
            Array::String(a) => self.strings(a),
            Array::Array(a) => a.iter().for_each(|inner| self.array(inner)),
        }
    }

    fn strings(&mut self, strings: &Strings) {
        strings.iter().for_each(|s| self.string(s));
    }
}

fn value_tag(value: &Value) -> u32 {
    match value {
        Value::U8(_) => tag::U8,
        Value::I8(_) => tag::I8,
        Value::U16(_) => tag::U16,
        Value::I16(_) => tag::I16,
        Value::U32(_) => tag::U32,
        Value::I32(_) => tag::I32,
        Value::U64(_) => tag::U64,
        Value::I64(_) => tag::I64,
        Value::F32(_) => tag::F32,
        Value::F64(_) => tag::F64,
        Value::Bool(_) => tag::BOOL,
        Value::String(_) => tag::STRING,
        Value::Array(_) => tag::ARRAY,
    }
}

fn array_tag(array: &Array) -> u32 {
    match array {
        Array::U8(_) => tag::U8,
        Array::I8(_) => tag::I8,
        Array::U16(_) => tag::U16,
        Array::I16(_) => tag::I16,
        Array::U32(_) => tag::U32,
        Array::I32(_) => tag::I32,
        Array::U64(_) => tag::U64,
        Array::I64(_) => tag::I64,
        Array::F32(_) => tag::F32,
        Array::F64(_) => tag::F64,
        Array::Bool(_) => tag::BOOL,
        Array::String(_) => tag::STRING,
        Array::Array(_) => tag::ARRAY,
    }
}
