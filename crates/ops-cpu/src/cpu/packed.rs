//! Weights held in panels and tiles.
use super::matmul::{Stack, columns, stored};
use super::quant::blocks;
use super::rows::{packed, scratch};
use super::vectors::{no_code, on_vector, report};
use super::{Cpu, threads};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, HostBuffer, Reference};
use ops_core::model::{KeepsWeights, PackWeights, Weight, matrix};
use ops_core::ops::LinearOps;
use ops_core::{Backend, DType, Element, Error, Float, Ref, Result, TensorOf, View, bf16, f16};
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm_packed};
use ops_simd::quant::{BLOCK, TILE_ROWS, Tiles, multiply};
use ops_simd::{Error as SimdError, Isa, Memory};

/// Weights of fewer blocks' values stay as they are.
const SMALL: usize = 1 << 12;
/// Floats of no more bytes stay as they are: in the second cache, one row of x reads them as fast, and many rows order them at
/// little cost.
const CACHED: usize = 1 << 20;
/// Weights of fewer outputs stay as they are.
const NARROW: usize = 16;
/// Rows of x from which on threads get one part each.
const MANY: usize = 32;

/// A weight as [`Cpu`] holds it: floats in panels of as many columns as a kernel computes at once, blocks in tiles of
/// sixteen rows. It takes as many bytes as the weight it was made from, up to rounding by a panel or tile.
#[derive(Debug)]
pub struct CpuWeight(Form);

#[derive(Debug)]
enum Form {
    Plain(Weight<Host>),
    F32(PackedB<f32>),
    F16(PackedB<f16>),
    Bf16(PackedB<bf16>),
    Blocks(Tiles),
}

/// Memory of the backend, huge pages where it is large; none is an answer.
struct Held(HostBuffer<u8>);

fn memory(bytes: usize) -> Option<Box<dyn Memory>> {
    Some(Box::new(Held(scratch(bytes).ok()?)))
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}
impl AsMut<[u8]> for Held {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut_slice()
    }
}

fn floats<W: Input<Acc = f32> + Element>(weight: &Raw<'_>) -> Option<PackedB<W>> {
    let stack = Stack::<W>::of(weight).ok()?;
    let b = stack.get(0).ok()?.transposed();
    PackedB::in_memory(Isa::best(), b, memory(PackedB::<W>::size(Isa::best(), b.rows(), b.cols()))?).ok()
}

fn tiles(weight: &Raw<'_>) -> Option<Tiles> {
    let (format, [n, blocks]) = (blocks::known(weight.dtype)?, weight.dims().try_into().ok()?);
    let k = blocks * BLOCK;
    Tiles::in_memory(format, &blocks::bytes(weight), n, k, memory(Tiles::size(format, n, k))?).ok()
}

/// The weight in the kernels' order; `None` where there is no memory for it.
fn form(weight: &Weight<Host>) -> Option<Form> {
    let raw = Raw::any(&weight.as_ref());
    Some(match weight.dtype() {
        DType::F32 => Form::F32(floats(&raw)?),
        DType::F16 => Form::F16(floats(&raw)?),
        DType::BF16 => Form::Bf16(floats(&raw)?),
        DType::Block(_) => Form::Blocks(tiles(&raw)?),
        _ => return None,
    })
}

/// `y[m, n] = x[m, k] · weightᵀ` for a weight in panels, cut over threads.
fn by_panels<T: Input<Acc = f32>, W: Input<Acc = f32>>(
    x: &[T],
    weight: &PackedB<W>,
    y: &mut [f32],
) -> core::result::Result<(), SimdError> {
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
fn by_tiles(x: &Raw<'_>, weight: &Tiles, y: &mut [f32]) -> Result<()> {
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

/// The product with a weight that is not plain.
fn product(x: &Raw<'_>, weight: &Form, y: &mut [f32]) -> Result<()> {
    fn floats<W: Input<Acc = f32>>(x: &Raw<'_>, weight: &PackedB<W>, y: &mut [f32]) -> Result<()> {
        on_vector!(x.dtype, T => report("linear_packed", by_panels::<T, W>(&packed::<T>(x)?, weight, y)),
            else report("linear_packed", Err(no_code(x.dtype))))
    }
    match weight {
        Form::Plain(_) => unreachable!("a plain weight goes through `linear`"),
        Form::F32(w) => floats(x, w, y),
        Form::F16(w) => floats(x, w, y),
        Form::Bf16(w) => floats(x, w, y),
        Form::Blocks(w) => by_tiles(x, w, y),
    }
}

/// The product into `y`, through f32 where `y` is of another type.
fn into(x: &Raw<'_>, weight: &Form, mut y: RawMut<'_>) -> Result<()> {
    if y.layout.is_empty() {
        return Ok(());
    }
    if y.dtype == DType::F32 {
        let extent = y.layout.extent();
        return product(x, weight, &mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    product(x, weight, sums.as_mut_slice())?;
    stored(&sums, None, y)
}

impl CpuWeight {
    /// Extents, counted in values.
    fn dims(&self) -> [usize; 2] {
        match &self.0 {
            Form::Plain(_) => unreachable!("a plain weight goes through `linear`"),
            Form::F32(w) => [w.cols(), w.rows()],
            Form::F16(w) => [w.cols(), w.rows()],
            Form::Bf16(w) => [w.cols(), w.rows()],
            Form::Blocks(w) => [w.rows(), w.cols()],
        }
    }
}

impl<T: Float> PackWeights<T> for Cpu {
    type Packed = CpuWeight;

    fn pack(&self, weight: Weight<Host>) -> Result<CpuWeight> {
        let weight = matrix(weight)?;
        let (dims, values) = (weight.value_dims(), weight.value_dims().iter().product::<usize>());
        let blocks = weight.dtype().is_block();
        // Kernels in panels and tiles sum in f32.
        let small = dims[0] < NARROW || if blocks { values < SMALL } else { weight.bytes() <= CACHED };
        let form = if small || T::DTYPE == DType::F64 { None } else { form(&weight) };
        Ok(CpuWeight(form.unwrap_or(Form::Plain(weight))))
    }
    fn packed_bytes(&self, weight: &CpuWeight) -> usize {
        match &weight.0 {
            Form::Plain(w) => w.bytes(),
            Form::F32(w) => w.bytes(),
            Form::F16(w) => w.bytes(),
            Form::Bf16(w) => w.bytes(),
            Form::Blocks(w) => w.bytes(),
        }
    }
    fn linear_packed(&self, x: Ref<'_, Self, T>, weight: &CpuWeight) -> Result<TensorOf<Self, T>> {
        if let Form::Plain(plain) = &weight.0 {
            return self.linear(x, plain);
        }
        let [n, k] = weight.dims();
        match x.dims() {
            [.., last] if *last == k && T::DTYPE != DType::F64 => {}
            _ => {
                return Err(Error::shape("linear_packed", "x", x.layout(), format!("[.., {k}], not of f64")));
            }
        }
        let mut y = self.empty(x.layout().shape().with_last(n)?)?;
        into(&Raw::of(&x), &weight.0, RawMut::of(&mut y.as_mut()))?;
        Ok(y)
    }
}

impl KeepsWeights for Reference {}
