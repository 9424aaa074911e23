//! Collectives by this project's kernels, over memory that all devices of a group reach.
use super::operands::Operands;
use crate::hip::{Device, SharedMemory};
use crate::providers::hip::bind::dtype_of;
use crate::{Result, Rocm};
use ops_core::DType;
use ops_core::group::{Announced, Collective, Reduction};
use ops_core::ops::registry;
use ops_kernels::ElementType;
use ops_kernels::group::{
    DISAGREES, GroupArgs, GroupRecord, GroupState, GroupStatus, LEFT, RANKS, area_bytes, prepare,
};
use std::mem::{ManuallyDrop, offset_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub(super) use ops_kernels::group::SLOT;

/// The state of a complete record.
const COMPLETE: u32 = 2;

/// How the ranks' kernels reach each other's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// They write to the memory of the other devices.
    Direct,
    /// They write to pinned memory of the host, for this reason.
    Host(String),
}

/// The memory of a group whose ranks are on devices of this process.
#[derive(Debug)]
pub(super) struct Peers {
    devices: Vec<Device>,
    transport: Transport,
    /// By rank. Not freed if the devices cannot be waited for.
    memory: ManuallyDrop<Memory>,
    limit: Duration,
    /// The limit in ticks of each device's clock.
    ticks: Vec<u64>,
}

#[derive(Debug)]
struct Memory {
    areas: Vec<SharedMemory>,
    states: Vec<SharedMemory>,
    status: SharedMemory,
}

/// Why kernels of a group could not go on.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) rank: usize,
    pub(super) op: Collective,
    pub(super) why: String,
}

impl Peers {
    /// Whether these kernels support a group of this size.
    pub(super) fn fit(ranks: usize) -> bool {
        (1..=RANKS).contains(&ranks)
    }

    pub(super) fn new(devices: &[Device], transport: Transport, limit: Duration) -> Result<Arc<Self>> {
        let bytes = area_bytes(devices.len());
        let area = |device: &Device| match transport {
            Transport::Direct => SharedMemory::uncached(device, bytes),
            Transport::Host(_) => SharedMemory::host(device, bytes),
        };
        let ticks = |device: &Device| -> Result<u64> {
            Ok(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).saturating_mul(device.clock_rate()?))
        };
        let state = |device| SharedMemory::plain(device, size_of::<GroupState>());
        let Some(first) = devices.first() else { unreachable!("a group has ranks") };
        let memory = Memory {
            areas: devices.iter().map(area).collect::<Result<_, _>>()?,
            states: devices.iter().map(state).collect::<Result<_, _>>()?,
            status: SharedMemory::host(first, size_of::<GroupStatus>())?,
        };
        Ok(Arc::new(Peers {
            devices: devices.to_vec(),
            memory: ManuallyDrop::new(memory),
            limit,
            ticks: devices.iter().map(ticks).collect::<Result<_>>()?,
            transport,
        }))
    }

    pub(super) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Enqueues or records a rank's part of an `AllReduce` or `AllGather`, in pieces of at most [`SLOT`] bytes.
    pub(super) fn call(
        self: &Arc<Self>,
        (queue, rank): (&Rocm, usize),
        call: Announced,
        operands: &Operands<'_, '_>,
    ) -> Result<()> {
        let Announced { op, dtype, count } = call;
        let (stream, size) = (queue.stream(), dtype.size());
        let (from, to) = (operands.input(stream)?, operands.output(stream)?);
        let own = if operands.x.is_none() && op == Collective::AllGather { rank * count } else { 0 };
        let most = SLOT / size;
        for first in (0..count).step_by(most) {
            let piece = Announced { count: most.min(count - first), ..call };
            let (x, y) = (from.at((own + first) * size), to.at(first * size));
            // SAFETY: a checked call's operands have these elements, and the areas give access to them.
            unsafe { self.enqueue((queue, rank), piece, (x, y), count) }?;
        }
        Ok(())
    }

    /// Enqueues or records a rank's part of an `AllReduce` or `AllGather` of at most [`SLOT`] bytes. `pitch` is the distance of the
    /// ranks' parts in the result of an `AllGather`, in elements.
    ///
    /// # Safety
    /// Work enqueued on the stream before this returns may read the elements of `x` and write those of `y`.
    unsafe fn enqueue(
        self: &Arc<Self>,
        (queue, rank): (&Rocm, usize),
        call: Announced,
        (x, y): (usize, usize),
        pitch: usize,
    ) -> Result<()> {
        let Announced { op, dtype, count } = call;
        let (variant, unit) = match op {
            Collective::AllReduce(f) => (f.name(), dtype_of(dtype)),
            _ => {
                // The widest type to which everything is aligned.
                let all = (count * dtype.size()) | (pitch * dtype.size()) | x | y;
                ("", ElementType::BITS.into_iter().rfind(|unit| all.is_multiple_of(unit.bytes())))
            }
        };
        let Some(unit) = unit else { unreachable!("only numbers are reduced") };
        let in_units = |elements: usize| (elements * dtype.size() / unit.bytes()) as u64;
        let Memory { areas, states, status } = &*self.memory;
        let mut area = [0; RANKS];
        area.iter_mut().zip(areas).for_each(|(to, from)| *to = from.address() as u64);
        let args = GroupArgs {
            x: x as u64,
            y: y as u64,
            state: states[rank].address() as u64,
            status: status.address() as u64,
            area,
            count: in_units(count),
            pitch: in_units(pitch),
            rank: rank as u64,
            ranks: areas.len() as u64,
            call: u64::from(sign(call)),
            limit: self.ticks[rank],
        };
        queue.stream().keep_in_recording(self.clone());
        // SAFETY: the areas have the size for this number of ranks, which the group's devices reach, and live as long as this and
        // recordings of it; the rest is guaranteed by the caller.
        unsafe { queue.kernels().run_one(queue.stream(), op.name(), prepare(op.name(), variant, unit, args)) }
    }

    /// A word of the status.
    fn word(&self, offset: usize) -> &AtomicU32 {
        let address = self.memory.status.address() + offset;
        // SAFETY: the words of the status are aligned, were initialised, live as long as this, and are only used atomically or, in a
        // record, before its state says so.
        unsafe { AtomicU32::from_ptr(address as *mut u32) }
    }

    /// Ends the waits of all kernels.
    pub(super) fn end(&self) {
        self.word(offset_of!(GroupStatus, over)).store(1, Ordering::Release);
    }

    /// Notes that a rank does nothing any more. Its kernels have ended.
    pub(super) fn leave(&self, rank: usize) {
        self.word(offset_of!(GroupStatus, left) + 4 * rank).store(1, Ordering::Release);
    }

    /// Why a kernel could not go on, if one could not.
    pub(super) fn failure(&self) -> Option<Failure> {
        if self.word(offset_of!(GroupStatus, over)).load(Ordering::Acquire) == 0 {
            return None;
        }
        (0..self.devices.len()).find_map(|rank| {
            let start = offset_of!(GroupStatus, record) + rank * size_of::<GroupRecord>();
            let complete = self.word(start).load(Ordering::Acquire) == COMPLETE;
            let at = (self.memory.status.address() + start) as *const GroupRecord;
            // SAFETY: the record is complete, and no kernel writes it again.
            complete.then(|| self.explain(rank, unsafe { at.read_volatile() }))
        })
    }

    fn explain(&self, rank: usize, record: GroupRecord) -> Failure {
        let (peer, own) = (record.peer as usize, read(record.own as u32));
        let named = |call: Option<Announced>| call.map_or("another op".to_owned(), |call| call.to_string());
        let (rank, why) = match record.cause {
            DISAGREES => {
                let (own, other) = (named(own), named(read(record.other as u32)));
                (
                    rank,
                    format!(
                        "called {own} while rank {peer} called {other} in a recorded step; record and replay the same calls in the same order on all ranks"
                    ),
                )
            }
            LEFT => (
                peer,
                "left the group while others waited for it; look for its own error or panic".to_owned(),
            ),
            _ => (
                peer,
                format!(
                    "did not join {} within {:?} while the device of rank {rank} waited; find what it waits for, or set a longer limit",
                    named(own),
                    self.limit
                ),
            ),
        };
        Failure { rank, op: own.map_or(Collective::AllGather, |call| call.op), why }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        let waited: Result<(), _> = self.devices.iter().try_for_each(Device::finish);
        match waited {
            // SAFETY: dropped once, here.
            Ok(()) => unsafe { ManuallyDrop::drop(&mut self.memory) },
            // Kernels may still use it.
            Err(error) => tracing::warn!("the memory of a group of devices is not freed: {error}"),
        }
    }
}

/// Bits of a signature for the number of elements, and for the type.
const COUNT_BITS: u32 = 20;
const TYPE_BITS: u32 = 8;

/// What ranks compare: the call as a number. Not 0, since a call has elements.
fn sign(call: Announced) -> u32 {
    let types = registry::Group::Elements.members();
    let dtype = types.iter().position(|dtype| *dtype == call.dtype).unwrap_or(types.len()) as u32;
    let op = match call.op {
        Collective::AllReduce(Reduction::Sum) => 0,
        Collective::AllReduce(Reduction::Max) => 1,
        _ => 2,
    };
    call.count as u32 | dtype << COUNT_BITS | op << (COUNT_BITS + TYPE_BITS)
}

/// The call of a signature.
fn read(signature: u32) -> Option<Announced> {
    let dtype: DType = *registry::Group::Elements
        .members()
        .get((signature >> COUNT_BITS & ((1 << TYPE_BITS) - 1)) as usize)?;
    let op = match signature >> (COUNT_BITS + TYPE_BITS) {
        0 => Collective::AllReduce(Reduction::Sum),
        1 => Collective::AllReduce(Reduction::Max),
        2 => Collective::AllGather,
        _ => return None,
    };
    Some(Announced { op, dtype, count: (signature & ((1 << COUNT_BITS) - 1)) as usize })
}

/// Every two devices.
pub(super) fn pairs(devices: &[Device]) -> Vec<(&Device, &Device)> {
    let with_later = |(at, device)| devices[at + 1..].iter().map(move |peer| (device, peer));
    devices.iter().enumerate().flat_map(with_later).collect()
}

/// Lets the kernels of each of two devices use the other's memory.
pub(super) fn enable(pairs: &[(&Device, &Device)]) -> Result<()> {
    pairs.iter().try_for_each(|(a, b)| Ok(a.enable_peer(b).and_then(|()| b.enable_peer(a))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_read_as_it_was_written() {
        for &dtype in registry::Group::Elements.members() {
            for op in [Reduction::Sum, Reduction::Max]
                .map(Collective::AllReduce)
                .into_iter()
                .chain([Collective::AllGather])
            {
                for count in [1, 5, SLOT] {
                    let call = Announced { op, dtype, count };
                    assert_eq!(read(sign(call)), Some(call));
                    assert_ne!(sign(call), 0);
                }
            }
        }
        assert_eq!(read(u32::MAX), None);
    }
}
