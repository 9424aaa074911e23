//! Running sums and products.
use super::Cpu;
use super::reduce_loops::Wider;
use super::runs::map_runs;
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Scan, ScanFn};
use ops_core::{Call, Num, Result, Scalar, Wide};

fn scan(f: ScanFn, x: Raw<'_>, y: RawMut<'_>, axis: isize) -> Result<()> {
    if !ScanFn::ALL.contains(&f) {
        return Err(unknown_function(f.name()));
    }
    // Transposing the layout makes any axis the last one.
    let (lx, ly) = (x.layout.transpose(axis, -1)?, y.layout.transpose(axis, -1)?);
    let (n, dtype) = (lx.last(), x.dtype);
    map_runs(f.name(), [x.with_layout(lx)], y.with_layout(ly), n, 4, &|[x], y| {
        on_num!(dtype, T => {
            let (x, y) = (cast_slice(x), cast_slice_mut(y));
            // A loop for each function, since its next step waits for this one.
            match f {
                ScanFn::Sum => rows::<T>(x, n, y, 0, Num::add),
                _ => rows::<T>(x, n, y, 1, Num::mul),
            }
        }, else Err(unsupported_dtype(dtype)))
    })
}

/// Whole rows of length `n`: the joined elements up to each one, from `start` on.
fn rows<T: Wider>(
    x: &[T],
    n: usize,
    y: &mut [T],
    start: i64,
    join: impl Fn(T::In, T::In) -> T::In,
) -> TaskResult {
    for (x, y) in x.chunks_exact(n.max(1)).zip(y.chunks_exact_mut(n.max(1))) {
        let mut joined = T::In::from_wide(Wide::Int(start));
        for (x, y) in x.iter().zip(y) {
            joined = join(joined, x.wider());
            *y = T::narrower(joined);
        }
    }
    Ok(())
}

impl<T: Num> Kernel<Scan<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Scan<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        scan(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y), op.axis)
    }
}
