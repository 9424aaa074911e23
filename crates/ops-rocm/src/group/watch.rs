//! Watches collectives on the devices: each must end within the limit.
use crate::hip::Event;
use crate::sync::Mutex;
use ops_core::group::{Announced, Collective};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often the devices are asked.
pub(super) const PERIOD: Duration = Duration::from_millis(2);

/// What is enqueued and not known to be done.
#[derive(Debug)]
pub(super) struct Watch {
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// By rank, in queue order.
    pending: Vec<VecDeque<Pending>>,
    /// Ranks that have not left.
    present: usize,
}

#[derive(Debug)]
struct Pending {
    call: Announced,
    /// After the call on its stream.
    event: Event,
    /// When it was enqueued, or what was before it was done.
    since: Instant,
}

/// What went wrong on a device.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) rank: usize,
    pub(super) op: Collective,
    pub(super) why: String,
}

/// What the watching thread does next.
#[derive(Debug)]
pub(super) enum Next {
    /// Sleep until it is woken.
    Park,
    /// Look again soon.
    Look,
    /// All ranks have left.
    End,
}

impl Watch {
    pub(super) fn new(ranks: usize, limit: Duration) -> Self {
        let pending = (0..ranks).map(|_| VecDeque::new()).collect();
        Watch { limit, state: Mutex::new(State { pending, present: ranks }) }
    }

    pub(super) fn add(&self, rank: usize, call: Announced, event: Event) {
        self.state.lock().pending[rank].push_back(Pending { call, event, since: Instant::now() });
    }

    /// Forgets everything: the communicators were aborted.
    pub(super) fn forget(&self) {
        self.state.lock().pending.iter_mut().for_each(VecDeque::clear);
    }

    /// Notes that a rank has left; returns whether it was the last.
    pub(super) fn leave(&self) -> bool {
        let mut state = self.state.lock();
        state.present -= 1;
        state.present == 0
    }

    /// Waits until nothing of a rank is pending. The watching thread ends what takes too long.
    pub(super) fn wait_for(&self, rank: usize) {
        while !self.state.lock().pending[rank].is_empty() {
            std::thread::sleep(PERIOD);
        }
    }

    /// Forgets what is done, and finds what takes too long or has failed.
    pub(super) fn look(&self, async_error: impl Fn(usize) -> Option<String>) -> Result<Next, Fault> {
        let mut state = self.state.lock();
        if state.present == 0 {
            return Ok(Next::End);
        }
        let mut idle = true;
        for (rank, pending) in state.pending.iter_mut().enumerate() {
            idle &=
                self.look_at(pending, || async_error(rank)).map_err(|(op, why)| Fault { rank, op, why })?;
        }
        Ok(if idle { Next::Park } else { Next::Look })
    }

    /// Whether nothing of a rank is pending.
    fn look_at(
        &self,
        pending: &mut VecDeque<Pending>,
        async_error: impl Fn() -> Option<String>,
    ) -> Result<bool, (Collective, String)> {
        while let Some(first) = pending.front() {
            let Announced { op, .. } = first.call;
            if let Some(error) = async_error() {
                return Err((op, format!("got an error from RCCL: {error}")));
            }
            if !first.event.is_reached().map_err(|error| (op, format!("failed: {error}")))? {
                if first.since.elapsed() > self.limit {
                    let (call, limit) = (first.call, self.limit);
                    return Err((op, format!("did not end {call} on its device within {limit:?}")));
                }
                return Ok(false);
            }
            pending.pop_front();
            if let Some(next) = pending.front_mut() {
                next.since = Instant::now();
            }
        }
        Ok(true)
    }
}
