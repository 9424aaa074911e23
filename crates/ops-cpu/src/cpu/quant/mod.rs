//! Quantized tensors.
use super::Cpu;
use super::matmul::stored;
use super::rows::{each, row, scratch, widened, zeros};
use super::threads;
use super::vectors::told;
use crate::host::raw::{Format, Raw, RawMut, resolve};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{
    Dequantize, DequantizeArgs, QEmbedding, QEmbeddingArgs, QLinear, QLinearArgs, Quantize, QuantizeArgs,
};
use ops_core::quant::Block;
use ops_core::{DType, Float, Index, Result, f16};
use ops_simd::Isa;
use ops_simd::gemm::{Mat, MatMut, gemm};

pub(super) mod blocks;

/// Rows of the weight that are dequantized at a time.
const PANEL: usize = 64;

fn quantize(format: Format, x: Raw<'_>, y: RawMut<'_>) {
    let size = y.size;
    each(y, 4 * x.layout.last(), &|[scratch, ..], i, y| {
        let values = cast_slice::<u8, f32>(row(&x, i, scratch)).chunks_exact(format.len);
        y.chunks_exact_mut(size).zip(values).for_each(|(block, values)| (format.quantize)(values, block));
    });
}

/// The values of a row of blocks.
fn values(format: Format, blocks: &[u8], size: usize, y: &mut [f32]) {
    let rows = y.chunks_exact_mut(format.len).zip(blocks.chunks_exact(size));
    rows.for_each(|(values, block)| (format.dequantize)(block, values));
}

fn dequantize(format: Format, x: Raw<'_>, y: RawMut<'_>) {
    let n = y.layout.last();
    each(y, n, &|[scratch, ..], i, y| {
        values(format, row(&x, i, scratch), x.size, cast_slice_mut(y));
    });
}

/// Outputs fewer than these are computed without rounding `x`: the error of a rounded `x` is small beside the mean of
/// many sums, and not beside one sum that cancels.
const FEW: usize = 16;

/// `y = x · weightᵀ`: integer products for the formats that have them, else through f32.
fn qlinear(format: Format, x: Raw<'_>, weight: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let multiply = |y: &mut [f32]| match blocks::known(weight.dtype) {
        Some(known) if y.len() >= FEW => blocks::multiply(known, &x, &weight, y),
        _ => panels(format, &x, &weight, y),
    };
    if y.dtype == DType::F32 && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    stored(&sums, None, y)
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
fn panels(format: Format, x: &Raw<'_>, weight: &Raw<'_>, y: &mut [f32]) -> Result<()> {
    let (k, n) = (x.layout.last(), weight.layout.dims()[0]);
    let m = y.len().checked_div(n).unwrap_or(0);
    let x = widened(x)?;
    let one = |(first, y): Part<'_>| {
        let (rows, mut lent) = (y.cols(), Default::default());
        let mut wide = vec![0.0; rows * k];
        for (j, wide) in wide.chunks_exact_mut(k.max(1)).enumerate() {
            values(format, row(weight, first + j, &mut lent), weight.size, wide);
        }
        let w = Mat::row_major(&wide, rows, k)?;
        gemm(Isa::best(), Mat::row_major(&x, m, k)?, w.transposed(), y, false)
    };
    told("qlinear", parts(y, m, n).and_then(|parts| threads::each_part(parts, &one)))
}

/// In f64 there is no vector kernel to feed.
fn qlinear_f64(format: Format, x: Raw<'_>, weight: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let (k, n, x) = (x.layout.last(), y.layout.last(), x.values());
    let (mut wide, mut sums, mut scratch) =
        (zeros::<f32>(k)?, zeros::<f64>(y.layout.len())?, Default::default());
    for j in 0..n {
        values(format, row(&weight, j, &mut scratch), weight.size, &mut wide);
        for (x, sums) in x.chunks_exact(k.max(1)).zip(sums.chunks_exact_mut(n)) {
            sums[j] = x.iter().zip(&wide).map(|(x, w)| x * f64::from(*w)).sum();
        }
    }
    y.scatter(y.layout.positions(), sums);
    Ok(())
}

fn qembedding(format: Format, table: Raw<'_>, ids: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let rows = resolve("qembedding", ids, table.dims()[0])?;
    let (n, dtype) = (y.layout.last(), y.dtype);
    each(y, n, &|[scratch, ..], i, y| {
        let mut wide = vec![0.0f32; n];
        if let Some(picked) = rows[i] {
            values(format, row(&table, picked, scratch), table.size, &mut wide);
        }
        match dtype {
            DType::F16 => narrow::<f16>(&wide, y),
            DType::BF16 => narrow::<ops_core::bf16>(&wide, y),
            DType::F32 => narrow::<f32>(&wide, y),
            _ => narrow::<f64>(&wide, y),
        }
    });
    Ok(())
}

fn narrow<T: Float>(x: &[f32], y: &mut [u8]) {
    for (y, x) in cast_slice_mut::<u8, T>(y).iter_mut().zip(x) {
        *y = T::from_f64(f64::from(*x));
    }
}

impl<Q: Block> Kernel<Quantize<Q>> for Cpu {
    fn compute(&self, _: &Quantize<Q>, a: &mut QuantizeArgs<'_, Host, Q>) -> Result<()> {
        quantize(Format::of::<Q>(), Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<Q: Block> Kernel<Dequantize<Q>> for Cpu {
    fn compute(&self, _: &Dequantize<Q>, a: &mut DequantizeArgs<'_, Host, Q>) -> Result<()> {
        dequantize(Format::of::<Q>(), Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Float, Q: Block> Kernel<QLinear<T, Q>> for Cpu {
    fn compute(&self, _: &QLinear<T, Q>, a: &mut QLinearArgs<'_, Host, T, Q>) -> Result<()> {
        let kernel = if T::DTYPE == DType::F64 { qlinear_f64 } else { qlinear };
        kernel(Format::of::<Q>(), Raw::of(&a.x), Raw::of(&a.weight), RawMut::of(&mut a.y))
    }
}
impl<T: Float, Q: Block, I: Index> Kernel<QEmbedding<T, Q, I>> for Cpu {
    fn compute(&self, _: &QEmbedding<T, Q, I>, a: &mut QEmbeddingArgs<'_, Host, T, Q, I>) -> Result<()> {
        qembedding(Format::of::<Q>(), Raw::of(&a.table), Raw::of(&a.ids), RawMut::of(&mut a.y))
    }
}
