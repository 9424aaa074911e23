//! Packed weights: floats in panels, blocks in tiles.
use super::product::{Stack, split_columns, store_sums};
use super::quant::blocks;
use super::quant::inputs::Inputs;
use super::quant::known::{Decoder, simd_format};
use super::quant::multiply_decoded;
use super::rows::{packed, scratch, widened};
use super::threads;
use super::vectors::{TaskResult, on_vector, report, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, block_info};
use crate::{Host, HostBuffer};
use bytemuck::cast_slice_mut;
use ops_core::{AnyRef, AnyTensor, DType, Layout, Packing, Result, bf16, f16};
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm_packed, gemm_packed_by_row};
use ops_simd::quant::{self, BLOCK, Format, TILE_ROWS, Tiles};
use ops_simd::{Error as SimdError, Isa};

/// Block weights with fewer values than this are not packed.
const MIN_BLOCK_VALUES: usize = 1 << 12;
/// Float weights of at most this many bytes are not packed: packing them on each call costs little.
const MAX_PLAIN_BYTES: usize = 1 << 14;
/// Weights with fewer outputs than this are not packed.
const MIN_OUTPUTS: usize = 16;
/// Above this many rows of `x`, each thread gets one part.
const MAX_SPLIT_ROWS: usize = 4;

/// The packed layout of a weight `[n, k]`. Floats are stored in panels as wide as a kernel's block of columns, and
/// quantized blocks in tiles of sixteen rows. The size equals that of the plain weight, rounded up to a whole panel or tile.
pub(super) static PANELS: Packing = Packing::new("panels", packed_size, 64, unpack);

fn packed_size(dtype: DType, dims: &[usize]) -> Option<usize> {
    let (&[n, k], isa) = (dims, Isa::best()) else { return None };
    match dtype {
        DType::F32 => Some(PackedB::<f32>::size(isa, k, n)),
        DType::F16 => Some(PackedB::<f16>::size(isa, k, n)),
        DType::BF16 => Some(PackedB::<bf16>::size(isa, k, n)),
        blocks => Some(Tiles::size(simd_format(blocks)?.tiled()?, n, k.checked_mul(BLOCK)?)),
    }
}

fn unpack(dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> Result<()> {
    // Panels must start on a cache line and elements must be aligned; the caller's bytes may be neither.
    let (mut from, mut to) = (HostBuffer::new(packed.len(), "cpu")?, HostBuffer::new(plain.len(), "cpu")?);
    from.as_mut_slice().copy_from_slice(packed);
    report("unpack", unpack_into(dtype, dims, &from, to.as_mut_slice()))?;
    plain.copy_from_slice(&to);
    Ok(())
}

fn unpack_into(dtype: DType, dims: &[usize], packed: &[u8], plain: &mut [u8]) -> TaskResult {
    fn floats<W: Input>([n, k]: [usize; 2], packed: &[u8], plain: &mut [u8]) -> TaskResult {
        let panels = PackedB::<W>::from_bytes(Isa::best(), k, n, packed)?;
        Ok(panels.unpack_transposed(cast_slice_mut(plain))?)
    }
    let &[n, k] = dims else { return Err("only a matrix can be packed".into()) };
    match dtype {
        DType::F32 => floats::<f32>([n, k], packed, plain),
        DType::F16 => floats::<f16>([n, k], packed, plain),
        DType::BF16 => floats::<bf16>([n, k], packed, plain),
        _ => {
            let format =
                simd_format(dtype).and_then(Format::tiled).ok_or_else(|| unsupported_dtype(dtype))?;
            Ok(Tiles::from_bytes(format, n, k.saturating_mul(BLOCK), packed)?.unpack(plain)?)
        }
    }
}

/// Packs the weight, or returns it unchanged if packing does not pay off or memory is short.
pub(super) fn pack(weight: AnyTensor<Host>) -> AnyTensor<Host> {
    try_pack(&weight).unwrap_or(weight)
}

fn try_pack(weight: &AnyTensor<Host>) -> Option<AnyTensor<Host>> {
    let (dtype, &[n, _]) = (weight.dtype(), weight.dims()) else { return None };
    let values = weight.layout().len().checked_mul(dtype.values())?;
    let small = if dtype.is_block() { values < MIN_BLOCK_VALUES } else { weight.bytes() <= MAX_PLAIN_BYTES };
    // Tiles are for integer products.
    let useless = dtype.is_block() && threads::exact();
    if n < MIN_OUTPUTS || small || useless || weight.packing().is_some() {
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
    let stack = Stack::<W>::of(weight).ok()?;
    PackedB::pack_into(Isa::best(), stack.get(0).ok()?.transposed(), out).ok()
}

fn tiles(weight: &Raw<'_>, out: &mut [u8]) -> Option<()> {
    let (format, &[n, blocks]) = (simd_format(weight.dtype)?.tiled()?, weight.dims()) else { return None };
    Tiles::pack_into(format, &blocks::bytes(weight), n, blocks * BLOCK, out).ok()
}

/// `y[m, n] = x[m, k] · weightᵀ + bias` for a weight in panels, split over threads.
fn multiply_panels<T: Input<Acc = f32>, W: Input<Acc = f32>>(
    x: &[T],
    weight: &PackedB<'_, W>,
    bias: Option<&[f32]>,
    y: &mut [f32],
) -> Result<(), SimdError> {
    let (k, n) = (weight.rows(), weight.cols());
    let m = y.len() / n;
    let x = Mat::row_major(x, m, k)?;
    // Each part packs x separately, so more parts cost more when x has many rows.
    let per_thread = if m <= MAX_SPLIT_ROWS { 4 } else { 1 };
    let parts = split_columns(MatMut::new(y, m, n, n)?, m.saturating_mul(k), weight.tile(), per_thread);
    threads::for_each_part(parts, &|(first, mut y): (usize, MatMut<'_, f32>)| {
        let range = first..first + y.cols();
        // Sums that start from the bias need no second pass over the product.
        if let Some(bias) = bias {
            (0..y.rows()).for_each(|i| y.row_mut(i).copy_from_slice(&bias[range.clone()]));
        }
        match threads::by_row() {
            true => gemm_packed_by_row(x, weight, range, y, bias.is_some()),
            false => gemm_packed(x, weight, range, y, bias.is_some()),
        }
    })
}

/// Like [`multiply_panels`], for a weight in tiles.
fn multiply_tiles(x: &Raw<'_>, weight: &Tiles<'_>, y: &mut [f32]) -> Result<()> {
    let n = weight.rows();
    let format = Some(weight.format().format());
    let outliers = quant::outliers_for(Isa::best(), format, y.len() / n, blocks::sums());
    Inputs::all(*x).quantized(outliers, |x| {
        let y = MatMut::new(y, x.rows(), n, n)?;
        let parts = split_columns(y, x.rows().saturating_mul(x.k()), TILE_ROWS, 4);
        threads::for_each_part(parts, &|(first, y): (usize, MatMut<'_, f32>)| {
            let tile = first / TILE_ROWS;
            quant::multiply_tiles(Isa::best(), weight, tile..tile + y.cols().div_ceil(TILE_ROWS), x, y)
        })
    })
}

/// Multiplies activations that are not rounded by a weight that another backend packed.
fn multiply_unpacked(x: &Raw<'_>, dtype: DType, tiles: &Tiles<'_>, y: &mut [f32]) -> Result<()> {
    let (format, dims) = (block_info("qlinear", dtype)?, [tiles.rows(), x.layout.last() / BLOCK]);
    let mut plain = scratch::<u8>(dims[0] * dims[1] * format.bytes())?;
    report("qlinear", tiles.unpack(plain.as_mut_slice()))?;
    let layout = Layout::contiguous(&dims)?;
    multiply_decoded(
        Decoder::of(format),
        &Inputs::all(*x),
        &Raw { bytes: &plain, size: format.bytes(), dtype, layout },
        y,
    )
}

/// Multiplies by a packed weight `[n, k]`; `k` counts values, not blocks. A bias is only added to products of
/// floats.
fn product(
    x: &Raw<'_>,
    weight: &AnyRef<'_, Host>,
    [n, k]: [usize; 2],
    bias: Option<&[f32]>,
    y: &mut [f32],
) -> Result<()> {
    fn floats<W: Input<Acc = f32>>(
        x: &Raw<'_>,
        packed_weight: &[u8],
        [n, k]: [usize; 2],
        bias: Option<&[f32]>,
        y: &mut [f32],
    ) -> Result<()> {
        let weight = report("linear", PackedB::<W>::from_bytes(Isa::best(), k, n, packed_weight))?;
        on_vector!(x.dtype, T => report("linear", multiply_panels::<T, W>(&packed::<T>(x)?, &weight, bias, y)),
            else report("linear", Err(unsupported_dtype(x.dtype))))
    }
    if k == 0 {
        y.fill(0.0);
        return Ok(());
    }
    match (weight.dtype(), simd_format(weight.dtype()).and_then(Format::tiled)) {
        (_, Some(format)) => {
            let tiles = report("qlinear", Tiles::from_bytes(format, n, k, weight.bytes()))?;
            if threads::exact() {
                return multiply_unpacked(x, weight.dtype(), &tiles, y);
            }
            multiply_tiles(x, &tiles, y)
        }
        (DType::F32, _) => floats::<f32>(x, weight.bytes(), [n, k], bias, y),
        (DType::F16, _) => floats::<f16>(x, weight.bytes(), [n, k], bias, y),
        (DType::BF16, _) => floats::<bf16>(x, weight.bytes(), [n, k], bias, y),
        (other, _) => report("linear", Err(unsupported_dtype(other))),
    }
}

/// `y = x · weightᵀ + bias` for a packed weight; `x` is not f64. Outputs of other types than f32 go through
/// an f32 buffer.
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
    let bias = bias.map(|b| widened(&b)).transpose()?;
    let in_place = bias.is_none() || dims[1] > 0 && !weight.dtype().is_block();
    if in_place && y.dtype == DType::F32 && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return product(&x, weight, dims, bias.as_deref(), &mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    product(&x, weight, dims, None, sums.as_mut_slice())?;
    store_sums(&sums, bias.as_deref(), y)
}
