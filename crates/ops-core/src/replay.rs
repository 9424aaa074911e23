//! Recording a queue's calls once, and replaying them for the cost of one call.
use crate::{Backend, Error, Reason, Result};

/// A backend that can record calls of its queue as a graph, and replay the graph.
///
/// A decoder step is launch after launch, each with the same shapes and the same memory as in the step
/// before. Once recorded, it is replayed by one call. Whatever changes from step to step (token ids,
/// positions, lengths, slots) must then be in tensors that the recorded calls read, and be updated on the
/// device, or by [`write`](Backend::write) between replays.
///
/// Recorded calls are checked like all others when they are recorded. A replay checks nothing, because
/// shapes, types and memory are those of the recording; only the values differ.
///
/// * **Nothing runs while calls are recorded.** What they write is undefined until the first replay.
/// * **Memory stays.** The graph co-owns all memory that recorded calls use: it is neither freed nor reused
///   while the graph lives, even if its tensors are dropped. Keep the tensors that you read or write between
///   replays.
/// * **A replay is a call in queue order** that uses the same memory as the recorded calls: other queues wait
///   for it as for any other call, and reads of its results wait for it.
/// * **Some calls cannot be recorded.** A transfer to or from the host, a wait, an event or a fork returns an
///   error that names the reason, and then the whole capture fails, even if `calls` ignores the error. An op
///   that the backend computes on the host, or with a library that it does not record, is
///   [`Error::Unsupported`].
///
/// A backend without graphs defines only [`Graph`](Replay::Graph), as [`Infallible`](core::convert::Infallible). Its
/// [`capture`](Replay::capture) returns [`Error::Unsupported`], so that a program can fall back to running its calls one by one:
///
/// ```
/// use rocm_ops::{Backend, Error, Replay, ops::*};
/// # use rocm_ops::Cpu;
///
/// let b = Cpu::new();
/// let one = b.tensor(&[2], &[1.0_f32, 1.0])?;
/// let (mut x, mut y) = (b.zeros::<f32>(&[2])?, b.zeros::<f32>(&[2])?);
/// let mut step = || -> rocm_ops::Result<()> {
///     b.add_into(&x, &one, &mut y)?;
///     b.copy_into(&y, &mut x)
/// };
/// let graph = match b.capture(&mut step) {
///     Ok((graph, ())) => Some(graph),
///     Err(Error::Unsupported { .. }) => None,
///     Err(error) => return Err(error),
/// };
/// for _ in 0..3 {
///     match &graph {
///         Some(graph) => b.replay(graph)?,
///         None => step()?,
///     }
/// }
/// assert_eq!(x.to_vec(&b)?, [3.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// The combinators behave as follows. [`Either`](crate::Either) records on its chosen side.
/// [`Fallback`](crate::Fallback) records on its primary and refuses a call that would fall back.
/// [`Timed`](crate::combine::Timed) counts replays, but not the recorded calls. [`Checked`](crate::Checked)
/// and [`Traced`](crate::combine::Traced) need the operands of every call, which a replay does not show
/// them, so they refuse; a `Traced` that is off records like the wrapped backend.
pub trait Replay: Backend {
    /// Recorded calls, with the memory that they use. May be sent to other threads.
    type Graph: Send + Sync + 'static;

    /// Records the calls that `calls` makes on this queue from this thread, instead of running them. Calls on other queues, and
    /// those of other threads, run at once. Returns the graph and what `calls` returned.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this backend, or one of the calls, cannot be recorded; what `calls` returns; a failure of the
    /// device. The queue is usable afterwards.
    fn capture<R, E: From<Error>>(
        &self,
        _calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<(Self::Graph, R), E> {
        let why = "this backend has no graphs; make the calls again instead";
        Err(not_recorded(CAPTURE, self.name(), why).into())
    }

    /// Whether [`capture`](Replay::capture) can record on this backend as it is now. It may still refuse a call.
    fn can_record(&self) -> bool {
        false
    }

    /// Enqueues the recorded calls once more. The graph must have been recorded on this queue.
    ///
    /// # Errors
    /// A graph of another queue, or a failure of the device. As usual, errors of the recorded calls
    /// themselves, such as an index out of range, are reported by the next wait.
    fn replay(&self, _graph: &Self::Graph) -> Result<()> {
        Err(not_recorded(REPLAY, self.name(), "this backend has no graphs"))
    }
}

/// The error for a call that cannot be recorded.
pub fn not_recorded(op: &'static str, backend: &'static str, why: impl Into<String>) -> Error {
    Error::Unsupported { op, backend, reason: Reason::Because(why.into()) }
}

/// The name of [`Replay::capture`] in errors and reports.
pub const CAPTURE: &str = "capture";
/// The name of [`Replay::replay`] in errors and reports.
pub const REPLAY: &str = "replay";
