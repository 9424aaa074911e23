//! Softmax and log-softmax.
use super::runs::map_runs;
use super::vectors::{on_vector, only_f64, store_mode};
use super::{Cpu, f64_rows};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::Softmax;
use ops_core::{Call, Float, Result};
use ops_simd::{Isa, rows as vector};

pub(super) fn softmax(x: Raw<'_>, y: RawMut<'_>, axis: isize, log: bool) -> Result<()> {
    // Transposing the layout makes any axis the last one.
    let (lx, ly) = (x.layout.transpose(axis, -1)?, y.layout.transpose(axis, -1)?);
    let (isa, n, dtype, store) = (Isa::best(), lx.last(), x.dtype, store_mode(y.bytes.len()));
    map_runs("softmax", [x.with_layout(lx)], y.with_layout(ly), n, 16, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            let rows = if log { vector::log_softmax } else { vector::softmax };
            Ok(rows(isa, x, n, y, store)?)
        }, else {
            only_f64(dtype)?;
            f64_rows::softmax(cast_slice(x), n, log, cast_slice_mut(y));
            Ok(())
        })
    })
}

impl<T: Float> Kernel<Softmax<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Softmax<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        softmax(Raw::of(&a.x), RawMut::of(&mut a.y), op.axis, op.log)
    }
}
