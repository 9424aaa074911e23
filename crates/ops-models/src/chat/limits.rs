//! Limits on templates: whoever writes one must not be able to end or delay the program.
//!
//! Fuel bounds steps, and the bytes that steps make. What fuel does not see has limits of its own: the length of a template, which
//! bounds how deep its expressions are; how large and how deep a stored value is, since walking one may take time exponential in the
//! number of steps that made it; and time. A template runs on a thread whose stack fits whatever these limits allow, and which ends
//! soon after the time.
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind};
use ops_gguf::panics;
use std::cell::Cell;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of a template. Published ones have up to 30 KiB.
pub(super) const MAX_TEMPLATE: usize = 128 << 10;
/// Steps of the engine, or 64 bytes of text each; a published template takes some thousands.
pub(super) const FUEL: u64 = 1 << 20;
/// Nesting of a value, and the values in it; 256 bytes of text count as one.
const MAX_DEPTH: usize = 64;
const MAX_VALUES: usize = 200_000;
/// Milliseconds, for a conversation of usual length.
const TIME: u64 = 800;
/// A template of the maximum length may nest some ten thousands of operators. The memory is only taken as far as it is used.
const STACK: usize = 256 << 20;

/// Between the time after which nobody waits for a template and the time when it ends by itself.
const GRACE: Duration = Duration::from_millis(100);

thread_local! {
    /// When the template of this thread must have ended.
    static END: Cell<Option<Instant>> = const { Cell::new(None) };
}

type Rendered = Result<String, String>;

/// Runs `render` on a thread of its own, for at most [`TIME`] and a second per MiB of input.
pub(super) fn run(input: usize, render: impl FnOnce() -> Rendered + Send + 'static) -> Rendered {
    let time = Duration::from_millis(TIME + ((input as u64 * 1000) >> 20));
    let (receiver, _) = start(time, render)?;
    match receiver.recv_timeout(time) {
        Ok(done) => done,
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("it takes longer than {} ms, the limit", time.as_millis()))
        }
        Err(RecvTimeoutError::Disconnected) => Err("its thread ended without a result".to_owned()),
    }
}

/// Starts a thread that renders, in which [`in_time`] fails soon after this time.
pub(super) fn start(
    time: Duration,
    render: impl FnOnce() -> Rendered + Send + 'static,
) -> Result<(Receiver<Rendered>, JoinHandle<()>), String> {
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name("template".into()).stack_size(STACK);
    let started = thread.spawn(move || {
        END.set(Some(Instant::now() + time + GRACE));
        let done = panics::catch(render).unwrap_or_else(|message| Err(format!("the panic {message:?}")));
        // After the time, nobody waits.
        drop(sender.send(done));
    });
    let thread = started.map_err(|error| format!("no thread can be started for it: {error}"))?;
    Ok((receiver, thread))
}

/// Fails if this thread's template has taken longer than its time. Called wherever a template prints, stores a value or calls a method,
/// so that its thread ends although steps are left.
pub(super) fn in_time() -> Result<(), Error> {
    match END.get() {
        Some(end) if Instant::now() > end => Err(limit("a longer time")),
        _ => Ok(()),
    }
}

/// The message of an error, with the limit if fuel ran out.
pub(super) fn message(error: &Error) -> String {
    match error.kind() {
        ErrorKind::OutOfFuel => {
            let line = error.line().map_or(String::new(), |line| format!(", at line {line}"));
            format!("it takes more than {FUEL} steps or 64 bytes of text for each, the limit{line}")
        }
        _ => error.to_string(),
    }
}

/// A value to store: not too large. In a namespace (`inside`), it must not hold one, which could be itself and had no end then.
pub(super) fn stored(value: Value, inside: bool) -> Result<Value, Error> {
    let mut found = false;
    check(&value, &mut |part| {
        found |= part.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"));
    })?;
    match found && inside {
        true => Err(limit("a namespace in a namespace")),
        false => Ok(value),
    }
}

/// Fails if a value is nested too deeply or has too many parts. Calls `each` with all of them.
pub(super) fn check(value: &Value, each: &mut dyn FnMut(&Value)) -> Result<(), Error> {
    in_time()?;
    walk(value, MAX_DEPTH, &mut 0, each)
}

fn walk(value: &Value, depth: usize, count: &mut usize, each: &mut dyn FnMut(&Value)) -> Result<(), Error> {
    *count += 1 + value.as_str().map_or(0, |text| text.len() >> 8);
    if *count > MAX_VALUES {
        return Err(limit(&format!("a value with more than {MAX_VALUES} parts")));
    }
    each(value);
    let is_map = value.kind() == ValueKind::Map;
    if !is_map && (!matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable) || value.len().is_none()) {
        return Ok(());
    }
    if depth == 0 {
        return Err(limit(&format!("a value that is nested more than {MAX_DEPTH} times")));
    }
    for item in value.try_iter()? {
        match is_map {
            true => walk(&value.get_item(&item)?, depth - 1, count, each)?,
            false => walk(&item, depth - 1, count, each)?,
        }
    }
    Ok(())
}

pub(super) fn limit(what: &str) -> Error {
    Error::new(ErrorKind::InvalidOperation, format!("{what}, beyond the limit"))
}
