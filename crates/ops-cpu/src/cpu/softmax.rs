//! Softmax and its logarithm.
use super::rows::map;
use super::vectors::{on_vector, only_f64, store};
use super::{Cpu, wide};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::Softmax;
use ops_core::{Call, Float, Result};
use ops_simd::{Isa, rows as vector};

pub(super) fn softmax(x: Raw<'_>, y: RawMut<'_>, axis: isize, log: bool) -> Result<()> {
    // Any axis as the last one, through the layout.
    let (lx, ly) = (x.layout.transpose(axis, -1)?, y.layout.transpose(axis, -1)?);
    let (isa, n, dtype, store) = (Isa::best(), lx.last(), x.dtype, store(y.bytes.len()));
    map("softmax", [x.under(lx)], y.under(ly), n, 16, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            let rows = if log { vector::log_softmax } else { vector::softmax };
            Ok(rows(isa, x, n, y, store)?)
        }, else {
            only_f64(dtype)?;
            wide::softmax(cast_slice(x), n, log, cast_slice_mut(y));
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
