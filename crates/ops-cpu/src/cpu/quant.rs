//! Quantized tensors.
use super::Cpu;
use super::product::{gemm, store_sums};
use super::rows::{for_each_row, row, scratch, widened, zeros};
use super::threads;
use super::vectors::{report, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, block_info, on_float, resolve};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use inputs::Inputs;
use ops_core::ops::{Dequantize, Quantize};
use ops_core::{BlockInfo, Call, DType, Float, Result, Scalar};
use ops_simd::Isa;
use ops_simd::gemm::{Mat, MatMut};

pub(super) mod blocks;
pub(super) mod inputs;

/// Rows of the weight dequantized at a time.
const PANEL_ROWS: usize = 64;

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

/// Decodes a row of blocks.
fn decode_row(format: &BlockInfo, blocks: &[u8], y: &mut [f32]) {
    let rows = y.chunks_exact_mut(format.values()).zip(blocks.chunks_exact(format.bytes()));
    rows.for_each(|(values, block)| format.decode(block, values));
}

pub(super) fn dequantize(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (n, format) = (y.layout.last(), block_info("dequantize", x.dtype)?);
    for_each_row("dequantize", y, n, &|[scratch, ..], i, y| {
        decode_row(format, row(&x, i, scratch), cast_slice_mut(y));
        Ok(())
    })
}

/// Below this many outputs, `x` is not quantized. Over many outputs the rounding error of `x` averages out, but it can
/// dominate a single sum that cancels.
const MIN_INTEGER_OUTPUTS: usize = 16;
/// The same for other formats. The minima of super-blocks add the same sum of `x` to all outputs of a row, so errors average out
/// more slowly.
const MIN_MIXED_OUTPUTS: usize = 64;

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
    // A broadcast row repeats the same error in all its outputs.
    let [n, stride] = [weight.layout.dims()[0], weight.layout.strides()[0].unsigned_abs()];
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let rows = if threads::by_row() { 1 } else { m };
    let distinct = if stride == 0 { rows } else { rows * n };
    let format = block_info("qlinear", weight.dtype)?;
    let multiply =
        |y: &mut [f32]| match (blocks::simd_format(weight.dtype), blocks::kernel(weight.dtype, rows)) {
            (Some(known), _) if distinct >= MIN_INTEGER_OUTPUTS => blocks::multiply(known, &x, &weight, y),
            (None, Some(kernel)) if distinct >= MIN_MIXED_OUTPUTS => {
                blocks::multiply_with(kernel, &x, &weight, y)
            }
            (None, None) if distinct >= MIN_MIXED_OUTPUTS && blocks::is_many(rows) => {
                blocks::multiply_requantized(format, &x, &weight, y)
            }
            _ => multiply_dequantized(format, &x, &weight, y),
        };
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    store_sums(&sums, bias.as_deref(), y)
}

/// Part of the product: the index of its first weight row, and the matching columns of `y`.
type Part<'a> = (usize, MatMut<'a, f32>);

/// Splits the columns of `y[m, n]` into parts of `PANEL_ROWS`.
fn split_panels(y: &mut [f32], m: usize, n: usize) -> core::result::Result<Vec<Part<'_>>, ops_simd::Error> {
    let (mut parts, mut rest, mut first) = (Vec::new(), MatMut::new(y, m, n, n)?, 0);
    while rest.cols() > 0 {
        let (part, after) = rest.split_at_col(PANEL_ROWS);
        parts.push((first, part));
        (rest, first) = (after, first + PANEL_ROWS);
    }
    Ok(parts)
}

/// Dequantizes panels of the weight into a thread's cache and multiplies them as f32. Used for few outputs, and for few rows of
/// formats without integer kernels.
fn multiply_dequantized(
    format: &'static BlockInfo,
    x: &Inputs<'_>,
    weight: &Raw<'_>,
    y: &mut [f32],
) -> Result<()> {
    let (k, n) = (x.k(), weight.layout.dims()[0]);
    let m = y.len().checked_div(n).unwrap_or(0);
    let x = x.widened()?;
    let one = |(first, y): Part<'_>| {
        let (rows, mut scratch) = (y.cols(), Default::default());
        let mut wide = vec![0.0; rows * k];
        for (j, wide) in wide.chunks_exact_mut(k.max(1)).enumerate() {
            decode_row(format, row(weight, first + j, &mut scratch), wide);
        }
        let w = Mat::row_major(&wide, rows, k)?;
        gemm(Isa::best(), Mat::row_major(&x, m, k)?, w.transposed(), y, false)
    };
    report("qlinear", split_panels(y, m, n).and_then(|parts| threads::for_each_part(parts, &one)))
}

/// The f64 implementation, in plain loops.
fn qlinear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let format = block_info("qlinear", weight.dtype)?;
    let (k, n, x) = (x.layout.last(), y.layout.last(), x.values());
    let (mut wide, mut sums, mut scratch) =
        (zeros::<f32>(k)?, zeros::<f64>(y.layout.len())?, Default::default());
    for j in 0..n {
        decode_row(format, row(&weight, j, &mut scratch), &mut wide);
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
                decode_row(format, row, &mut wide);
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
