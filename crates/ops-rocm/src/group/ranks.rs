//! What the ranks of a group share.
use super::comm::Comm;
use super::peers::{Failure, Peers};
use super::transport::{transport, wants_own};
use super::watch::{Fault, Next, PERIOD, Watch};
use crate::error::failed;
use crate::hip::{Device, Event};
use crate::rocm::AskedAtWaits;
use crate::sync::Mutex;
use crate::{Error, Result, Rocm};
use hip_sys::Search;
use ops_core::Determinism;
use ops_core::group::{Announced, Collective, Seat};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// Advice for cards that do not reach each other.
const LINKS: &str = "NCCL_DEBUG=INFO says how RCCL connects the cards; NCCL_P2P_DISABLE=1 avoids direct access; HostGroup needs no RCCL";

/// What the ranks share.
#[derive(Debug)]
pub(super) struct Ranks {
    seats: Vec<Seat<()>>,
    comms: Vec<Comm>,
    queues: Vec<Rocm>,
    watch: Watch,
    /// What this project's kernels use, unless the group is too large.
    peers: Option<Arc<Peers>>,
    /// Whether a policy says that they make `all_reduce` and `all_gather`.
    wants_own: [Option<bool>; 2],
    /// Whether floats are added in rank order. All ranks must do the same.
    adds_in_order: bool,
    /// Whether the communicators must be aborted.
    is_lost: AtomicBool,
    /// The thread that watches.
    watcher: Mutex<Option<JoinHandle<()>>>,
}

impl Ranks {
    pub(super) fn new(queues: &[Rocm], limit: Duration) -> Result<Arc<Self>> {
        let seats = Seat::of(queues.len(), limit)?;
        let devices: Vec<Device> = queues.iter().map(|queue| queue.device().clone()).collect();
        let ordinal = |device: &Device| device.info().ordinal;
        for (rank, device) in devices.iter().enumerate() {
            if devices[..rank].iter().any(|other| ordinal(other) == ordinal(device)) {
                let got = format!("{} twice", ordinal(device));
                return Err(Error::param(
                    "group",
                    "device",
                    got,
                    "another device for each rank; HostGroup takes any",
                ));
            }
        }
        let wants_own = ["all_reduce", "all_gather"].map(|name| wants_own(queues, name));
        let peers = match Peers::fit(devices.len()) {
            true => Some(Peers::new(&devices, transport(&devices, limit)?, limit)?),
            false => None,
        };
        let comms = open_within(limit, devices)?;
        let watch = Watch::new(queues.len(), limit);
        let adds_in_order = queues.iter().any(|queue| queue.policy().least() > Determinism::Run);
        let (is_lost, watcher) = (AtomicBool::new(false), Mutex::default());
        let queues = queues.to_vec();
        let ranks = Ranks { seats, comms, queues, watch, peers, wants_own, adds_in_order, is_lost, watcher };
        let ranks = Arc::new(ranks);
        for queue in &ranks.queues {
            let watched: Weak<Self> = Arc::downgrade(&ranks);
            queue.ask_at_waits(watched);
        }
        let watched = ranks.clone();
        let watcher = std::thread::Builder::new().name("rocm-ops group".into());
        let watcher =
            watcher.spawn(move || watched.run()).map_err(|error| failed("starting a thread", error))?;
        *ranks.watcher.lock() = Some(watcher);
        Ok(ranks)
    }

    pub(super) fn size(&self) -> usize {
        self.seats.len()
    }
    pub(super) fn adds_in_order(&self) -> bool {
        self.adds_in_order
    }
    pub(super) fn seat(&self, rank: usize) -> &Seat<()> {
        &self.seats[rank]
    }
    pub(super) fn comm(&self, rank: usize) -> &Comm {
        &self.comms[rank]
    }

    pub(super) fn peers(&self) -> Option<&Arc<Peers>> {
        self.peers.as_ref()
    }
    /// Whether a policy says that this project's kernels make a call, or that RCCL does.
    pub(super) fn wants_own(&self, op: Collective) -> Option<bool> {
        match op {
            Collective::AllReduce(_) => self.wants_own[0],
            Collective::AllGather => self.wants_own[1],
            _ => None,
        }
    }

    /// Watches what a rank has enqueued up to the event.
    pub(super) fn watch(&self, rank: usize, call: Announced, event: Event) {
        self.watch.add(rank, call, event);
        self.wake_watcher();
    }

    /// Ends the group because of what happened on a device: waits on all ranks return the error from now on, and then the
    /// communicators are aborted, so that these waits end. Returns the error.
    pub(super) fn end(&self, rank: usize, op: Collective, why: String) -> Error {
        let error = self.seats[rank].fail(op, why);
        self.queues.iter().for_each(|queue| queue.lose(&error));
        self.is_lost.store(true, Ordering::Release);
        self.peers.iter().for_each(|peers| peers.end());
        self.abort();
        self.watch.forget();
        self.wake_watcher();
        error
    }

    /// Aborts all communicators if the group is lost. Returns `false` if another thread is still using one: call this again later.
    fn abort(&self) -> bool {
        // `fold`, not `all`: a communicator in use must not keep those after it from being aborted.
        !self.is_lost.load(Ordering::Acquire) || self.comms.iter().fold(true, |all, comm| comm.abort() & all)
    }

    /// Called by the thread that watches.
    fn run(&self) {
        loop {
            let aborted = self.abort();
            match self.watch.look(|rank| self.comms[rank].async_error()) {
                Ok(next) => match next {
                    Next::Park if aborted => std::thread::park(),
                    Next::Park => std::thread::park_timeout(PERIOD),
                    Next::Look => std::thread::park_timeout(PERIOD),
                    Next::End => return,
                },
                Err(Fault { rank, op, why }) => _ = self.end(rank, op, format!("{why}; {LINKS}")),
            }
        }
    }

    fn wake_watcher(&self) {
        if let Some(watcher) = &*self.watcher.lock() {
            watcher.thread().unpark();
        }
    }

    /// Waits for the kernels of a rank, and then tells those of others that it has left.
    fn leave_peers(&self, rank: usize) {
        let Some(peers) = &self.peers else { return };
        let waited = self.queues[rank].stream().record().and_then(|event| event.synchronize());
        if let Err(error) = waited {
            tracing::warn!("rank {rank} left its group before its work was done: {error}");
        }
        peers.leave(rank);
    }

    /// A rank's handle is dropped. Waits for what it has enqueued, which ends within the limit.
    pub(super) fn leave(&self, rank: usize) {
        self.seats[rank].leave();
        self.wake_watcher();
        self.watch.wait_for(rank);
        self.leave_peers(rank);
        self.comms[rank].close();
        if self.watch.leave() {
            let watcher = self.watcher.lock().take();
            if let Some(watcher) = watcher {
                watcher.thread().unpark();
                // A panic there was reported on standard error, and nothing depends on it.
                let _ = watcher.join();
            }
        }
    }
}

impl AskedAtWaits for Ranks {
    fn fault(&self) -> Option<Error> {
        let Failure { rank, op, why } = self.peers.as_ref()?.failure()?;
        Some(self.end(rank, op, why))
    }
}

/// Opens RCCL and makes the communicators on another thread, since RCCL waits without a limit for cards that it cannot connect.
fn open_within(limit: Duration, devices: Vec<Device>) -> Result<Vec<Comm>> {
    let Some(first) = devices.first() else { return Ok(Vec::new()) };
    let lib = rccl_sys::load_from(first.hip().lib(), &Search::standard());
    let lib = lib.map_err(|error| failed("opening RCCL", format!("{error}; HostGroup needs no RCCL")))?;
    let (sender, receiver) = channel();
    let open = move || _ = sender.send(Comm::open(&lib, &devices));
    let opener = std::thread::Builder::new().name("rocm-ops RCCL".into());
    let opener = opener.spawn(open).map_err(|error| failed("starting a thread", error))?;
    let opened = receiver.recv_timeout(limit);
    if !matches!(opened, Err(RecvTimeoutError::Timeout)) {
        // It has ended, or is dropping its devices: wait, so that they do not outlive the caller's. A panic is reported below.
        let _ = opener.join();
    }
    opened.map_err(|error| {
        let why = match error {
            RecvTimeoutError::Timeout => format!("it did not return within {limit:?}; {LINKS}"),
            RecvTimeoutError::Disconnected => "its thread panicked".to_owned(),
        };
        failed("ncclCommInitAll", why)
    })?
}
