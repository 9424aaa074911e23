//! What calls of all ops have in common: locking and bringing operands, and making results.
use crate::convert::{Named, Number, Optional, OrCandle, elsewhere, refused, strided, view};
use crate::memory::{Brought, sealed::Exchange};
use crate::ops::{Computes, Ops};
use crate::result;
use candle_core::{CpuStorage, InplaceOp1, Layout as CandleLayout, StorageRef, Tensor};
use rocm_ops::prelude::*;
use rocm_ops::{Host, Shape};
use std::array::from_fn;
use std::cell::RefCell;
use std::ptr::from_ref;

/// Runs `$body` with `$T` as the type of `$x`.
macro_rules! on_float {
    ($op:expr, $operand:expr, $x:expr, $T:ident => $body:expr) => {
        match $x.dtype() {
            candle_core::DType::F16 => {
                type $T = rocm_ops::f16;
                $body
            }
            candle_core::DType::BF16 => {
                type $T = rocm_ops::bf16;
                $body
            }
            candle_core::DType::F32 => {
                type $T = f32;
                $body
            }
            candle_core::DType::F64 => {
                type $T = f64;
                $body
            }
            other => Err($crate::convert::refused(
                $op,
                $operand,
                format!("of {}", other.as_str()),
                "f16, bf16, f32 or f64",
            )),
        }
    };
}
pub(crate) use on_float;

/// Operands, locked for reading.
struct Locked<'t> {
    operands: Vec<Named<'t>>,
    /// The lock of each operand's storage, among `locks`.
    lock_of: Vec<usize>,
    locks: Vec<StorageRef<'t>>,
}

impl<'t> Locked<'t> {
    /// Takes each lock once and in the order of addresses, as candle does, so that threads do not wait for each other in a circle. A
    /// second lock of the same storage on one thread would wait for a writer that waits for the first.
    fn new(operands: Vec<Named<'t>>) -> Self {
        let keys: Vec<usize> = operands.iter().map(|(_, x)| key(x)).collect();
        let mut order: Vec<usize> = (0..operands.len()).collect();
        order.sort_unstable_by_key(|&i| keys[i]);
        let (mut lock_of, mut locks, mut last) = (vec![0; operands.len()], Vec::new(), None);
        for i in order {
            if last != Some(keys[i]) {
                locks.push(operands[i].1.storage_and_layout().0);
                last = Some(keys[i]);
            }
            lock_of[i] = locks.len() - 1;
        }
        Locked { operands, lock_of, locks }
    }
    fn views(&self, op: &'static str) -> candle_core::Result<Vec<AnyRef<'_, Host>>> {
        let each = self.operands.iter().zip(&self.lock_of);
        each.map(|((name, x), lock)| view(op, name, &self.locks[*lock], x.layout())).collect()
    }
}

/// What identifies the storage of a tensor.
fn key(x: &Tensor) -> usize {
    from_ref(&*x.storage_and_layout().0).addr()
}

/// All operands that are given.
fn given<'t>(required: &[Named<'t>], optional: &[Optional<'t>]) -> Vec<Named<'t>> {
    let optional = optional.iter().filter_map(|(name, x)| Some((*name, (*x)?)));
    required.iter().copied().chain(optional).collect()
}

/// Calls `f` with the operands in host memory.
pub(crate) fn read_host<R>(
    op: &'static str,
    operand: Named<'_>,
    f: impl FnOnce(AnyRef<'_, Host>) -> Result<R>,
) -> candle_core::Result<R> {
    let locked = Locked::new(vec![operand]);
    f(locked.views(op)?[0]).or_candle()
}

impl<B: Computes> Ops<B> {
    /// Calls `f` with the operands in the backend's memory.
    pub(crate) fn read<const N: usize, const M: usize, R>(
        &self,
        op: &'static str,
        required: [Named<'_>; N],
        optional: [Optional<'_>; M],
        f: impl FnOnce([AnyRef<'_, B::Space>; N], [Option<AnyRef<'_, B::Space>>; M]) -> Result<R>,
    ) -> candle_core::Result<R> {
        let locked = Locked::new(given(&required, &optional));
        self.with_locked(op, &locked, &optional, f)
    }

    fn with_locked<const N: usize, const M: usize, R>(
        &self,
        op: &'static str,
        locked: &Locked<'_>,
        optional: &[Optional<'_>; M],
        f: impl FnOnce([AnyRef<'_, B::Space>; N], [Option<AnyRef<'_, B::Space>>; M]) -> Result<R>,
    ) -> candle_core::Result<R> {
        let bring = |x| B::Space::bring(&self.backend, x);
        let brought: Vec<Brought<'_, B::Space>> =
            locked.views(op)?.into_iter().map(bring).collect::<Result<_>>().or_candle()?;
        let required = from_fn(|i| brought[i].view());
        let mut rest = brought[N..].iter().map(Brought::view);
        let optional = from_fn(|i| optional[i].1.and_then(|_| rest.next()));
        f(required, optional).or_candle()
    }

    /// Computes a new tensor of `dims`.
    pub(crate) fn compute<T: Number, const N: usize, const M: usize>(
        &self,
        op: &'static str,
        dims: &[usize],
        required: [Named<'_>; N],
        optional: [Optional<'_>; M],
        f: impl FnOnce(
            [AnyRef<'_, B::Space>; N],
            [Option<AnyRef<'_, B::Space>>; M],
            TensorMut<'_, B::Space, T>,
        ) -> Result<()>,
    ) -> candle_core::Result<Tensor> {
        let y = self.read(op, required, optional, |x, o| self.output(dims, |y| f(x, o, y)))?;
        result::tensor(op, &given(&required, &optional), y, dims)
    }

    /// The elements of an output that `f` writes.
    pub(crate) fn output<T: Number>(
        &self,
        dims: &[usize],
        f: impl FnOnce(TensorMut<'_, B::Space, T>) -> Result<()>,
    ) -> Result<Vec<T>> {
        let shape = Shape::new(dims)?;
        let mut y = T::zeros(shape.len());
        B::Space::lend(&self.backend, Host::view_mut(&mut y, shape)?, false, f)?;
        Ok(y)
    }

    /// Calls `f` with `y` for reading and writing, and the operands in the backend's memory.
    pub(crate) fn write<T: Number, const N: usize, const M: usize>(
        &self,
        op: &'static str,
        y: Named<'_>,
        required: [Named<'_>; N],
        optional: [Optional<'_>; M],
        f: impl FnOnce(
            [AnyRef<'_, B::Space>; N],
            [Option<AnyRef<'_, B::Space>>; M],
            TensorMut<'_, B::Space, T>,
        ) -> Result<()>,
    ) -> candle_core::Result<()> {
        let (name, tensor) = y;
        if !tensor.device().is_cpu() {
            return Err(elsewhere(op, name));
        }
        let operands = given(&required, &optional);
        if let Some((name, _)) = [y].iter().chain(&operands).find(|(_, x)| x.track_op()) {
            let want = "a tensor without gradients, since the op writes in place; use detach()";
            return Err(refused(op, name, "tracked for gradients", want));
        }
        if let Some((other, _)) = operands.iter().find(|(_, x)| key(x) == key(tensor)) {
            return Err(refused(op, other, format!("in the memory of {name}"), "other memory; use copy()"));
        }
        let locked = Locked::new(operands);
        self.with_locked(op, &locked, &optional, |x, o| {
            let run = |storage: &mut CpuStorage, layout: &CandleLayout| {
                let got = format!("of {}", tensor.dtype().as_str());
                let want = <T as Element>::DTYPE.name();
                let data = T::slice_mut(storage).ok_or_else(|| refused(op, name, got, want))?;
                let lent = strided(layout).and_then(|layout| {
                    let y = TensorMut::<Host, T>::new(data, layout)?;
                    B::Space::lend(&self.backend, y, true, |y| f(x, o, y))
                });
                lent.or_candle()
            };
            Ok(tensor.inplace_op1(&InPlace { op, run: RefCell::new(Some(run)) }))
        })?
    }
}

/// The function that changes a tensor, as candle calls it: with its storage locked for writing.
struct InPlace<F> {
    op: &'static str,
    run: RefCell<Option<F>>,
}
impl<F: FnOnce(&mut CpuStorage, &CandleLayout) -> candle_core::Result<()>> InplaceOp1 for InPlace<F> {
    fn name(&self) -> &'static str {
        self.op
    }
    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &CandleLayout) -> candle_core::Result<()> {
        match self.run.take() {
            Some(run) => run(storage, layout),
            None => Err(refused(self.op, "the output", "written twice", "one call")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};

    #[test]
    fn each_storage_is_locked_once_and_in_the_order_of_addresses() {
        let new = || Tensor::zeros((2, 3), DType::F32, &Device::Cpu).unwrap();
        let (x, y) = (new(), new());
        let part = x.narrow(0, 1, 1).unwrap();
        let locked = Locked::new(vec![("a", &x), ("b", &y), ("c", &part), ("d", &x)]);
        let keys: Vec<usize> = locked.locks.iter().map(|lock| from_ref(&**lock).addr()).collect();
        assert_eq!(keys.len(), 2);
        assert!(keys[0] < keys[1]);
        let of_operands: Vec<usize> = locked.lock_of.iter().map(|lock| keys[*lock]).collect();
        drop(locked.locks);
        assert_eq!(of_operands, [key(&x), key(&y), key(&part), key(&x)]);
        assert_eq!(key(&x), key(&part));
    }
}
