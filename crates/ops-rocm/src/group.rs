//! Collectives between the devices of this process, through RCCL or, for small messages and recorded steps, through this project's kernels.
//!
//! The ranks agree on every call on the host before any of them enqueues it ([`Seat`](ops_core::group::Seat)): RCCL itself would hang, or read and write outside
//! of buffers, if they did not. Then each enqueues it on its stream. A watcher thread checks the enqueued collectives. If one does not
//! finish within the limit, or RCCL reports an error, the watcher aborts the communicators, so that waiting threads wake up and return the
//! error. It cannot interrupt a thread that is inside an RCCL call: that thread stays there until RCCL returns.
use crate::error::failed;
use crate::hip::{DeviceMemory, Purpose};
use crate::{Error, Result, Rocm};
use comm::Comm;
use operands::{Area, Operands};
use ops_core::group::{Announced, Collective, DEFAULT_LIMIT, Group, GroupCall, Reduction, SpaceOf};
use ops_core::{AnyTensor, Backend, DType, Determinism, Layout};
pub use peers::Transport;
pub use probe::{PeerAccess, known_peer_access, test_peer_access};
use ranks::Ranks;
use rccl_sys::{self as sys, ncclDataType_t, ncclRedOp_t};
use std::sync::Arc;
use std::time::Duration;

mod comm;
mod operands;
mod peers;
mod probe;
mod ranks;
mod reduce;
mod transport;
mod watch;

/// One rank of a group of devices in this process. Data goes through RCCL, in queue order, from device to device.
///
/// `all_reduce` and `all_gather` of up to 256 KiB per rank, and all that are recorded ([`Replay`](ops_core::Replay)), are made by kernels of this project if the
/// group has up to eight ranks; their sums are in rank order ([`Determinism::Exact`]). A policy with an order for `all_reduce` or `all_gather`
/// chooses between `hip` and `rccl` for all sizes.
///
/// A call waits on the host until all ranks have made it, and then enqueues it. Other sums of floats are RCCL's: their order depends on size and
/// topology ([`Determinism::Run`]), and 16-bit sums are rounded at every step. If a queue of the group was built with
/// [`determinism`](crate::RocmBuilder::determinism) of at least `Batch`, they are gathered and added in rank order by kernels of this
/// project ([`Determinism::Exact`]); an all-reduce then moves up to `n` times the tensor to each of the `n` ranks. Maxima of floats, in which
/// RCCL ignores NaN, and reductions of i16, which it does not have, are always computed in this way.
///
/// ```no_run
/// use rocm_ops::group::{Group, Reduction};
/// use rocm_ops::prelude::*;
/// use rocm_ops::rocm::{Rocm, RocmGroup};
///
/// let queues = [0, 1].into_iter().map(|ordinal| Rocm::builder().ordinal(ordinal).build());
/// let ranks = RocmGroup::of(queues.collect::<Result<Vec<_>>>()?)?;
/// std::thread::scope(|scope| {
///     for rank in ranks {
///         scope.spawn(move || -> Result<()> {
///             let mut x = rank.backend().tensor([2], &[rank.rank() as f32, 1.0])?;
///             rank.all_reduce_inplace(&mut x, Reduction::Sum)?;
///             println!("{}: {:?}", rank.rank(), x.to_vec(rank.backend())?);
///             Ok(())
///         });
///     }
/// });
/// # Ok::<(), rocm_ops::Error>(())
/// ```
#[derive(Debug)]
pub struct RocmGroup {
    queue: Rocm,
    rank: usize,
    ranks: Arc<Ranks>,
}

impl RocmGroup {
    /// A rank for each queue, in this order. Their devices must differ. Give each rank to its own thread.
    ///
    /// Every rank then gathers a pattern from all others, so that cards that cannot reach each other are found here.
    ///
    /// # Errors
    /// [`Error::Param`] for no queues or two on one device; RCCL is missing, or it or the check fails or takes longer than the limit.
    pub fn of(queues: Vec<Rocm>) -> Result<Vec<Self>> {
        Self::with_limit(queues, DEFAULT_LIMIT)
    }

    /// How small messages reach other ranks; `None` if the group is too large for this project's kernels, so that RCCL moves all.
    pub fn transport(&self) -> Option<&Transport> {
        self.ranks.peers().map(|peers| peers.transport())
    }

    /// The same, with a time limit for each call instead of [`DEFAULT_LIMIT`]. It counts once for the wait for the other ranks, and once from
    /// when the device has done what was enqueued before.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn with_limit(queues: Vec<Rocm>, limit: Duration) -> Result<Vec<Self>> {
        let ranks = Ranks::new(&queues, limit)?;
        let group = |(rank, queue)| RocmGroup { queue, rank, ranks: ranks.clone() };
        let group: Vec<Self> = queues.into_iter().enumerate().map(group).collect();
        std::thread::scope(|scope| {
            let threads: Vec<_> = group.iter().map(|rank| scope.spawn(|| rank.check_links())).collect();
            let results = threads.into_iter().map(|thread| thread.join());
            // The first error of RCCL is the same on all ranks.
            let panicked = |_| Err(failed("checking the links of a group", "a thread panicked"));
            results.into_iter().try_for_each(|result| result.unwrap_or_else(panicked))
        })?;
        Ok(group)
    }

    /// Gathers and reads back a pattern, in each way that there is.
    fn check_links(&self) -> Result<()> {
        self.check_link(false)?;
        if self.ranks.peers().is_some() { self.check_link(true) } else { Ok(()) }
    }

    fn check_link(&self, own: bool) -> Result<()> {
        const WORDS: usize = 1 << 10;
        let pattern = |rank: usize| (0..WORDS as u32).map(move |i| i.wrapping_mul(0x9E37_79B9) ^ rank as u32);
        let x: Vec<u32> = pattern(self.rank).collect();
        let x = self.queue.tensor([WORDS], &x)?;
        let mut y = self.queue.zeros::<u32>([self.size() * WORDS])?;
        let call = Announced { op: Collective::AllGather, dtype: DType::U32, count: WORDS };
        let (from, to) = (x.as_ref().any(), y.as_mut().any());
        self.make(call, &mut Operands { x: Some(from), y: Some(to) }, own)?;
        let got = y.to_vec(&self.queue)?;
        let wrong =
            got.chunks(WORDS).enumerate().find(|(from, words)| pattern(*from).ne(words.iter().copied()));
        match wrong {
            None => Ok(()),
            Some((from, _)) => {
                let way = if own {
                    "through the memory of the devices; set OPS_ROCM_PEERS=host"
                } else {
                    "although RCCL reports no error; set NCCL_P2P_DISABLE=1"
                };
                let why = format!("received other bytes than rank {from} sent, {way}, or use HostGroup");
                Err(self.ranks.end(self.rank, Collective::AllGather, why))
            }
        }
    }

    /// Whether this project's kernels make a call.
    fn is_own(&self, call: Announced) -> bool {
        let Announced { op, dtype, count } = call;
        let small = count * dtype.size() <= peers::SLOT;
        self.ranks.peers().is_some()
            && matches!(op, Collective::AllReduce(_) | Collective::AllGather)
            && (self.ranks.wants_own(op).unwrap_or(small) || self.queue.stream().is_recorded())
    }

    /// How RCCL makes a reduction of elements of this type.
    fn path(&self, f: Reduction, dtype: DType) -> Path {
        let in_order = f == Reduction::Sum && self.ranks.adds_in_order();
        match (f, data_type(dtype)) {
            (_, Some(_)) if dtype.is_float() && (in_order || f == Reduction::Max) => Path::Gathered,
            (Reduction::Sum, Some(dtype)) => Path::Rccl(dtype, sys::ncclSum),
            (Reduction::Max, Some(dtype)) => Path::Rccl(dtype, sys::ncclMax),
            (_, None) => Path::Gathered,
        }
    }

    fn comm(&self) -> &Comm {
        self.ranks.comm(self.rank)
    }

    /// Waits until all ranks have made the call.
    fn agree(&self, call: Announced) -> Result<()> {
        let seat = self.ranks.seat(self.rank);
        match call.op {
            Collective::Send { to } => seat.send(call, to, ()),
            Collective::Recv { from } => seat.recv(call, from),
            _ => seat.meet(call, ()).map(drop),
        }
    }

    /// Takes part in a call, by this project's kernels or by RCCL.
    fn make(&self, call: Announced, operands: &mut Operands<'_, '_>, own: bool) -> Result<()> {
        self.agree(call)?;
        if call.count == 0 {
            return Ok(());
        }
        // The others have enqueued the call, or are about to: a failure from here on ends the group.
        let end = |error: Error| match error {
            Error::Group { .. } => error,
            error => self.ranks.end(self.rank, call.op, format!("failed: {error}")),
        };
        if own && let Some(peers) = self.ranks.peers() {
            // Its kernels watch the time themselves, and waits ask them.
            return peers.call((&self.queue, self.rank), call, operands).map_err(end);
        }
        self.enqueue(call, operands).map_err(end)?;
        let event = self.queue.stream().record().map_err(|error| end(error.into()))?;
        self.ranks.watch(self.rank, call, event);
        Ok(())
    }

    /// Enqueues a call that all ranks have agreed on, by RCCL.
    fn enqueue(&self, call: Announced, operands: &mut Operands<'_, '_>) -> Result<()> {
        let Announced { op, dtype, count } = call;
        let (stream, bytes) = (self.queue.stream(), count * dtype.size());
        let (own, size) = (self.rank * bytes, self.ranks.size());
        let in_place = operands.x.is_none();
        match op {
            Collective::AllReduce(f) | Collective::ReduceScatter(f) => match self.path(f, dtype) {
                Path::Gathered => self.reduce_gathered(call, f, operands)?,
                Path::Rccl(data_type, reduction) => {
                    let scatters = op != Collective::AllReduce(f);
                    let at = if scatters && in_place { own } else { 0 };
                    let (from, to) = (operands.input(stream)?, operands.output(stream)?);
                    let (from, to) = (from.at(0), to.at(at));
                    self.comm().reduce(stream, scatters, from, to, (count, data_type, reduction))?;
                }
            },
            Collective::AllGather => {
                let (from, to) = (operands.input(stream)?, operands.output(stream)?);
                let from = from.at(if in_place { own } else { 0 });
                self.comm().all_gather(stream, from, to.at(0), bytes)?;
            }
            Collective::Broadcast { root } => {
                let to = operands.output(stream)?;
                self.comm().broadcast(stream, to.at(0), bytes, root)?;
            }
            Collective::Send { to } => {
                let from = operands.input(stream)?;
                self.comm().send(stream, from.at(0), bytes, to)?;
            }
            Collective::Recv { from } => {
                let to = operands.output(stream)?;
                self.comm().recv(stream, to.at(0), bytes, from)?;
            }
            Collective::AllToAll => {
                // RCCL would overwrite parts that other ranks still have to read.
                let copy = if in_place { Some(operands.copy(stream, size * bytes)?) } else { None };
                let from = match &copy {
                    Some(copy) => Area { access: copy.access(stream, Purpose::Read)?, start: 0 },
                    None => operands.input(stream)?,
                };
                let to = operands.output(stream)?;
                self.comm().all_to_all(stream, from.at(0), to.at(0), bytes, size)?;
            }
        }
        Ok(())
    }

    /// Collects what all ranks have, and reduces it in rank order.
    fn reduce_gathered(&self, call: Announced, f: Reduction, operands: &mut Operands<'_, '_>) -> Result<()> {
        let Announced { op, dtype, count } = call;
        let (stream, size, bytes) = (self.queue.stream(), self.ranks.size(), count * dtype.size());
        let memory = DeviceMemory::new(stream, size * bytes)?;
        {
            let to = Area { access: memory.access(stream, Purpose::Write)?, start: 0 };
            let from = operands.input(stream)?;
            match op {
                Collective::AllReduce(_) => self.comm().all_gather(stream, from.at(0), to.at(0), bytes)?,
                _ => self.comm().all_to_all(stream, from.at(0), to.at(0), bytes, size)?,
            }
        }
        let all = AnyTensor::new(crate::HipBuffer::new(memory), dtype, Layout::contiguous([size, count])?)?;
        let at = if operands.x.is_none() && op != Collective::AllReduce(f) { self.rank * count } else { 0 };
        let Some(y) = &mut operands.y else { unreachable!("a reduction has an output") };
        let y = y.reborrow();
        let len = y.layout().len();
        reduce::in_rank_order(&self.queue, f, all.as_ref(), y.reshape([len])?.narrow(0, at, count)?)
    }
}

impl Group for RocmGroup {
    type Backend = Rocm;

    fn backend(&self) -> &Rocm {
        &self.queue
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn size(&self) -> usize {
        self.ranks.size()
    }
    /// The lowest of all sizes.
    fn determinism(&self, op: Collective, dtype: DType) -> Determinism {
        if self.ranks.peers().is_some() && self.ranks.wants_own(op) == Some(true) {
            return Determinism::Exact;
        }
        match op.reduction().map(|f| self.path(f, dtype)) {
            Some(Path::Rccl(..)) if op.depends_on_order(dtype) => Determinism::Run,
            _ => Determinism::Exact,
        }
    }

    fn not_recorded(&self, call: Announced) -> Option<String> {
        (!self.is_own(call)).then(|| {
            let ranks = ops_kernels::group::RANKS;
            format!("RCCL makes it, whose work cannot be recorded; all_reduce and all_gather of up to {ranks} ranks can be")
        })
    }

    fn execute(&self, call: GroupCall<'_, '_, SpaceOf<Self>>) -> Result<()> {
        let announced = call.announced();
        let (x, y) = call.into_operands();
        self.make(announced, &mut Operands { x, y }, self.is_own(announced))
    }
}

impl Drop for RocmGroup {
    fn drop(&mut self) {
        self.ranks.leave(self.rank);
    }
}

/// How ranks reduce.
enum Path {
    /// By RCCL.
    Rccl(ncclDataType_t, ncclRedOp_t),
    /// By kernels of this project, from what all ranks have.
    Gathered,
}

/// RCCL's name for a number type; `None` for a type that it does not reduce.
fn data_type(dtype: DType) -> Option<ncclDataType_t> {
    Some(match dtype {
        DType::I8 => sys::ncclInt8,
        DType::U8 => sys::ncclUint8,
        DType::I32 => sys::ncclInt32,
        DType::U32 => sys::ncclUint32,
        DType::I64 => sys::ncclInt64,
        DType::F16 => sys::ncclFloat16,
        DType::BF16 => sys::ncclBfloat16,
        DType::F32 => sys::ncclFloat32,
        DType::F64 => sys::ncclFloat64,
        _ => return None,
    })
}
