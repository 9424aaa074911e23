//! The part of a model that one rank of a group computes.
use crate::{Error, Result};
use ops_core::group::{Collective, Group, Reduction};
use ops_core::ops::{CastMethods, CastOps, CopyMethods, CopyOps, ElementwiseMethods, ElementwiseOps};
use ops_core::{
    AnyMut, AnyRef, AsViewMut, Backend, Determinism, Element, Float, Ref, Replay, Space, TensorOf,
};
use std::ops::Range;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// Parts into which sums are cut at determinism *batch*. The number of ranks divides it.
const PARTS: usize = 8;

/// The part of a model that one rank of a [`Group`] computes: [`Decoder::load_share`](crate::Decoder::load_share) loads it.
///
/// Every rank has some of the heads, of the columns of feed-forward blocks, of the experts, and of the vocabulary. Where each rank has
/// only some terms of a sum, the ranks add their partial results. If a step fails on one rank, this rank leaves the group, so that
/// the others fail, too.
pub struct Share<S: Space>(Option<Arc<Member<S>>>);

struct Member<S: Space> {
    rank: usize,
    ranks: usize,
    /// Whether sums have the same order for every number of ranks.
    in_order: bool,
    /// Absent after a failure.
    group: RwLock<ops_core::Result<Box<dyn Collect<S>>>>,
    /// The rank that failed first.
    first: Arc<OnceLock<usize>>,
}

/// A type-erased [`Group`].
trait Collect<S: Space>: Send + Sync {
    fn run(&self, op: Collective, x: Option<AnyRef<'_, S>>, y: Option<AnyMut<'_, S>>)
    -> ops_core::Result<()>;
}

impl<S: Space, G: Group<Backend: Backend<Space = S>>> Collect<S> for G {
    fn run(
        &self,
        op: Collective,
        x: Option<AnyRef<'_, S>>,
        y: Option<AnyMut<'_, S>>,
    ) -> ops_core::Result<()> {
        Group::run(self, op, x, y)
    }
}

/// How the terms of a sum, or the columns of a matrix, are divided.
pub(crate) struct Cut<S: Space> {
    /// The elements of this rank. If it has none, the nearest element of another rank: this rank computes it, and leaves it out of the sum.
    pub(crate) own: Range<usize>,
    /// This rank's parts of the sum. Some may be empty.
    pub(crate) parts: Vec<Range<usize>>,
    /// The index in `parts` of the group's first part that is not empty, if this rank has it. That part adds the bias, so that it is added once.
    pub(crate) first: Option<usize>,
    /// The rank and its group.
    pub(crate) share: Share<S>,
}

impl<S: Space> Cut<S> {
    /// The same if each element is `width` columns.
    pub(crate) fn times(&self, width: usize) -> Self {
        let times = |range: &Range<usize>| range.start * width..range.end * width;
        let parts = self.parts.iter().map(times).collect();
        Cut { own: times(&self.own), parts, first: self.first, share: self.share.clone() }
    }
}

/// A list of one range.
pub(crate) fn only(range: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(range).collect()
}

impl<S: Space> Clone for Share<S> {
    fn clone(&self) -> Self {
        Share(self.0.clone())
    }
}

impl<S: Space> Share<S> {
    /// The whole model, without a group.
    pub fn whole() -> Self {
        Share(None)
    }

    /// The part of this rank. At [`Determinism::Batch`] and above, the order of sums does not depend on the number of ranks. Each sum is cut
    /// into eight parts, even with one rank. All ranks gather the parts and add them in the same order.
    ///
    /// # Errors
    /// [`Error::Option`] for a number of ranks that does not divide eight, if the order is fixed.
    pub fn of<G: Group<Backend: Backend<Space = S>>>(group: G, least: Determinism) -> Result<Self> {
        Self::noting(group, least, Arc::default())
    }

    /// Like [`of`](Self::of). If this rank is the first to fail, it stores its number in `first`.
    pub(crate) fn noting<G: Group<Backend: Backend<Space = S>>>(
        group: G,
        least: Determinism,
        first: Arc<OnceLock<usize>>,
    ) -> Result<Self> {
        let (rank, ranks, in_order) = (group.rank(), group.size(), least >= Determinism::Batch);
        if in_order && !PARTS.is_multiple_of(ranks) {
            let wanted =
                format!("1, 2, 4 or 8 at determinism {least}, which cuts every sum into {PARTS} parts");
            return Err(Error::Option { name: "ranks", got: ranks.to_string(), wanted });
        }
        if ranks == 1 && !in_order {
            return Ok(Self::whole());
        }
        let group = RwLock::new(Ok(Box::new(group) as Box<dyn Collect<S>>));
        Ok(Share(Some(Arc::new(Member { rank, ranks, in_order, group, first }))))
    }

    /// The number of the rank.
    pub fn rank(&self) -> usize {
        self.0.as_ref().map_or(0, |member| member.rank)
    }
    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.0.as_ref().map_or(1, |member| member.ranks)
    }
    /// Whether this is the whole model, with sums that are not cut.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_none()
    }
    /// Whether sums have the same order for every number of ranks.
    pub(crate) fn in_order(&self) -> bool {
        self.0.as_ref().is_some_and(|member| member.in_order)
    }

    /// Divides `count` elements in whole units of `unit`. If `unit` does not divide `count`, one rank has all of them.
    pub(crate) fn cut(&self, count: usize, unit: usize) -> Cut<S> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let parts = if self.in_order() { PARTS } else { ranks };
        let unit = if count.is_multiple_of(unit.max(1)) { unit.max(1) } else { count };
        let units = count.checked_div(unit).unwrap_or(0);
        let range = |part: usize| units * part / parts * unit..units * (part + 1) / parts * unit;
        let numbers = rank * parts / ranks..(rank + 1) * parts / ranks;
        let first = (0..parts).find(|part| !range(*part).is_empty());
        let own = range(numbers.start).start..range(numbers.end - 1).end;
        let own = if own.is_empty() {
            own.start.min(count.saturating_sub(1))..count.min(own.start + 1)
        } else {
            own
        };
        Cut {
            own,
            first: first.and_then(|first| numbers.clone().position(|part| part == first)),
            parts: numbers.map(range).collect(),
            share: self.clone(),
        }
    }

    /// Runs a step, or a part of it. If that fails, this rank leaves the group: the others get an error instead of other data than they
    /// expect.
    pub(crate) fn step<R>(&self, run: impl FnOnce() -> Result<R>) -> Result<R> {
        run().inspect_err(|why| self.leave(why))
    }

    /// Records these calls of a step on all ranks, or says why it cannot be recorded.
    ///
    /// # Errors
    /// Those of the calls; [`Error::Option`] if only some of the ranks can record, since one that replays and one that does not would wait
    /// for each other.
    pub(crate) fn record<B: Replay<Space = S>, R>(
        &self,
        b: &B,
        calls: impl FnOnce() -> Result<R>,
    ) -> Result<ops_core::Result<(B::Graph, R)>> {
        let recorded = match b.capture(calls) {
            Ok(recorded) => Ok(recorded),
            Err(Error::Op(why @ ops_core::Error::Unsupported { .. })) => Err(why),
            Err(error) => return Err(error),
        };
        let is_graph = u32::from(recorded.is_ok());
        if self.ranks() > 1
            && self.gathered(b, b.tensor([1], &[is_graph])?.as_ref())?.to_vec(b)?.contains(&(1 - is_graph))
        {
            let (got, wanted) = ("only some of which can record this step", "ranks with the same policy");
            return Err(Error::Option { name: "ranks", got: got.to_owned(), wanted: wanted.to_owned() });
        }
        Ok(recorded)
    }

    /// Replays a step. Recorded collectives do not ask whether this rank has left its group, so this does.
    ///
    /// # Errors
    /// The error after which this rank has left the group; those of the backend.
    pub(crate) fn replay<B: Replay<Space = S>>(&self, b: &B, graph: &B::Graph) -> Result<()> {
        self.with_group(|_| Ok(()))?;
        Ok(b.replay(graph)?)
    }

    fn leave(&self, why: &Error) {
        let Some(member) = &self.0 else { return };
        let mut group = member.group.write().unwrap_or_else(PoisonError::into_inner);
        if group.is_ok() {
            _ = member.first.set(member.rank);
            *group = Err(match why {
                Error::Op(error @ ops_core::Error::Group { .. }) => error.clone(),
                other => {
                    let why = format!("left the group after an error: {other}");
                    ops_core::Error::Group { op: "step", rank: member.rank, size: member.ranks, why }
                }
            });
        }
    }

    fn run(
        &self,
        op: Collective,
        x: Option<AnyRef<'_, S>>,
        y: Option<AnyMut<'_, S>>,
    ) -> ops_core::Result<()> {
        self.with_group(|group| group.run(op, x, y))
    }

    /// Calls a function with the group, if there is one.
    fn with_group(&self, call: impl FnOnce(&dyn Collect<S>) -> ops_core::Result<()>) -> ops_core::Result<()> {
        let Some(member) = &self.0 else { return Ok(()) };
        match &*member.group.read().unwrap_or_else(PoisonError::into_inner) {
            Ok(group) => call(&**group),
            Err(first) => Err(first.clone()),
        }
    }

    /// The sum of all ranks' `y`, in place, in an order that may depend on the group.
    pub(crate) fn all_reduce<T: Element>(&self, mut y: impl AsViewMut<S, T>) -> Result<()> {
        if self.ranks() == 1 {
            return Ok(());
        }
        Ok(self.run(Collective::AllReduce(Reduction::Sum), None, Some(y.view_mut().any()))?)
    }

    /// The `x` of all ranks, along the first axis.
    pub(crate) fn all_gather<T: Element, B: Backend<Space = S>>(
        &self,
        b: &B,
        x: TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>> {
        if self.ranks() == 1 {
            return Ok(x);
        }
        self.gathered(b, x.as_ref())
    }

    fn gathered<T: Element, B: Backend<Space = S>>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>> {
        let mut dims = x.dims().to_vec();
        if let Some(first) = dims.first_mut() {
            *first *= self.ranks();
        }
        let mut y = b.empty(&dims[..])?;
        self.run(Collective::AllGather, Some(x.any()), Some(y.view_mut().any()))?;
        Ok(y)
    }

    /// Replaces `y` by that of rank 0. Unlike a broadcast, `all_gather` can be part of a recorded step.
    pub(crate) fn take_first<T: Element, B>(&self, b: &B, y: &mut TensorOf<B, T>) -> Result<()>
    where
        B: Backend<Space = S> + CopyOps,
    {
        if self.ranks() == 1 {
            return Ok(());
        }
        let all = self.gathered(b, y.as_ref())?;
        Ok(b.copy_into(all.as_ref().narrow(0, 0, y.dims()[0])?, y)?)
    }

    /// The sum over the parts of all ranks. This rank has `y[parts, t, n]`, one for each part of a [`Cut`].
    pub(crate) fn sum<T: Float, B>(&self, b: &B, mut y: TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Backend<Space = S> + ElementwiseOps<f32> + CastOps<T> + CastOps<f32>,
    {
        let &[_, t, n] = y.dims() else { unreachable!("parts of rows") };
        if !self.in_order() {
            self.all_reduce(&mut y)?;
            return Ok(y.reshape([t, n])?);
        }
        // Part `i` and part `i + 4`, then `i` and `i + 2`, then the last two: in f32, and rounded once.
        let mut all = b.cast::<f32>(&self.all_gather(b, y)?)?;
        let mut parts = PARTS;
        while parts > 1 {
            parts /= 2;
            let (one, other) = (all.as_ref().narrow(0, 0, parts)?, all.as_ref().narrow(0, parts, parts)?);
            all = b.add(one, other)?;
        }
        Ok(b.cast::<T>(&all)?.reshape([t, n])?)
    }
}
