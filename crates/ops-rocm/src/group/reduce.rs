//! Reductions in rank order, by kernels of this project.
use crate::{HipSpace, Result, Rocm};
use ops_core::group::Reduction;
use ops_core::ops::{CastMethods, CastOps, CopyMethods, CopyOps, ElementwiseMethods, ElementwiseOps};
use ops_core::{AnyMut, AnyRef, DType, Num, Scalar, TensorMut, TensorRef, bf16, f16, with_type};

/// Reduces the rows of `all`, one of each rank, to `y`. Sums of 16-bit floats are made in f32 and rounded once.
pub(super) fn in_rank_order(
    queue: &Rocm,
    f: Reduction,
    all: AnyRef<'_, HipSpace>,
    y: AnyMut<'_, HipSpace>,
) -> Result<()> {
    match (f, all.dtype()) {
        (Reduction::Sum, DType::F16) => sum_in_f32::<f16>(queue, all, y),
        (Reduction::Sum, DType::BF16) => sum_in_f32::<bf16>(queue, all, y),
        (_, dtype) => {
            with_type!(numbers, dtype, T => chain::<T>(queue, f, typed(all), typed_mut(y)), _ => unreachable!("only numbers are reduced"))
        }
    }
}

fn typed<T: Num>(all: AnyRef<'_, HipSpace>) -> TensorRef<'_, HipSpace, T> {
    all.typed().unwrap_or_else(|| unreachable!("the type was matched"))
}
fn typed_mut<T: Num>(y: AnyMut<'_, HipSpace>) -> TensorMut<'_, HipSpace, T> {
    y.typed().unwrap_or_else(|| unreachable!("the type was matched"))
}

fn sum_in_f32<T: Num + Scalar>(queue: &Rocm, all: AnyRef<'_, HipSpace>, y: AnyMut<'_, HipSpace>) -> Result<()>
where
    Rocm: CastOps<f32> + CastOps<T>,
{
    let wide = CastMethods::cast::<f32>(queue, all)?;
    let mut sum = ops_core::Backend::empty::<f32>(queue, y.layout().shape())?;
    chain(queue, Reduction::Sum, wide.as_ref(), sum.as_mut())?;
    CastMethods::cast_into::<T>(queue, &sum, typed_mut::<T>(y))
}

fn chain<T: Num>(
    queue: &Rocm,
    f: Reduction,
    all: TensorRef<'_, HipSpace, T>,
    y: TensorMut<'_, HipSpace, T>,
) -> Result<()>
where
    Rocm: ElementwiseOps<T> + CopyOps,
{
    let rank = |i: usize| all.narrow(0, i, 1)?.squeeze(0);
    let last = all.dims()[0] - 1;
    if last == 0 {
        return queue.copy_into(rank(0)?, y);
    }
    let mut sum = None;
    for i in 1..last {
        let next = match (&sum, f) {
            (None, Reduction::Sum) => queue.add(rank(0)?, rank(i)?)?,
            (None, Reduction::Max) => queue.maximum(rank(0)?, rank(i)?)?,
            (Some(sum), Reduction::Sum) => queue.add(sum, rank(i)?)?,
            (Some(sum), Reduction::Max) => queue.maximum(sum, rank(i)?)?,
        };
        sum = Some(next);
    }
    let first = match &sum {
        Some(sum) => sum.as_ref(),
        None => rank(0)?.shorten(),
    };
    match f {
        Reduction::Sum => queue.add_into(first, rank(last)?, y),
        Reduction::Max => queue.maximum_into(first, rank(last)?, y),
    }
}
