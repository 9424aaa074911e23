//! Conversions between element types.
use super::Cpu;
use super::elementwise::apply;
use super::runs::map_runs;
use super::vectors::{TaskResult, on_vector, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_scalar};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::Cast;
use ops_core::{Call, DType, Element, Result, Scalar};
use ops_simd::Isa;

pub(super) fn cast(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, from, to, store) = (Isa::best(), x.dtype, y.dtype, store_mode(y.bytes.len()));
    map_runs("cast", [x], y, 1, 1, &|[x], y| {
        on_vector!(from, A => on_vector!(to, B => {
            return Ok(ops_simd::cast(isa, cast_slice::<u8, A>(x), cast_slice_mut::<u8, B>(y), store)?);
        }, else {}), else {});
        if let Some(widen) = widening(from) {
            on_vector!(to, B => {
                return cast_widened(isa, x, x.len() / from.size(), widen, cast_slice_mut::<u8, B>(y), store);
            }, else {});
        }
        on_scalar!(from, A => on_scalar!(to, B => {
            apply::<A, B>(x, y, |v| B::from_wide(v.to_wide()))
        }, else Err(unsupported_dtype(to))), else Err(unsupported_dtype(from)))
    })
}

/// Reads elements from an index on, as f32.
type Widen = fn(&[u8], usize, &mut [f32]);

/// How to read a small integer as f32, which represents all of its values.
fn widening(from: DType) -> Option<Widen> {
    fn read<A: Element + Into<f32>>(x: &[u8], first: usize, to: &mut [f32]) {
        for (to, x) in to.iter_mut().zip(&cast_slice::<u8, A>(x)[first..]) {
            *to = (*x).into();
        }
    }
    match from {
        DType::U8 => Some(read::<u8>),
        DType::I8 => Some(read::<i8>),
        DType::I16 => Some(read::<i16>),
        _ => None,
    }
}

/// A cast through f32, in blocks that stay in the L1 cache.
fn cast_widened<B: ops_simd::Element>(
    isa: Isa,
    x: &[u8],
    n: usize,
    widen: Widen,
    y: &mut [B],
    store: ops_simd::Store,
) -> TaskResult {
    let mut block = [0f32; 1024];
    for first in (0..n).step_by(block.len()) {
        let block = &mut block[..(n - first).min(1024)];
        widen(x, first, block);
        ops_simd::cast(isa, block, &mut y[first..first + block.len()], store)?;
    }
    Ok(())
}
impl<T: Scalar> Kernel<Cast<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Cast<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        cast(Raw::any(&a.x), RawMut::of(&mut a.y))
    }
}
