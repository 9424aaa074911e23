//! Recording a queue's calls once, and replaying them at the cost of one.
use crate::{Backend, Error, Reason, Result};

/// A backend that can record calls of its queue as a graph, and replay the graph.
///
/// A step of a decoder is launch after launch, each with the same shapes and the same memory as in the step before. Recorded
/// once, it is replayed by one call. What changes from step to step (token ids, positions, lengths, slots) must then be in
/// tensors that the recorded calls read, and change on the device, or by [`write`](Backend::write) between replays.
///
/// Recorded calls pass the same gate as all others: they are checked when they are recorded. A replay checks nothing, because
/// shapes, types and memory are those of the recording; only the values differ.
///
/// * **Nothing runs while calls are recorded.** What they write is undefined until the first replay.
/// * **Memory stays.** All memory that recorded calls touch belongs to the graph too: it is not freed, and not handed out again,
///   while the graph lives, even if its tensors are dropped. Keep the tensors that you read or write between replays.
/// * **A replay is a call in queue order**, with the uses of memory that the recorded calls had: other queues wait for it as
///   for any other call, and results are read after it.
/// * **Some calls cannot be recorded.** A transfer to or from the host, a wait, an event or a fork is an error that names the
///   reason, and so is then the whole capture, even if `calls` passes over the error. An op that the backend computes by way of
///   the host, or by a library that it does not record, is [`Error::Unsupported`].
///
/// A backend without graphs refuses [`capture`](Replay::capture) with [`Error::Unsupported`], so that a program can run its
/// calls step by step instead:
///
/// ```
/// use ops_core::{Backend, Error, Replay, ops::*};
/// # use ops_cpu::Cpu;
///
/// let b = Cpu::new();
/// let one = b.tensor(&[2], &[1.0_f32, 1.0])?;
/// let (mut x, mut y) = (b.zeros::<f32>(&[2])?, b.zeros::<f32>(&[2])?);
/// let mut step = || -> ops_core::Result<()> {
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
/// What the combinators do: [`Either`](crate::Either) records on its side. [`Fallback`](crate::Fallback) records on its primary
/// and refuses a call that would fall back. [`Timed`](crate::combine::Timed) counts replays, and not the recorded calls.
/// [`Checked`](crate::Checked) and [`Traced`](crate::combine::Traced) look at the operands of every call, which a replay does
/// not show them, so they refuse; a `Traced` that is off records like the backend inside.
pub trait Replay: Backend {
    /// Recorded calls, with the memory that they touch. May be sent to other threads.
    type Graph: Send + Sync + 'static;

    /// Records the calls that `calls` makes on this queue from this thread, instead of running them. Calls on other queues, and
    /// those of other threads, run at once. Returns the graph and what `calls` returned.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if this backend, or one of the calls, cannot be recorded; what `calls` returns; a failure of the
    /// device. The queue is usable afterwards.
    fn capture<R, E: From<Error>>(&self, calls: impl FnOnce() -> Result<R, E>)
    -> Result<(Self::Graph, R), E>;

    /// Enqueues the recorded calls once more. The graph must be of this queue.
    ///
    /// # Errors
    /// A graph of another queue, or a failure of the device. Errors of the recorded calls themselves, such as an index out of
    /// range, are reported by the next wait, as ever.
    fn replay(&self, graph: &Self::Graph) -> Result<()>;
}

/// The error for a call that cannot be recorded.
pub fn not_recorded(op: &'static str, backend: &'static str, why: impl Into<String>) -> Error {
    Error::Unsupported { op, backend, reason: Reason::Because(why.into()) }
}

/// The name under which errors and reports mention [`Replay::capture`].
pub const CAPTURE: &str = "capture";
/// The name under which errors and reports mention [`Replay::replay`].
pub const REPLAY: &str = "replay";
