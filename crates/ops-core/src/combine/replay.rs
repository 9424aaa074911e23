//! What the combinators do with recorded calls.
use super::{Checked, Either, Fallback, Timed, Traced};
use crate::replay::{CAPTURE, REPLAY, not_recorded};
use crate::{Backend, Error, Replay, Result};
use std::time::Instant;

/// Records on the primary. A call that would fall back is refused.
impl<P: Replay, S: Backend> Replay for Fallback<P, S> {
    type Graph = P::Graph;

    fn capture<R, E: From<Error>>(
        &self,
        calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<(Self::Graph, R), E> {
        self.primary().capture(calls)
    }
    fn can_record(&self) -> bool {
        self.primary().can_record()
    }
    fn replay(&self, graph: &Self::Graph) -> Result<()> {
        self.primary().replay(graph)
    }
}

/// Refuses to record: a replay would run unchecked.
impl<P: Replay, Q: Backend> Replay for Checked<P, Q> {
    type Graph = P::Graph;

    fn capture<R, E: From<Error>>(&self, _: impl FnOnce() -> Result<R, E>) -> Result<(Self::Graph, R), E> {
        let why = "each call is compared with the reference when it runs, and a replay runs none; record on the backend under test";
        Err(not_recorded(CAPTURE, self.name(), why).into())
    }
    /// Replays a graph on the backend under test, unchecked.
    fn replay(&self, graph: &Self::Graph) -> Result<()> {
        self.primary().replay(graph)
    }
}

/// Records on the chosen side.
impl<L: Replay, R: Replay> Replay for Either<L, R> {
    type Graph = Either<L::Graph, R::Graph>;

    fn capture<T, E: From<Error>>(
        &self,
        calls: impl FnOnce() -> Result<T, E>,
    ) -> Result<(Self::Graph, T), E> {
        match self {
            Either::Left(b) => b.capture(calls).map(|(graph, done)| (Either::Left(graph), done)),
            Either::Right(b) => b.capture(calls).map(|(graph, done)| (Either::Right(graph), done)),
        }
    }
    fn can_record(&self) -> bool {
        match self {
            Either::Left(b) => b.can_record(),
            Either::Right(b) => b.can_record(),
        }
    }
    fn replay(&self, graph: &Self::Graph) -> Result<()> {
        match (self, graph) {
            (Either::Left(b), Either::Left(graph)) => b.replay(graph),
            (Either::Right(b), Either::Right(graph)) => b.replay(graph),
            _ => Err(Error::WrongSide { call: REPLAY }),
        }
    }
}

/// Records on the wrapped backend. Recorded calls are not counted; each replay counts as a call of `replay`.
impl<B: Replay> Replay for Timed<B> {
    type Graph = B::Graph;

    fn capture<R, E: From<Error>>(
        &self,
        calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<(Self::Graph, R), E> {
        self.inside().capture(calls)
    }
    fn can_record(&self) -> bool {
        self.inside().can_record()
    }
    fn replay(&self, graph: &Self::Graph) -> Result<()> {
        if !self.is_on() {
            return self.inside().replay(graph);
        }
        let begin = Instant::now();
        let done = self.inside().replay(graph);
        self.note(REPLAY, begin.elapsed());
        done
    }
}

/// Refuses to record while it is on: its recorder would miss the calls of replays.
impl<B: Replay> Replay for Traced<B> {
    type Graph = B::Graph;

    fn capture<R, E: From<Error>>(
        &self,
        calls: impl FnOnce() -> Result<R, E>,
    ) -> Result<(Self::Graph, R), E> {
        if self.is_on() {
            let why = "the recorder must see every call, and a replay makes none; turn the recorder off, or record on the wrapped backend";
            return Err(not_recorded(CAPTURE, self.name(), why).into());
        }
        self.inside().capture(calls)
    }
    fn can_record(&self) -> bool {
        !self.is_on() && self.inside().can_record()
    }
    fn replay(&self, graph: &Self::Graph) -> Result<()> {
        if self.is_on() {
            return Err(not_recorded(REPLAY, self.name(), "the recorder would miss the calls of the graph"));
        }
        self.inside().replay(graph)
    }
}
