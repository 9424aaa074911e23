//! Reads traces. Nothing is trusted: a file that is truncated or contradicts itself is an error that names
//! the record.
use super::parse::{Record, record};
use super::{MAX_RECORD, NotRecorded, TraceError, TracedCall, VERSION, is_trace};
use crate::open_regular;
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

/// A trace that was read and checked. Data stay in the file until they are needed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace<R> {
    /// A description of what was traced, for people.
    pub about: Map<String, Value>,
    /// The distinct calls, in order of their first use.
    pub calls: Vec<TracedCall>,
    /// The run: indices into `calls`, in order.
    pub run: Vec<usize>,
    /// The calls of the run that are not in the trace.
    pub not_recorded: Vec<NotRecorded>,
    /// The blocks of data.
    pub blocks: Blocks<R>,
}

/// The blocks of data of a trace, which stay in the file.
#[derive(Debug)]
pub struct Blocks<R> {
    source: R,
    /// Where each block begins.
    starts: Vec<u64>,
    lengths: Vec<u64>,
}

impl Trace<BufReader<File>> {
    /// Opens a trace.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, TraceError> {
        Trace::read(BufReader::new(open_regular(path.as_ref())?))
    }
}

impl<R: BufRead + Seek> Trace<R> {
    /// Reads a trace to its end. Memory use is at most a small factor times the file's bytes of text.
    ///
    /// # Errors
    /// See [`TraceError`].
    pub fn read(mut source: R) -> Result<Self, TraceError> {
        let size = source.seek(SeekFrom::End(0))?;
        source.rewind()?;
        let first = line(&mut source)?.filter(|line| is_trace(line)).ok_or(TraceError::NotATrace)?;
        let about = header(&first)?;
        let blocks = Blocks { source, starts: Vec::new(), lengths: Vec::new() };
        let mut trace = Trace { about, calls: Vec::new(), run: Vec::new(), not_recorded: Vec::new(), blocks };
        for number in 2.. {
            let done = trace.next(size).map_err(|wrong| match wrong {
                Failure::Io(e) => TraceError::Io(e),
                Failure::Why(why) => TraceError::Record { number, why },
            })?;
            if done {
                break;
            }
        }
        Ok(trace)
    }

    /// Reads the next record of a file of `size` bytes. Returns whether it was the last one.
    fn next(&mut self, size: u64) -> Result<bool, Failure> {
        let cut_off = || Failure::Why("the file ends here, without an end record: it is truncated".into());
        let line = line(&mut self.blocks.source)?.ok_or_else(cut_off)?;
        if !line.ends_with(b"\n") {
            let why = format!("it is truncated, or longer than {MAX_RECORD} bytes");
            return Err(Failure::Why(why));
        }
        match record(&line, &self.blocks.lengths)? {
            Record::Data(length) => self.blocks.skip(length, size).map(|()| false),
            Record::Call(call) => {
                self.calls.push(call);
                Ok(false)
            }
            Record::Run(run) => {
                let known = self.calls.len();
                if let Some(unknown) = run.iter().find(|call| **call >= known) {
                    return Err(Failure::Why(format!("it runs call {unknown}, but only {known} are known")));
                }
                self.run.extend(run);
                Ok(false)
            }
            Record::End { calls, not_recorded } => {
                let made = self.run.len();
                if calls != made as u64 {
                    return Err(Failure::Why(format!("it counts {calls} calls, but {made} were recorded")));
                }
                if !self.blocks.source.fill_buf()?.is_empty() {
                    return Err(Failure::Why("something follows it, but it should be the last".into()));
                }
                self.not_recorded = not_recorded;
                Ok(true)
            }
        }
    }
}

impl<R: BufRead + Seek> Blocks<R> {
    /// The bytes of a block.
    ///
    /// # Errors
    /// There is no such block, there is no memory for it, or the file cannot be read.
    pub fn read(&mut self, number: usize) -> io::Result<Vec<u8>> {
        let (Some(start), Some(length)) = (self.starts.get(number), self.lengths.get(number)) else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no data {number}")));
        };
        let length = usize::try_from(*length).map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length).map_err(io::Error::other)?;
        self.source.seek(SeekFrom::Start(*start))?;
        self.source.by_ref().take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Skips a block that begins here, in a file of `size` bytes.
    fn skip(&mut self, length: u64, size: u64) -> Result<(), Failure> {
        let start = self.source.stream_position()?;
        let left = size.saturating_sub(start);
        if length >= left {
            return Err(Failure::Why(format!(
                "it has {length} bytes of data, but {left} are left in the file"
            )));
        }
        self.source.seek_relative(i64::try_from(length).map_err(|e| Failure::Why(e.to_string()))?)?;
        let mut end = [0];
        self.source.read_exact(&mut end)?;
        if end != *b"\n" {
            return Err(Failure::Why(format!("its {length} bytes of data do not end with a line break")));
        }
        self.starts.push(start);
        self.lengths.push(length);
        Ok(())
    }
}

/// Why a record is invalid.
enum Failure {
    Io(io::Error),
    Why(String),
}
impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Self {
        Failure::Io(e)
    }
}
impl From<String> for Failure {
    fn from(why: String) -> Self {
        Failure::Why(why)
    }
}

/// The next line, at most [`MAX_RECORD`] bytes of it; `None` at the end of the file.
fn line(source: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    source.take(MAX_RECORD).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}

/// Parses the first line of a trace.
fn header(line: &[u8]) -> Result<Map<String, Value>, TraceError> {
    let wrong = |why: String| TraceError::Record { number: 1, why };
    let mut header: Map<String, Value> = serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))?;
    match header.remove("optrace") {
        Some(version) if version == VERSION => {}
        version => return Err(TraceError::Version(version.unwrap_or_default().to_string())),
    }
    match header.remove("about") {
        Some(Value::Object(about)) => Ok(about),
        _ => Err(wrong("it has no `about`".into())),
    }
}
