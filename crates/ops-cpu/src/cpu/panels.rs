//! Weights held in panels and tiles.
use super::matmul::{columns, stored};
use super::quant::blocks;
use super::rows::{packed, scratch, widened};
use super::threads;
use super::vectors::{Done, no_code, on_vector, report};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, HostBuffer};
use bytemuck::cast_slice_mut;
use ops_core::{AnyRef, AnyTensor, DType, Packing, Result, bf16, f16};
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm_packed};
use ops_simd::quant::{BLOCK, TILE_ROWS, Tiles, multiply};
use ops_simd::{Error as SimdError, Isa};

/// Weights of fewer blocks' values stay as they are.
const SMALL: usize = 1 << 12;
/// Floats of no more bytes stay as they are: in the second cache, one row of x reads them as fast, and many rows order them at
/// little cost.
const CACHED: usize = 1 << 20;
/// Weights of fewer outputs stay as they are.
const NARROW: usize = 16;
/// Rows of x from which on threads get one part each.
const MANY: usize = 32;

/// A weight `[n, k]` in the order of this processor's kernels: floats in panels of as many columns as a kernel computes at
/// once, blocks in tiles of sixteen rows. It takes as many bytes as the weight it was made from, up to rounding by a panel or
/// tile.
pub(super) static PANELS: Packing = Packing::new("panels", size, 64, unpack);

fn size(dtype: DType, dims: &[usize]) -> Option<usize> {
    let (&[n, k], isa) = (dims, Isa::best()) else { return None };
    match dtype {
        DType::F32 => Some(PackedB::<f32>::size(isa, k, n)),
        DType::F16 => Some(PackedB::<f16>::size(isa, k, n)),
        DType::BF16 => Some(PackedB::<bf16>::size(isa, k, n)),
        blocks => Some(Tiles::size(blocks::known(blocks)?, n, k.checked_mul(BLOCK)?)),
    }
}

fn unpack(dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> Result<()> {
    // Panels begin on a cache line, and elements where an element may. Bytes from elsewhere need not.
    let (mut from, mut to) = (HostBuffer::new(packed.len(), "cpu")?, HostBuffer::new(plain.len(), "cpu")?);
    from.as_mut_slice().copy_from_slice(packed);
    report("unpack", unpacked(dtype, dims, &from, to.as_mut_slice()))?;
    plain.copy_from_slice(&to);
    Ok(())
}

fn unpacked(dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> Done {
    fn floats<W: Input>([n, k]: [usize; 2], packed: &[u8], plain: &mut [u8]) -> Done {
        let panels = PackedB::<W>::lent(Isa::best(), k, n, packed)?;
        Ok(panels.unpack_transposed(cast_slice_mut(plain))?)
    }
    let &[n, k] = dims else { return Err("only matrices are packed".into()) };
    match dtype {
        DType::F32 => floats::<f32>([n, k], packed, plain),
        DType::F16 => floats::<f16>([n, k], packed, plain),
        DType::BF16 => floats::<bf16>([n, k], packed, plain),
        _ => {
            let format = blocks::known(dtype).ok_or_else(|| no_code(dtype))?;
            Ok(Tiles::lent(format, n, k.saturating_mul(BLOCK), packed)?.unpack(plain)?)
        }
    }
}

/// The weight in panels or tiles; as it was where there is nothing to gain, or no memory.
pub(super) fn pack(weight: AnyTensor<Host>) -> AnyTensor<Host> {
    form(&weight).unwrap_or(weight)
}

fn form(weight: &AnyTensor<Host>) -> Option<AnyTensor<Host>> {
    let (dtype, &[n, _]) = (weight.dtype(), weight.dims()) else { return None };
    let values = weight.layout().len().checked_mul(dtype.values())?;
    let small = if dtype.is_block() { values < SMALL } else { weight.bytes() <= CACHED };
    if n < NARROW || small || weight.packing().is_some() {
        return None;
    }
    let mut memory = HostBuffer::new(PANELS.bytes(dtype, weight.dims())?, "cpu").ok()?;
    let raw = Raw::any(&weight.as_ref());
    match dtype {
        DType::F32 => floats::<f32>(&raw, memory.as_mut_slice())?,
        DType::F16 => floats::<f16>(&raw, memory.as_mut_slice())?,
        DType::BF16 => floats::<bf16>(&raw, memory.as_mut_slice())?,
        _ => tiles(&raw, memory.as_mut_slice())?,
    }
    AnyTensor::packed(memory, dtype, weight.layout().shape(), &PANELS).ok()
}

fn floats<W: Input<Acc = f32> + ops_core::Element>(weight: &Raw<'_>, out: &mut [u8]) -> Option<()> {
    let stack = super::matmul::Stack::<W>::of(weight).ok()?;
    PackedB::pack_into(Isa::best(), stack.get(0).ok()?.transposed(), out).ok()
}

fn tiles(weight: &Raw<'_>, out: &mut [u8]) -> Option<()> {
    let (format, &[n, blocks]) = (blocks::known(weight.dtype)?, weight.dims()) else { return None };
    Tiles::pack_into(format, &blocks::bytes(weight), n, blocks * BLOCK, out).ok()
}

/// `y[m, n] = x[m, k] · weightᵀ` for a weight in panels, cut over threads.
fn by_panels<T: Input<Acc = f32>, W: Input<Acc = f32>>(
    x: &[T],
    weight: &PackedB<'_, W>,
    y: &mut [f32],
) -> Result<(), SimdError> {
    let (k, n) = (weight.rows(), weight.cols());
    let m = y.len() / n;
    let x = Mat::row_major(x, m, k)?;
    // Every part orders x for itself, which counts with many rows.
    let each = if m <= MANY { 4 } else { 1 };
    let parts = columns(MatMut::new(y, m, n, n)?, m.saturating_mul(k), weight.tile(), each);
    threads::each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
        let range = first..first + y.cols();
        gemm_packed(x, weight, range, y, false)
    })
}

/// As [`by_panels`], for a weight in tiles.
fn by_tiles(x: &Raw<'_>, weight: &Tiles<'_>, y: &mut [f32]) -> Result<()> {
    let n = weight.rows();
    blocks::with_activations(x, |x| {
        let y = MatMut::new(y, x.rows(), n, n)?;
        let parts = columns(y, x.rows().saturating_mul(x.k()), TILE_ROWS, 4);
        threads::each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
            let tile = first / TILE_ROWS;
            multiply(Isa::best(), weight, tile..tile + y.cols().div_ceil(TILE_ROWS), x, y)
        })
    })
}

/// The product with a packed weight `[n, k]`, `k` counted in values.
fn product(x: &Raw<'_>, weight: &AnyRef<'_, Host>, [n, k]: [usize; 2], y: &mut [f32]) -> Result<()> {
    fn floats<W: Input<Acc = f32>>(
        x: &Raw<'_>,
        packed_weight: &[u8],
        [n, k]: [usize; 2],
        y: &mut [f32],
    ) -> Result<()> {
        let weight = report("linear", PackedB::<W>::lent(Isa::best(), k, n, packed_weight))?;
        on_vector!(x.dtype, T => report("linear", by_panels::<T, W>(&packed::<T>(x)?, &weight, y)),
            else report("linear", Err(no_code(x.dtype))))
    }
    if k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    match (weight.dtype(), blocks::known(weight.dtype())) {
        (_, Some(format)) => {
            let tiles = report("qlinear", Tiles::lent(format, n, k, weight.bytes()))?;
            by_tiles(x, &tiles, y)
        }
        (DType::F32, _) => floats::<f32>(x, weight.bytes(), [n, k], y),
        (DType::F16, _) => floats::<f16>(x, weight.bytes(), [n, k], y),
        (DType::BF16, _) => floats::<bf16>(x, weight.bytes(), [n, k], y),
        (other, _) => report("linear", Err(no_code(other))),
    }
}

/// `y = x · weightᵀ + bias` for a weight in panels or tiles, `x` not of f64; through f32 where `y` is of another type.
pub(super) fn linear(
    x: Raw<'_>,
    weight: &AnyRef<'_, Host>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
) -> Result<()> {
    if y.layout.is_empty() {
        return Ok(());
    }
    let dims = [y.layout.last(), x.layout.last()];
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return product(&x, weight, dims, &mut y.slice::<f32>()[extent]);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    let mut sums = scratch::<f32>(y.layout.len())?;
    product(&x, weight, dims, sums.as_mut_slice())?;
    stored(&sums, bias.as_deref(), y)
}
