//! Quantized tensors.
use super::Cpu;
use super::product::{gemm, split_columns, store_sums};
use super::rows::{for_each_row, row, scratch, widened, zeros};
use super::threads;
use super::vectors::{report, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, block_info, on_float, resolve};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use inputs::Inputs;
use known::Decoder;
use ops_core::ops::{Dequantize, Quantize};
use ops_core::{Call, DType, Error, Float, Result, Scalar};
use ops_simd::Isa;
use ops_simd::gemm::{Mat, MatMut};

pub(super) mod blocks;
pub(super) mod inputs;
pub(super) mod known;

pub(super) fn quantize(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let format = block_info("quantize", y.dtype)?;
    for_each_row("quantize", y, 4 * x.layout.last(), &|[scratch, ..], i, y| {
        let values = cast_slice::<u8, f32>(row(&x, i, scratch)).chunks_exact(format.values());
        let written = y
            .chunks_exact_mut(format.bytes())
            .zip(values)
            .all(|(block, values)| format.encode(values, block));
        if written { Ok(()) } else { Err("the format is read-only".into()) }
    })
}

pub(super) fn dequantize(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (n, decoder) = (y.layout.last(), Decoder::of(block_info("dequantize", x.dtype)?));
    for_each_row("dequantize", y, n, &|[scratch, ..], i, y| {
        decoder.row(row(&x, i, scratch), cast_slice_mut(y));
        Ok(())
    })
}

/// `y = x · weightᵀ + bias`: integer products for the formats that have kernels, otherwise through f32.
pub(super) fn qlinear(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    if x.dtype == DType::F64 {
        return qlinear_f64(x, weight, bias, y);
    }
    multiply(Inputs::all(x), weight, bias, y)
}

/// [`qlinear`] of rows that are not of f64.
pub(super) fn multiply(
    x: Inputs<'_>,
    weight: Raw<'_>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let bias = bias.map(|b| widened(&b)).transpose()?;
    let decoder = Decoder::of(block_info("qlinear", weight.dtype)?);
    let rows = y.layout.len().checked_div(weight.layout.dims()[0]).unwrap_or(0);
    let multiply = match blocks::rounds(decoder, &weight, rows) {
        true => blocks::multiply,
        false => multiply_decoded,
    };
    let multiply = |y: &mut [f32]| multiply(decoder, &x, &weight, y);
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    store_sums(&sums, bias.as_deref(), y)
}

/// Bytes of decoded weights that stay in the L1 cache.
const L1_BYTES: usize = 32 << 10;
/// Up to this many rows of activations, decoding limits the speed.
const FEW_ROWS: usize = 8;
/// Rows of the weight decoded at a time, for many rows of activations.
const PANEL_ROWS: usize = 64;

/// Decodes a few rows of the weight at a time into a thread's cache and multiplies them as f32, without rounding the activations.
pub(super) fn multiply_decoded(
    decoder: Decoder<'_>,
    x: &Inputs<'_>,
    weight: &Raw<'_>,
    y: &mut [f32],
) -> Result<()> {
    let (k, n) = (x.k(), weight.layout.dims()[0]);
    let m = y.len().checked_div(n).unwrap_or(0);
    let x = x.widened()?;
    let few = (L1_BYTES / (4 * k.max(1))).clamp(4, PANEL_ROWS);
    let panel = if m <= FEW_ROWS { few } else { PANEL_ROWS };
    let part = |(first, mut y): (usize, MatMut<'_, f32>)| {
        let mut wide = scratch::<f32>(panel.min(y.cols()) * k)?;
        let (mut scratch, mut first) = (Default::default(), first);
        while y.cols() > 0 {
            let (now, after) = y.split_at_col(panel);
            let wide = &mut wide.as_mut_slice()[..now.cols() * k];
            for (j, wide) in wide.chunks_exact_mut(k.max(1)).enumerate() {
                decoder.row(row(weight, first + j, &mut scratch), wide);
            }
            let product = || {
                let w = Mat::row_major(wide, now.cols(), k)?;
                gemm(Isa::best(), Mat::row_major(&x, m, k)?, w.transposed(), now, false)
            };
            report("qlinear", product())?;
            (y, first) = (after, first + panel);
        }
        Ok::<(), Error>(())
    };
    let all = report("qlinear", MatMut::new(y, m, n, n))?;
    threads::for_each_part(split_columns(all, m.saturating_mul(k), panel, 4), &part)
}

/// The f64 implementation, in plain loops.
fn qlinear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let decoder = Decoder::of(block_info("qlinear", weight.dtype)?);
    let (k, n, x) = (x.layout.last(), y.layout.last(), x.values());
    let (mut wide, mut sums, mut scratch) =
        (zeros::<f32>(k)?, zeros::<f64>(y.layout.len())?, Default::default());
    for j in 0..n {
        decoder.row(row(&weight, j, &mut scratch), &mut wide);
        for (x, sums) in x.chunks_exact(k.max(1)).zip(sums.chunks_exact_mut(n)) {
            sums[j] = x.iter().zip(&wide).map(|(x, w)| x * f64::from(*w)).sum();
        }
    }
    let bias = bias.map(|b| b.values());
    let added = |i: usize| bias.as_ref().map_or(0.0, |b| b[i % n]);
    y.scatter(y.layout.positions(), sums.iter().enumerate().map(|(i, v)| v + added(i)));
    Ok(())
}

/// Selects rows of a table of floats or blocks. `name` is the call's name in errors.
pub(super) fn embedding(table: Raw<'_>, ids: Raw<'_>, y: RawMut<'_>, name: &'static str) -> Result<()> {
    let rows = resolve(name, ids, table.dims()[0])?;
    let (n, dtype) = (y.layout.last(), y.dtype);
    for_each_row(name, y, n, &|[scratch, ..], i, y| {
        let Some(picked) = rows[i] else {
            y.fill(0);
            return Ok(());
        };
        let row = row(&table, picked, scratch);
        match table.dtype {
            same if same == dtype => y.copy_from_slice(row),
            DType::Block(format) => {
                let mut wide = vec![0.0f32; n];
                Decoder::of(format).row(row, &mut wide);
                on_float!(dtype, T => narrow::<T>(&wide, y), else return Err(unsupported_dtype(dtype)));
            }
            other => on_float!(other, W => on_float!(dtype, T => {
                let row = cast_slice::<u8, W>(row);
                cast_slice_mut::<u8, T>(y).iter_mut().zip(row).for_each(|(y, w)| *y = T::from_wide(w.to_wide()));
            }, else return Err(unsupported_dtype(dtype))), else return Err(unsupported_dtype(other))),
        }
        Ok(())
    })
}

fn narrow<T: Float>(x: &[f32], y: &mut [u8]) {
    for (y, x) in cast_slice_mut::<u8, T>(y).iter_mut().zip(x) {
        *y = T::from_f64(f64::from(*x));
    }
}

impl Kernel<Quantize> for Cpu {
    fn compute(&self, call: Call<'_, '_, Quantize, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        quantize(Raw::of(&a.x), RawMut::any(&mut a.y))
    }
}
impl Kernel<Dequantize> for Cpu {
    fn compute(&self, call: Call<'_, '_, Dequantize, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        dequantize(Raw::any(&a.x), RawMut::of(&mut a.y))
    }
}
