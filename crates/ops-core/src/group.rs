//! Several ranks that compute together: collectives.
//!
//! A *group* has a fixed number of *ranks*, numbered from 0. Each rank is a queue of its own, on a device of its own or in host memory,
//! and has a handle that implements [`Group`]. A collective is one call that every rank of the group makes, each from its own thread,
//! with the same op, element type and size, and in the same order. `HostGroup` of `ops-cpu` has ranks on any backend and moves data
//! through host memory; `RocmGroup` of `ops-rocm` uses RCCL between the memories of devices. This trait does not say where the other ranks
//! are: an implementation may have them in other processes.
//!
//! ```
//! use rocm_ops::group::{Group, Reduction};
//! use rocm_ops::prelude::*;
//! use rocm_ops::HostGroup;
//!
//! /// `x · weightᵀ`. Each rank holds some columns of `x` and the same columns of `weight`; the sum over the ranks is
//! /// the whole product.
//! fn row_parallel<G: Group>(g: &G, x: &[f32], weight: &[f32]) -> Result<Vec<f32>>
//! where
//!     G::Backend: LinearOps<f32>,
//! {
//!     let b = g.backend();
//!     let (x, weight) = (b.tensor([1, x.len()], x)?, b.tensor([weight.len() / x.len(), x.len()], weight)?);
//!     let mut y = b.linear(&x, &weight)?;
//!     g.all_reduce_inplace(&mut y, Reduction::Sum)?;
//!     y.to_vec(b)
//! }
//!
//! # fn main() -> Result<()> {
//! let ranks = HostGroup::of(vec![Cpu::new(), Cpu::new()])?;
//! let results: Vec<Result<Vec<f32>>> = std::thread::scope(|scope| {
//!     let spawn = |rank: HostGroup<Cpu>| scope.spawn(move || row_parallel(&rank, &[1.0, 2.0], &[3.0, 4.0]));
//!     let threads: Vec<_> = ranks.into_iter().map(spawn).collect();
//!     threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
//! });
//! for result in results {
//!     assert_eq!(result?, [2.0 * (1.0 * 3.0 + 2.0 * 4.0)]);
//! }
//! # Ok(()) }
//! ```
//!
//! # Faults
//!
//! Every collective has a time limit. The call fails with [`Error::Group`] if a rank does not arrive in time, drops its handle, or calls
//! with another op, size, type or root than the others. The error names the rank and the op, and says what to do. The group cannot be used
//! afterwards: later calls return the same error. A call that is refused on its own rank, because of its shapes for example, ends in the usual
//! error on that rank only; the others wait for it until the limit.
//!
//! # Determinism
//!
//! Collectives that only move elements are [`Exact`](Determinism::Exact), and so are sums of integers and maxima. Sums of floats depend on
//! their order: [`Group::determinism`] says what an implementation guarantees. In rank order, they follow the accumulation rule of all ops
//! (16-bit floats are added in f32 and rounded once), and are `Exact`, too.
use crate::{
    AnyMut, AnyRef, AsView, AsViewMut, Backend, DType, Determinism, Element, IntoShape, Num, Result, TensorOf,
};

mod collective;
mod rendezvous;

#[cfg(doc)]
use crate::Error;
pub use collective::{Announced, Collective, GroupCall, Reduction};
pub use rendezvous::{DEFAULT_LIMIT, Seat};

use collective::{gathered, part};

/// The memory of a group's tensors.
pub type SpaceOf<G> = <<G as Group>::Backend as Backend>::Space;

/// One rank of a group. See the [module](self).
///
/// Operands are contiguous; parts are along their first axis, and all of one size. `x` is read and `y` written; they do not overlap. Calls
/// are in queue order: they wait for earlier work on the operands, and later work waits for them. `*_inplace` methods have one operand.
pub trait Group: Send + Sync + 'static {
    /// What this rank computes with.
    type Backend: Backend;

    /// This rank's queue.
    fn backend(&self) -> &Self::Backend;
    /// This rank's number.
    fn rank(&self) -> usize;
    /// The number of ranks.
    fn size(&self) -> usize;
    /// The determinism of a collective on elements of this type.
    fn determinism(&self, op: Collective, dtype: DType) -> Determinism;
    /// Takes part in a collective. The operands have been checked.
    ///
    /// # Errors
    /// [`Error::Group`]; a failure of the device.
    fn execute(&self, call: GroupCall<'_, '_, SpaceOf<Self>>) -> Result<()>;

    /// Why a call cannot be part of a recording ([`Replay`](crate::Replay)); `None` if it can.
    fn not_recorded(&self, _call: Announced) -> Option<String> {
        Some("a replay would not wait for the other ranks; call it between two recordings".to_owned())
    }

    // Everything below is provided.

    /// Checks the operands, then takes part in the collective. Without `x`, the call is in place. For operands whose type is known only at
    /// run time; the other methods call this.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Operand`] and [`Error::Param`] before anything ran; as [`execute`](Group::execute).
    fn run(
        &self,
        op: Collective,
        x: Option<AnyRef<'_, SpaceOf<Self>>>,
        y: Option<AnyMut<'_, SpaceOf<Self>>>,
    ) -> Result<()> {
        let seat = (self.rank(), self.size());
        self.execute(GroupCall::check(self.backend(), seat, op, x, y, |call| self.not_recorded(call))?)
    }

    /// The sum or maximum of all ranks' `x`, on every rank.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_reduce<T: Num>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<TensorOf<Self::Backend, T>> {
        let mut y = self.backend().empty(x.view().shape())?;
        self.all_reduce_into(x, &mut y, f)?;
        Ok(y)
    }
    /// As [`all_reduce`](Group::all_reduce), to `y`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_reduce_into<T: Num>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<()> {
        self.run(Collective::AllReduce(f), Some(x.view().any()), Some(y.view_mut().any()))
    }
    /// As [`all_reduce`](Group::all_reduce), in place.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_reduce_inplace<T: Num>(
        &self,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<()> {
        self.run(Collective::AllReduce(f), None, Some(y.view_mut().any()))
    }

    /// All ranks' `x`, one after the other along the first axis, in rank order.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_gather<T: Element>(&self, x: impl AsView<SpaceOf<Self>, T>) -> Result<TensorOf<Self::Backend, T>> {
        let mut y = self.backend().empty(gathered(x.view().shape(), self.size())?)?;
        self.all_gather_into(x, &mut y)?;
        Ok(y)
    }
    /// As [`all_gather`](Group::all_gather), to `y`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_gather_into<T: Element>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
    ) -> Result<()> {
        self.run(Collective::AllGather, Some(x.view().any()), Some(y.view_mut().any()))
    }
    /// As [`all_gather`](Group::all_gather). Part `i` of `y` holds the elements of rank `i`: this rank's before the call, all after it.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_gather_inplace<T: Element>(&self, mut y: impl AsViewMut<SpaceOf<Self>, T>) -> Result<()> {
        self.run(Collective::AllGather, None, Some(y.view_mut().any()))
    }

    /// This rank's part of the sum or maximum of all ranks' `x`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn reduce_scatter<T: Num>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<TensorOf<Self::Backend, T>> {
        let shape = part(Collective::ReduceScatter(f), "x", x.view().layout(), self.size())?;
        let mut y = self.backend().empty(shape)?;
        self.reduce_scatter_into(x, &mut y, f)?;
        Ok(y)
    }
    /// As [`reduce_scatter`](Group::reduce_scatter), to `y`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn reduce_scatter_into<T: Num>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<()> {
        self.run(Collective::ReduceScatter(f), Some(x.view().any()), Some(y.view_mut().any()))
    }
    /// As [`reduce_scatter`](Group::reduce_scatter). The result replaces this rank's part of `y`; its other parts then hold unspecified
    /// values.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn reduce_scatter_inplace<T: Num>(
        &self,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
        f: Reduction,
    ) -> Result<()> {
        self.run(Collective::ReduceScatter(f), None, Some(y.view_mut().any()))
    }

    /// Replaces `y` by that of rank `root`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn broadcast_inplace<T: Element>(
        &self,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
        root: usize,
    ) -> Result<()> {
        self.run(Collective::Broadcast { root }, None, Some(y.view_mut().any()))
    }

    /// Sends `x` to rank `to`, which must call [`recv`](Group::recv). It may wait until that rank does: two ranks that both send first wait
    /// for each other, and the call fails. [`all_to_all`](Group::all_to_all) exchanges.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn send<T: Element>(&self, x: impl AsView<SpaceOf<Self>, T>, to: usize) -> Result<()> {
        self.run(Collective::Send { to }, Some(x.view().any()), None)
    }
    /// The tensor of this shape that rank `from` sends.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn recv<T: Element>(&self, shape: impl IntoShape, from: usize) -> Result<TensorOf<Self::Backend, T>> {
        let mut y = self.backend().empty(shape)?;
        self.recv_into(&mut y, from)?;
        Ok(y)
    }
    /// As [`recv`](Group::recv), to `y`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn recv_into<T: Element>(&self, mut y: impl AsViewMut<SpaceOf<Self>, T>, from: usize) -> Result<()> {
        self.run(Collective::Recv { from }, None, Some(y.view_mut().any()))
    }

    /// Part `rank` of every rank's `x`, one after the other, in rank order.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_to_all<T: Element>(&self, x: impl AsView<SpaceOf<Self>, T>) -> Result<TensorOf<Self::Backend, T>> {
        let mut y = self.backend().empty(x.view().shape())?;
        self.all_to_all_into(x, &mut y)?;
        Ok(y)
    }
    /// As [`all_to_all`](Group::all_to_all), to `y`.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_to_all_into<T: Element>(
        &self,
        x: impl AsView<SpaceOf<Self>, T>,
        mut y: impl AsViewMut<SpaceOf<Self>, T>,
    ) -> Result<()> {
        self.run(Collective::AllToAll, Some(x.view().any()), Some(y.view_mut().any()))
    }
    /// As [`all_to_all`](Group::all_to_all), in place.
    ///
    /// # Errors
    /// As [`run`](Group::run).
    fn all_to_all_inplace<T: Element>(&self, mut y: impl AsViewMut<SpaceOf<Self>, T>) -> Result<()> {
        self.run(Collective::AllToAll, None, Some(y.view_mut().any()))
    }
}
