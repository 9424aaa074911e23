//! Running sums.
use super::Cpu;
use super::reduce_loops::Wider;
use super::runs::map_runs;
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::CumSum;
use ops_core::{Call, Num, Result, Scalar, Wide};

fn cumsum(x: Raw<'_>, y: RawMut<'_>, axis: isize) -> Result<()> {
    // Transposing the layout makes any axis the last one.
    let (lx, ly) = (x.layout.transpose(axis, -1)?, y.layout.transpose(axis, -1)?);
    let (n, dtype) = (lx.last(), x.dtype);
    map_runs(
        "cumsum",
        [x.with_layout(lx)],
        y.with_layout(ly),
        n,
        4,
        &|[x], y| on_num!(dtype, T => rows::<T>(cast_slice(x), n, cast_slice_mut(y)), else Err(unsupported_dtype(dtype))),
    )
}

/// Whole rows of length `n`.
fn rows<T: Wider>(x: &[T], n: usize, y: &mut [T]) -> TaskResult {
    for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
        let mut sum = T::In::from_wide(Wide::Int(0));
        for (x, y) in x.iter().zip(y) {
            sum = Num::add(sum, x.wider());
            *y = T::narrower(sum);
        }
    }
    Ok(())
}

impl<T: Num> Kernel<CumSum<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, CumSum<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        cumsum(Raw::of(&a.x), RawMut::of(&mut a.y), op.axis)
    }
}
