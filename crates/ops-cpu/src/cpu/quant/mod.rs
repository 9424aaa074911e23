//! Quantized tensors.
use super::Cpu;
use super::matmul::stored;
use super::rows::{each, row, scratch, widened, zeros};
use super::threads;
use super::vectors::{no_code, report};
use crate::host::raw::{Raw, RawMut, block_info, on_float, resolve};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Dequantize, Quantize};
use ops_core::{BlockInfo, Call, DType, Float, Result, Scalar};
use ops_simd::Isa;
use ops_simd::gemm::{Mat, MatMut, gemm};

pub(super) mod blocks;

/// Rows of the weight that are dequantized at a time.
const PANEL: usize = 64;

pub(super) fn quantize(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let format = block_info("quantize", y.dtype)?;
    each("quantize", y, 4 * x.layout.last(), &|[scratch, ..], i, y| {
        let values = cast_slice::<u8, f32>(row(&x, i, scratch)).chunks_exact(format.values());
        y.chunks_exact_mut(format.bytes())
            .zip(values)
            .for_each(|(block, values)| format.encode(values, block));
        Ok(())
    })
}

/// The values of a row of blocks.
fn values(format: &BlockInfo, blocks: &[u8], y: &mut [f32]) {
    let rows = y.chunks_exact_mut(format.values()).zip(blocks.chunks_exact(format.bytes()));
    rows.for_each(|(values, block)| format.decode(block, values));
}

pub(super) fn dequantize(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (n, format) = (y.layout.last(), block_info("dequantize", x.dtype)?);
    each("dequantize", y, n, &|[scratch, ..], i, y| {
        values(format, row(&x, i, scratch), cast_slice_mut(y));
        Ok(())
    })
}

/// Outputs fewer than these are computed without rounding `x`: the error of a rounded `x` is small beside the mean of
/// many sums, and not beside one sum that cancels.
const FEW: usize = 16;

/// `y = x · weightᵀ`: integer products for the formats that have them, else through f32.
pub(super) fn qlinear(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    if x.dtype == DType::F64 {
        return qlinear_f64(x, weight, bias, y);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    let multiply = |y: &mut [f32]| match blocks::known(weight.dtype) {
        Some(known) if y.len() >= FEW => blocks::multiply(known, &x, &weight, y),
        _ => panels(&x, &weight, y),
    };
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    stored(&sums, bias.as_deref(), y)
}

/// A part of the product: the first row of the weight, and its columns of y.
type Part<'a> = (usize, MatMut<'a, f32>);

/// The columns of `y[m, n]` in parts of `PANEL`.
fn parts(y: &mut [f32], m: usize, n: usize) -> core::result::Result<Vec<Part<'_>>, ops_simd::Error> {
    let (mut parts, mut rest, mut first) = (Vec::new(), MatMut::new(y, m, n, n)?, 0);
    while rest.cols() > 0 {
        let (part, after) = rest.split_at_col(PANEL);
        parts.push((first, part));
        (rest, first) = (after, first + PANEL);
    }
    Ok(parts)
}

/// Panels of the weight become f32 in a thread's cache and are multiplied from there: for few outputs, and for formats
/// of other crates.
fn panels(x: &Raw<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let format = block_info("qlinear", weight.dtype)?;
    let (k, n) = (x.layout.last(), weight.layout.dims()[0]);
    let m = y.len().checked_div(n).unwrap_or(0);
    let x = widened(x)?;
    let one = |(first, y): Part<'_>| {
        let (rows, mut lent) = (y.cols(), Default::default());
        let mut wide = vec![0.0; rows * k];
        for (j, wide) in wide.chunks_exact_mut(k.max(1)).enumerate() {
            values(format, row(weight, first + j, &mut lent), wide);
        }
        let w = Mat::row_major(&wide, rows, k)?;
        gemm(Isa::best(), Mat::row_major(&x, m, k)?, w.transposed(), y, false)
    };
    report("qlinear", parts(y, m, n).and_then(|parts| threads::each_part(parts, &one)))
}

/// In f64 there is no vector kernel to feed.
fn qlinear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let format = block_info("qlinear", weight.dtype)?;
    let (k, n, x) = (x.layout.last(), y.layout.last(), x.values());
    let (mut wide, mut sums, mut scratch) =
        (zeros::<f32>(k)?, zeros::<f64>(y.layout.len())?, Default::default());
    for j in 0..n {
        values(format, row(&weight, j, &mut scratch), &mut wide);
        for (x, sums) in x.chunks_exact(k.max(1)).zip(sums.chunks_exact_mut(n)) {
            sums[j] = x.iter().zip(&wide).map(|(x, w)| x * f64::from(*w)).sum();
        }
    }
    let bias = bias.map(|b| b.values());
    let added = |i: usize| bias.as_ref().map_or(0.0, |b| b[i % n]);
    y.scatter(y.layout.positions(), sums.iter().enumerate().map(|(i, v)| v + added(i)));
    Ok(())
}

/// Rows of a table of floats or of blocks. `name` is that of the call.
pub(super) fn embedding(table: Raw<'_>, ids: Raw<'_>, y: RawMut<'_>, name: &'static str) -> Result<()> {
    let rows = resolve(name, ids, table.dims()[0])?;
    let (n, dtype) = (y.layout.last(), y.dtype);
    each(name, y, n, &|[scratch, ..], i, y| {
        let Some(picked) = rows[i] else {
            y.fill(0);
            return Ok(());
        };
        let row = row(&table, picked, scratch);
        match table.dtype {
            same if same == dtype => y.copy_from_slice(row),
            DType::Block(format) => {
                let mut wide = vec![0.0f32; n];
                values(format, row, &mut wide);
                on_float!(dtype, T => narrow::<T>(&wide, y), else return Err(no_code(dtype)));
            }
            other => on_float!(other, W => on_float!(dtype, T => {
                let row = cast_slice::<u8, W>(row);
                cast_slice_mut::<u8, T>(y).iter_mut().zip(row).for_each(|(y, w)| *y = T::from_wide(w.to_wide()));
            }, else return Err(no_code(dtype))), else return Err(no_code(other))),
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
