//! Gated activations, gated norms and the L2 norm.
use super::Cpu;
use super::f64_rows;
use super::rows::{for_each_row, row, widened};
use super::runs::map_runs;
use super::vectors::{TaskResult, on_vector, only_f64, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{GatedRmsNorm, L2Norm, SwigluClamped, UnaryFn};
use ops_core::{Call, DType, Float, Result};
use ops_simd::{Binary, Isa, Store, rows as vector};

pub(super) fn l2_norm(x: Raw<'_>, y: RawMut<'_>, eps: f64) -> Result<()> {
    let (isa, n, dtype, store) = (Isa::best(), x.layout.last(), x.dtype, store_mode(y.bytes.len()));
    map_runs("l2_norm", [x], y, n, 2, &|[x], y| {
        on_vector!(dtype, T => {
            Ok(vector::l2_norm(isa, cast_slice::<u8, T>(x), n, eps as f32, cast_slice_mut::<u8, T>(y), store)?)
        }, else {
            only_f64(dtype)?;
            let rows = cast_slice::<u8, f64>(x).chunks_exact(n).zip(cast_slice_mut::<u8, f64>(y).chunks_exact_mut(n));
            for (x, y) in rows {
                let root = (f64_rows::sum(x, |v| v * v) + eps).sqrt();
                y.iter_mut().zip(x).for_each(|(y, x)| *y = x / root);
            }
            Ok(())
        })
    })
}

/// One row: the norm in f32, times the silu of the gate. `scratch` is memory for three rows.
fn gated_row<T: ops_simd::Element>(
    x: &[T],
    gate: &[T],
    weight: &[f32],
    eps: f32,
    scratch: &mut [f32],
    y: &mut [T],
) -> TaskResult {
    let (isa, n) = (Isa::best(), weight.len());
    let (wide, rest) = scratch.split_at_mut(n);
    let (norm, product) = rest.split_at_mut(n);
    ops_simd::cast(isa, gate, wide, Store::Cached)?;
    vector::rms_norm(isa, x, weight, eps, norm, Store::Cached)?;
    ops_simd::binary(isa, Binary::SwiGlu, wide, norm, &mut product[..n], Store::Cached)?;
    Ok(ops_simd::cast(isa, &product[..n], y, Store::Cached)?)
}

pub(super) fn gated_rms_norm(
    x: Raw<'_>,
    gate: Raw<'_>,
    weight: Raw<'_>,
    y: RawMut<'_>,
    eps: f64,
) -> Result<()> {
    let (n, dtype) = (x.layout.last(), x.dtype);
    let wide_weight = if dtype == DType::F64 { weight.values() } else { Vec::new() };
    let weight = if dtype == DType::F64 { Vec::new().into() } else { widened(&weight)? };
    for_each_row("gated_rms_norm", y, n.saturating_mul(6), &|[sx, sg, scratch], i, y| {
        let (x, gate) = (row(&x, i, sx), row(&gate, i, sg));
        on_vector!(dtype, T => {
            let (x, gate) = (cast_slice::<u8, T>(x), cast_slice::<u8, T>(gate));
            // Two floats per word.
            let scratch = cast_slice_mut::<u64, f32>(scratch.words((3 * n).div_ceil(2)));
            gated_row(x, gate, &weight, eps as f32, scratch, cast_slice_mut::<u8, T>(y))
        }, else {
            only_f64(dtype)?;
            let y = cast_slice_mut::<u8, f64>(y);
            f64_rows::rms_norm(cast_slice(x), &wide_weight, eps, y);
            y.iter_mut().zip(cast_slice::<u8, f64>(gate)).for_each(|(y, g)| *y *= UnaryFn::Silu.at(*g));
            Ok(())
        })
    })
}

pub(super) fn swiglu_clamped(
    gate: Raw<'_>,
    up: Raw<'_>,
    y: RawMut<'_>,
    alpha: f64,
    limit: f64,
) -> Result<()> {
    let (isa, dtype, store) = (Isa::best(), gate.dtype, store_mode(y.bytes.len()));
    let by = ops_simd::SwigluClamped { alpha: alpha as f32, limit: limit as f32 };
    map_runs("swiglu_clamped", [gate, up], y, 1, 4, &|[gate, up], y| {
        on_vector!(dtype, T => {
            let (gate, up) = (cast_slice::<u8, T>(gate), cast_slice::<u8, T>(up));
            Ok(ops_simd::swiglu_clamped(isa, by, gate, up, cast_slice_mut::<u8, T>(y), store)?)
        }, else {
            if dtype != DType::F64 {
                return Err(unsupported_dtype(dtype));
            }
            let pairs = cast_slice::<u8, f64>(gate).iter().zip(cast_slice::<u8, f64>(up));
            for (y, (gate, up)) in cast_slice_mut::<u8, f64>(y).iter_mut().zip(pairs) {
                let (g, u) = (clamp(*gate, f64::NEG_INFINITY, limit), clamp(*up, -limit, limit));
                *y = g * UnaryFn::Sigmoid.at(alpha * g) * (u + 1.0);
            }
            Ok(())
        })
    })
}

/// `min(max(v, low), high)`; NaN stays NaN.
fn clamp(v: f64, low: f64, high: f64) -> f64 {
    if v.is_nan() { v } else { v.max(low).min(high) }
}

impl<T: Float> Kernel<L2Norm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, L2Norm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        l2_norm(Raw::of(&a.x), RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float> Kernel<GatedRmsNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, GatedRmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, gate, weight) = (Raw::of(&a.x), Raw::of(&a.gate), Raw::any(&a.weight));
        gated_rms_norm(x, gate, weight, RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float> Kernel<SwigluClamped<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, SwigluClamped<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        swiglu_clamped(Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y), op.alpha, op.limit)
    }
}
