//! Collectives between ranks that are threads of this process, through host memory.
use core::ops::Range;
use ops_core::group::{Announced, Collective, DEFAULT_LIMIT, Group, GroupCall, Reduction, Seat, SpaceOf};
use ops_core::{AnyMut, AnyRef, Backend, DType, Determinism, Error, Result};
use std::sync::Arc;
use std::time::Duration;

mod reduce;

/// From this many bytes on, a rank reduces one part of an [`AllReduce`](Collective::AllReduce) and collects the others, in a second meeting.
/// Below, it reduces everything by itself.
const IN_PARTS: usize = 64 << 10;

/// What a rank brings to a meeting: a copy of its elements.
type Brought = Arc<Vec<u8>>;
/// Bytes of what a rank brought.
type Part = (Brought, Range<usize>);

fn whole(brought: Brought) -> Part {
    let bytes = 0..brought.len();
    (brought, bytes)
}

/// One rank of a group whose ranks are threads of this process, on any backend. Elements move through host memory: for
/// [`Cpu`](crate::Cpu), that is where they are; for a GPU, it is the way without RCCL or links between cards.
///
/// This is the reference for other groups: sums are in rank order and [`Exact`](Determinism::Exact). A call waits for all ranks, on the
/// host.
///
/// ```
/// use rocm_ops::group::{Group, Reduction};
/// use rocm_ops::prelude::*;
/// use rocm_ops::HostGroup;
///
/// let ranks = HostGroup::of(vec![Cpu::new(); 3])?;
/// std::thread::scope(|scope| {
///     for rank in ranks {
///         scope.spawn(move || -> Result<()> {
///             let b = rank.backend();
///             let x = b.tensor([2], &[rank.rank() as f32, 1.0])?;
///             assert_eq!(rank.all_reduce(&x, Reduction::Sum)?.to_vec(b)?, [3.0, 3.0]);
///             assert_eq!(rank.all_gather(&x)?.to_vec(b)?, [0.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
///             Ok(())
///         });
///     }
/// });
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct HostGroup<B> {
    backend: B,
    seat: Seat<Brought>,
}

impl<B: Backend> HostGroup<B> {
    /// A rank for each backend, in this order. Give each to its own thread.
    ///
    /// # Errors
    /// [`Error::Param`] for no backends.
    pub fn of(backends: Vec<B>) -> Result<Vec<Self>> {
        Self::with_limit(backends, DEFAULT_LIMIT)
    }
    /// The same, with a time limit for each call instead of [`DEFAULT_LIMIT`].
    ///
    /// # Errors
    /// [`Error::Param`] for no backends.
    pub fn with_limit(backends: Vec<B>, limit: Duration) -> Result<Vec<Self>> {
        let seats = Seat::of(backends.len(), limit)?;
        Ok(backends.into_iter().zip(seats).map(|(backend, seat)| HostGroup { backend, seat }).collect())
    }

    /// Copies elements to the host. If that fails, the other ranks learn of it.
    fn bring(&self, op: Collective, from: AnyRef<'_, B::Space>, elements: Range<usize>) -> Result<Brought> {
        let size = from.dtype().size();
        let start = (from.layout().offset() + elements.start) * size;
        let read = match elements.is_empty() {
            true => Ok(Vec::new()),
            false => self.backend.read_vec::<u8>(from.bytes(), start, elements.len() * size),
        };
        let told = |error: &Error| _ = self.seat.fail(op, format!("could not read its elements: {error}"));
        read.map(Arc::new).inspect_err(told)
    }

    /// Copies bytes to the elements from `at` on.
    fn store(&self, op: Collective, y: &mut AnyMut<'_, B::Space>, at: usize, bytes: &[u8]) -> Result<()> {
        let start = (y.layout().offset() + at) * y.dtype().size();
        if bytes.is_empty() {
            return Ok(());
        }
        let told = |error: &Error| _ = self.seat.fail(op, format!("could not write its elements: {error}"));
        self.backend.write(bytes, y.bytes_mut(), start).inspect_err(told)
    }

    fn all_reduce(&self, call: Announced, f: Reduction, mine: Brought) -> Result<Vec<Brought>> {
        let (bytes, ranks) = (mine.len(), self.seat.size());
        let all = self.seat.meet(call, mine)?;
        if bytes < IN_PARTS {
            return Ok(vec![Arc::new(reduce::reduce(f, call.dtype, &all, 0..call.count))]);
        }
        // The quotient and the remainder apart: a product of count and rank could overflow.
        let (each, more) = (call.count / ranks, call.count % ranks);
        let start = |rank: usize| rank * each + rank.min(more);
        let own = start(self.seat.rank())..start(self.seat.rank() + 1);
        self.seat.meet(call, Arc::new(reduce::reduce(f, call.dtype, &all, own)))
    }
}

impl<B: Backend> Group for HostGroup<B> {
    type Backend = B;

    fn backend(&self) -> &B {
        &self.backend
    }
    fn rank(&self) -> usize {
        self.seat.rank()
    }
    fn size(&self) -> usize {
        self.seat.size()
    }
    fn determinism(&self, _: Collective, _: DType) -> Determinism {
        Determinism::Exact
    }

    fn execute(&self, call: GroupCall<'_, '_, SpaceOf<Self>>) -> Result<()> {
        let announced = call.announced();
        let Announced { op, dtype, count } = announced;
        let (x, mut y) = call.into_operands();
        let (rank, size) = (self.rank(), self.size());
        let bring = |elements| match (&x, &y) {
            (Some(x), _) => self.bring(op, x.shorten(), elements),
            (None, Some(y)) => self.bring(op, y.as_ref(), elements),
            (None, None) => unreachable!("a checked call has operands"),
        };
        let everything = |all: Vec<Brought>| all.into_iter().map(whole).collect();
        // What goes to `y`, one after the other, and the element of `y` where it begins.
        let (mut at, parts): (usize, Vec<Part>) = match op {
            Collective::Send { to } => return self.seat.send(announced, to, bring(0..count)?),
            Collective::Recv { from } => (0, vec![whole(self.seat.recv(announced, from)?)]),
            Collective::Broadcast { root } => {
                let mine = bring(if rank == root { 0..count } else { 0..0 })?;
                let mut all = self.seat.meet(announced, mine)?;
                if rank == root {
                    return Ok(());
                }
                (0, vec![whole(all.swap_remove(root))])
            }
            Collective::AllReduce(f) => (0, everything(self.all_reduce(announced, f, bring(0..count)?)?)),
            Collective::AllGather => {
                let first = if x.is_some() { 0 } else { rank * count };
                (0, everything(self.seat.meet(announced, bring(first..first + count)?)?))
            }
            Collective::ReduceScatter(f) => {
                let own = rank * count..(rank + 1) * count;
                let at = if x.is_some() { 0 } else { own.start };
                let all = self.seat.meet(announced, bring(0..size * count)?)?;
                (at, vec![whole(Arc::new(reduce::reduce(f, dtype, &all, own)))])
            }
            Collective::AllToAll => {
                let all = self.seat.meet(announced, bring(0..size * count)?)?;
                let own = rank * count * dtype.size()..(rank + 1) * count * dtype.size();
                (0, all.into_iter().map(|from| (from, own.clone())).collect())
            }
        };
        let Some(y) = &mut y else { unreachable!("only Send has no output") };
        for (brought, bytes) in parts {
            let elements = bytes.len() / dtype.size();
            self.store(op, y, at, &brought[bytes])?;
            at += elements;
        }
        Ok(())
    }
}
