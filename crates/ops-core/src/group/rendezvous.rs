//! Where the ranks of a group in one process meet: they agree on a call, exchange what each brings, and learn of each other's faults.
use super::collective::{Announced, Collective};
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a collective waits for the other ranks, unless the group says otherwise.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// One rank's place in a group whose ranks are threads of one process, for authors of groups.
///
/// A call either succeeds on all ranks or fails on all: the first failure ends the group, and every later call returns it. Dropping a seat
/// means that the rank has left. `P` is what ranks bring to a meeting.
#[derive(Debug)]
pub struct Seat<P> {
    table: Arc<Table<P>>,
    rank: usize,
    /// Held during a call, so that calls of one rank are made one after the other.
    turn: Mutex<()>,
}

#[derive(Debug)]
struct Table<P> {
    size: usize,
    limit: Duration,
    state: Mutex<State<P>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<P> {
    failure: Option<Error>,
    /// By rank.
    members: Vec<Member>,
    /// Meetings that not all ranks have left yet, by number.
    meetings: BTreeMap<u64, Meeting<P>>,
    /// What a rank sends and the receiver has not taken yet, by sender and receiver.
    letters: BTreeMap<(usize, usize), (Announced, P)>,
}

#[derive(Clone, Debug)]
struct Member {
    has_left: bool,
    /// The call in which the rank waits.
    waits_in: Option<Announced>,
    /// The number of its next meeting.
    next: u64,
}

#[derive(Debug)]
struct Meeting<P> {
    /// The first call, and whose it was.
    first: (usize, Announced),
    brought: Vec<Option<P>>,
    /// How many ranks have taken what was brought.
    left: usize,
}

impl<P: Clone> Seat<P> {
    /// The seats of a group, in rank order.
    ///
    /// # Errors
    /// [`Error::Param`] for no ranks.
    pub fn of(size: usize, limit: Duration) -> Result<Vec<Self>> {
        if size == 0 {
            return Err(Error::param("group", "ranks", 0, "one or more"));
        }
        let member = Member { has_left: false, waits_in: None, next: 0 };
        let state = State {
            failure: None,
            members: vec![member; size],
            meetings: BTreeMap::new(),
            letters: BTreeMap::new(),
        };
        let table = Arc::new(Table { size, limit, state: Mutex::new(state), changed: Condvar::new() });
        let seat = |rank| Seat { table: table.clone(), rank, turn: Mutex::new(()) };
        Ok((0..size).map(seat).collect())
    }
    /// This rank's number.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// The number of ranks.
    pub fn size(&self) -> usize {
        self.table.size
    }
    /// How long a call waits for the other ranks.
    pub fn limit(&self) -> Duration {
        self.table.limit
    }
    /// The failure that ended the group, if one did.
    pub fn failure(&self) -> Option<Error> {
        self.lock().failure.clone()
    }

    /// Waits until every rank has called this with the same call; returns what each brought, in rank order.
    ///
    /// # Errors
    /// [`Error::Group`], on every rank.
    pub fn meet(&self, call: Announced, brings: P) -> Result<Vec<P>> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (rank, size) = (self.rank, self.table.size);
        let mut state = self.enter(call)?;
        let number = state.members[rank].next;
        state.members[rank].next += 1;
        let empty = || Meeting { first: (rank, call), brought: vec![None; size], left: 0 };
        let meeting = state.meetings.entry(number).or_insert_with(empty);
        let (who, first) = meeting.first;
        if !first.matches(&call) {
            return Err(self.disagreement(&mut state, (rank, call), (who, first)));
        }
        meeting.brought[rank] = Some(brings);
        if meeting.brought.iter().all(Option::is_some) {
            // Those that have not woken up yet no longer wait for anyone.
            state.members.iter_mut().for_each(|member| member.waits_in = None);
        }
        let missing = |state: &State<P>| -> Vec<usize> {
            let brought = state.meetings.get(&number).map_or(&[][..], |meeting| &meeting.brought[..]);
            (0..brought.len()).filter(|rank| brought[*rank].is_none()).collect()
        };
        let mut state = self.wait(state, call, missing)?;
        let meeting = state.meetings.get_mut(&number);
        let all = meeting.map_or(Vec::new(), |meeting| {
            meeting.left += 1;
            meeting.brought.iter().flatten().cloned().collect()
        });
        state.meetings.retain(|_, meeting| meeting.left < size);
        Ok(all)
    }

    /// Waits until rank `to` has taken what this one sends.
    ///
    /// # Errors
    /// [`Error::Group`], on every rank.
    pub fn send(&self, call: Announced, to: usize, brings: P) -> Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.enter(call)?;
        let key = (self.rank, to);
        state.letters.insert(key, (call, brings));
        let missing = |state: &State<P>| Vec::from_iter(state.letters.contains_key(&key).then_some(to));
        self.wait(state, call, missing).map(drop)
    }

    /// Waits for what rank `from` sends.
    ///
    /// # Errors
    /// [`Error::Group`], on every rank.
    pub fn recv(&self, call: Announced, from: usize) -> Result<P> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.enter(call)?;
        let key = (from, self.rank);
        let missing = |state: &State<P>| Vec::from_iter((!state.letters.contains_key(&key)).then_some(from));
        let mut state = self.wait(state, call, missing)?;
        match state.letters.remove(&key) {
            Some((sent, letter)) if sent.matches(&call) => {
                state.members[from].waits_in = None;
                self.table.changed.notify_all();
                Ok(letter)
            }
            Some((sent, letter)) => {
                // The sender still waits for it, and learns of the failure.
                state.letters.insert(key, (sent, letter));
                Err(self.disagreement(&mut state, (self.rank, call), (from, sent)))
            }
            None => unreachable!("only this rank takes the letter, and it was there"),
        }
    }

    /// Ends the group because of a fault of this rank that the others cannot see. Returns the error, or that of an earlier failure.
    pub fn fail(&self, op: Collective, why: impl Into<String>) -> Error {
        self.end(&mut self.lock(), op, self.rank, why.into())
    }

    /// The rank leaves: whoever waits for it gets an error. Dropping the seat does the same.
    pub fn leave(&self) {
        self.table.leave(self.rank);
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        // A panic of another thread leaves the state whole: no user code runs under the lock.
        self.table.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call, unless the group is over or another rank waits in a call that can never go with this one.
    fn enter(&self, call: Announced) -> Result<MutexGuard<'_, State<P>>> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let waiting = state.members.iter().enumerate();
        let waiting = waiting.filter_map(|(rank, member)| Some((rank, member.waits_in?)));
        let mut waiting = waiting.filter(|(rank, other)| never_meet((self.rank, call), (*rank, *other)));
        match waiting.next() {
            Some(other) => Err(self.disagreement(&mut state, (self.rank, call), other)),
            None => Ok(state),
        }
    }

    /// Waits until no rank is missing. What is complete counts, even if the group has failed since.
    fn wait<'s>(
        &self,
        mut state: MutexGuard<'s, State<P>>,
        call: Announced,
        missing: impl Fn(&State<P>) -> Vec<usize>,
    ) -> Result<MutexGuard<'s, State<P>>> {
        let Table { limit, changed, .. } = &*self.table;
        let start = Instant::now();
        state.members[self.rank].waits_in = Some(call);
        changed.notify_all();
        let waited = loop {
            let missing = missing(&state);
            if missing.is_empty() {
                break Ok(());
            }
            if let Some(failure) = &state.failure {
                break Err(failure.clone());
            }
            if let Some(lost) = missing.iter().find(|rank| state.members[**rank].has_left) {
                let why = "left the group while others waited for it; look for its own error or panic";
                break Err(self.end(&mut state, call.op, *lost, why.into()));
            }
            let Some(left) = limit.checked_sub(start.elapsed()).filter(|left| !left.is_zero()) else {
                break Err(self.end(&mut state, call.op, missing[0], self.late(&missing, call)));
            };
            state = changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        };
        state.members[self.rank].waits_in = None;
        waited.map(|()| state)
    }

    fn late(&self, missing: &[usize], call: Announced) -> String {
        let others: Vec<String> = missing[1..].iter().map(ToString::to_string).collect();
        let others = match &others[..] {
            [] => String::new(),
            some => format!(", nor did {},", some.join(", ")),
        };
        format!(
            "did not join {call} within {:?}{others} while rank {} waited; find what it waits for, or set a longer limit",
            self.table.limit, self.rank
        )
    }

    fn disagreement(
        &self,
        state: &mut State<P>,
        (rank, call): (usize, Announced),
        (other, first): (usize, Announced),
    ) -> Error {
        let why = format!(
            "called {call} while rank {other} called {first}; make all ranks call the same ops in the same order, with one size and type"
        );
        self.end(state, call.op, rank, why)
    }

    /// Notes the group's failure, unless there was one before, and wakes all ranks.
    fn end(&self, state: &mut State<P>, op: Collective, rank: usize, why: String) -> Error {
        let size = self.table.size;
        let failure = state.failure.get_or_insert(Error::Group { op: op.name(), rank, size, why }).clone();
        self.table.changed.notify_all();
        failure
    }
}

/// Whether two ranks that wait in these calls would wait for each other for ever.
fn never_meet((a, call): (usize, Announced), (b, other): (usize, Announced)) -> bool {
    match (call.op.peer(), other.op.peer()) {
        (None, None) => false,
        (Some(peer), None) => peer == b,
        (None, Some(peer)) => peer == a,
        // Both send, or both receive.
        (Some(to), Some(back)) => {
            let both_send =
                matches!(call.op, Collective::Send { .. }) == matches!(other.op, Collective::Send { .. });
            to == b && back == a && both_send
        }
    }
}

impl<P> Drop for Seat<P> {
    fn drop(&mut self) {
        self.table.leave(self.rank);
    }
}

impl<P> Table<P> {
    fn leave(&self, rank: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).members[rank].has_left = true;
        self.changed.notify_all();
    }
}
