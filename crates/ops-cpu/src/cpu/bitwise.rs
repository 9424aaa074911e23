//! Bitwise functions of integers. The compiler makes vectors of these loops.
use super::Cpu;
use super::elementwise::{apply, apply2};
use super::runs::map_runs;
use super::vectors::unsupported_dtype;
use crate::host::raw::{Raw, RawMut, on_integer};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use ops_core::ops::{Bitwise, BitwiseFn, BitwiseNot};
use ops_core::{Call, Integer, Result};

pub(super) fn bitwise(f: BitwiseFn, a: Raw<'_>, b: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    if !BitwiseFn::ALL.contains(&f) {
        return Err(unknown_function(f.name()));
    }
    let dtype = a.dtype;
    map_runs(f.name(), [a, b], y, 1, 1, &|[a, b], y| {
        // A loop for each function, so that none asks for every element which one it is.
        on_integer!(dtype, T => match f {
            BitwiseFn::And => apply2::<T>(a, b, y, |a, b| a & b),
            BitwiseFn::Or => apply2::<T>(a, b, y, |a, b| a | b),
            BitwiseFn::Xor => apply2::<T>(a, b, y, |a, b| a ^ b),
            BitwiseFn::ShiftLeft => apply2::<T>(a, b, y, T::shift_left),
            _ => apply2::<T>(a, b, y, T::shift_right),
        }, else Err(unsupported_dtype(dtype)))
    })
}

pub(super) fn bitwise_not(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let dtype = x.dtype;
    map_runs(
        "bitwise_not",
        [x],
        y,
        1,
        1,
        &|[x], y| on_integer!(dtype, T => apply::<T, T>(x, y, |v| !v), else Err(unsupported_dtype(dtype))),
    )
}

impl<T: Integer> Kernel<Bitwise<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Bitwise<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        bitwise(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y))
    }
}
impl<T: Integer> Kernel<BitwiseNot<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, BitwiseNot<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        bitwise_not(Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
