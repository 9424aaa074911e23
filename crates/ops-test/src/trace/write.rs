//! Writes traces while the calls are made.
use super::{MAX_VALUES, NotRecorded, RUN_LENGTH, START, VERSION};
use crate::Params;
use ops_core::combine::{Recorder, TracedCall, TracedOperand};
use ops_core::ops::registry;
use ops_core::{DType, Error, Operand, Result, Wide};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Writes the calls of a [`Traced`](ops_core::combine::Traced) backend as a trace, each as soon as it has
/// run.
///
/// Equal calls are stored once, and so are equal operands. Integers are always stored, as values or bounds,
/// because they are often indices, which must stay in range.
#[derive(Debug)]
pub struct TraceRecorder<W> {
    inputs: bool,
    /// `None` once finished.
    file: Mutex<Option<File<W>>>,
}

/// The contents of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceSummary {
    /// Number of calls.
    pub calls: u64,
    /// Number of distinct calls.
    pub distinct: usize,
    /// Bytes of the file.
    pub bytes: u64,
    /// Calls that are not in the trace.
    pub not_recorded: Vec<NotRecorded>,
}

#[derive(Debug)]
struct File<W> {
    out: W,
    inputs: bool,
    bytes: u64,
    calls: u64,
    /// The number of each call by its description.
    known: HashMap<String, usize>,
    /// The number of each block of data by the digest of its bytes.
    blocks: HashMap<(usize, u64, u64), usize>,
    /// Calls that were made and are not written yet.
    run: Vec<usize>,
    not_recorded: BTreeMap<(&'static str, &'static str), u64>,
}

impl<W: Write> TraceRecorder<W> {
    /// Starts a trace. `about` describes for people what was traced. With `inputs`, the bytes of operands are
    /// stored.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn new(out: W, about: Map<String, Value>, inputs: bool) -> io::Result<Self> {
        let mut file = File {
            out,
            inputs,
            bytes: 0,
            calls: 0,
            known: HashMap::new(),
            blocks: HashMap::new(),
            run: Vec::new(),
            not_recorded: BTreeMap::new(),
        };
        file.line(&format!("{START}{VERSION},\"about\":{}}}", Value::Object(about)))?;
        Ok(TraceRecorder { inputs, file: Mutex::new(Some(file)) })
    }

    /// Ends the trace. Later calls are errors.
    ///
    /// # Errors
    /// Errors of the writer; or the trace was already finished.
    pub fn finish(&self) -> io::Result<(W, TraceSummary)> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner).take();
        file.ok_or_else(finished)?.finish()
    }
}

impl<W: Write + Send + 'static> Recorder for TraceRecorder<W> {
    fn wants(&self, operand: &Operand<'_>) -> bool {
        self.inputs || operand.dtype.is_index()
    }
    fn record(&self, call: TracedCall) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.as_mut().ok_or_else(finished).and_then(|file| file.call(&call));
        written.map_err(|e| Error::Device { backend: "trace", call: "write", status: e.to_string() })
    }
}

fn finished() -> io::Error {
    io::Error::other("the trace is finished")
}

impl<W: Write> File<W> {
    fn call(&mut self, call: &TracedCall) -> io::Result<()> {
        let runs_in = match (registry::find(call.op), call.runs_in) {
            (Some(_), Some(dtype)) => dtype,
            (None, _) => return self.skip(call.op, "it is not an op of this build"),
            (_, None) => return self.skip(call.op, "it has no operands"),
        };
        let operands = call.operands.iter().map(|operand| self.operand(operand));
        let operands = operands.collect::<io::Result<Vec<_>>>()?;
        let options = Value::Object(Params::of(&call.options).0);
        let described = json!({
            "call": {"op": call.op, "dtype": runs_in.name(), "options": options, "operands": operands},
        });
        let described = described.to_string();
        let number = match self.known.get(&described) {
            Some(number) => *number,
            None => {
                self.line(&described)?;
                let number = self.known.len();
                self.known.insert(described, number);
                number
            }
        };
        self.calls += 1;
        self.run.push(number);
        if self.run.len() == RUN_LENGTH { self.flush_run() } else { Ok(()) }
    }

    fn skip(&mut self, op: &'static str, reason: &'static str) -> io::Result<()> {
        *self.not_recorded.entry((op, reason)).or_default() += 1;
        Ok(())
    }

    fn operand(&mut self, operand: &TracedOperand) -> io::Result<Value> {
        let TracedOperand { name, dtype, layout, memory, .. } = operand;
        let mut described = json!({"name": name, "dtype": dtype.name(), "shape": layout.dims()});
        if !layout.is_contiguous() {
            described["strides"] = json!(layout.strides());
        }
        let Some(bytes) = memory else { return Ok(described) };
        let len = bytes.len() / dtype.size();
        if dtype.is_index() && len <= MAX_VALUES {
            described["values"] = json!(integers(*dtype, bytes).collect::<Vec<_>>());
        } else if self.inputs {
            described["data"] = json!(self.block(bytes)?);
        } else {
            described["bounds"] = bounds(operand, bytes);
        }
        Ok(described)
    }

    /// Stores bytes as a block of data, unless they are stored already, and returns its number.
    fn block(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let key = digest(bytes);
        if let Some(number) = self.blocks.get(&key) {
            return Ok(*number);
        }
        self.line(&format!("{{\"data\":{}}}", bytes.len()))?;
        self.write(bytes)?;
        self.write(b"\n")?;
        let number = self.blocks.len();
        self.blocks.insert(key, number);
        Ok(number)
    }

    fn flush_run(&mut self) -> io::Result<()> {
        let run = std::mem::take(&mut self.run);
        if run.is_empty() { Ok(()) } else { self.line(&json!({"run": run}).to_string()) }
    }

    fn finish(mut self) -> io::Result<(W, TraceSummary)> {
        self.flush_run()?;
        let missing = |((op, reason), calls): (&(&'static str, &'static str), &u64)| NotRecorded {
            op: (*op).to_owned(),
            calls: *calls,
            reason: (*reason).to_owned(),
        };
        let not_recorded: Vec<_> = self.not_recorded.iter().map(missing).collect();
        let listed = not_recorded.iter();
        let listed: Vec<_> = listed
            .map(|missing| json!({"op": missing.op, "calls": missing.calls, "reason": missing.reason}))
            .collect();
        self.line(&json!({"end": {"calls": self.calls, "not_recorded": listed}}).to_string())?;
        self.out.flush()?;
        let File { out, bytes, calls, known, .. } = self;
        Ok((out, TraceSummary { calls, distinct: known.len(), bytes, not_recorded }))
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.write(line.as_bytes())?;
        self.write(b"\n")
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }
}

/// The smallest and the largest integer that the layout refers to. The gaps between its elements may contain
/// anything.
fn bounds(operand: &TracedOperand, bytes: &[u8]) -> Value {
    let size = operand.dtype.size();
    let elements = operand.layout.positions().filter_map(|at| bytes.get(at * size..)?.get(..size));
    let values = elements.filter_map(|element| integer(operand.dtype, element));
    let (least, greatest) =
        values.fold((i64::MAX, i64::MIN), |(least, greatest), value| (least.min(value), greatest.max(value)));
    json!([least, greatest])
}

fn integers(dtype: DType, bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks_exact(dtype.size()).filter_map(move |element| integer(dtype, element))
}

fn integer(dtype: DType, element: &[u8]) -> Option<i64> {
    match dtype.number(element) {
        Some(Wide::Int(value)) => Some(value),
        _ => None,
    }
}

/// The length and 128 bits of hash: enough to distinguish all operands of a run.
fn digest(bytes: &[u8]) -> (usize, u64, u64) {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        hasher.write(bytes);
        hasher.finish()
    };
    (bytes.len(), half(0), half(1))
}
