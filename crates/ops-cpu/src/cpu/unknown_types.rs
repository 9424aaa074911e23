//! Kernels refuse element types that they do not support, and never return `Ok` over an unwritten output.
use super::{
    activation, attention, bitwise, cast, compare, conv, elementwise, index, matmul, norm, parametric, rope,
    softmax,
};
use crate::host::raw::{Raw, RawMut};
use ops_core::ops::{BinaryFn, BitwiseFn, CompareFn, Conv, Conv2d, GluFn, ParametricFn, RopeForm, UnaryFn};
use ops_core::quant::Q8_0;
use ops_core::{DType, Layout, Result};

/// Bytes for every operand below, aligned for every element type.
static MEMORY: [u64; 1024] = [0; 1024];
const BLOCKS: DType = DType::Block(&Q8_0);

fn read(dtype: DType, dims: &[usize]) -> Raw<'static> {
    let bytes = bytemuck::cast_slice(&MEMORY);
    Raw { bytes, size: dtype.size(), dtype, layout: Layout::contiguous(dims).unwrap() }
}

/// Asserts that a kernel refuses an output of `dtype` and does not write to it.
fn expect_refused(name: &str, dtype: DType, dims: &[usize], kernel: impl FnOnce(RawMut<'_>) -> Result<()>) {
    let mut memory = [u64::MAX; 1024];
    let layout = Layout::contiguous(dims).unwrap();
    let y = RawMut { bytes: bytemuck::cast_slice_mut(&mut memory), size: dtype.size(), dtype, layout };
    let done = kernel(y);
    assert!(done.is_err(), "{name} of {dtype}: {done:?}");
    assert!(memory.iter().all(|word| *word == u64::MAX), "{name} of {dtype} wrote");
}

#[test]
fn kernels_refuse_what_they_have_no_code_for() {
    for dtype in [DType::I32, DType::F8E4M3, BLOCKS] {
        let (x, w) = (read(dtype, &[2, 8]), read(DType::F32, &[8]));
        let dims = &[2, 8];
        expect_refused("softmax", dtype, dims, |y| softmax::softmax(x, y, -1, false));
        expect_refused("rms_norm", dtype, dims, |y| norm::rms_norm(x, w, y, 1e-5));
        expect_refused("layer_norm", dtype, dims, |y| norm::layer_norm(x, Some(w), None, y, 1e-5));
        expect_refused("swiglu", dtype, dims, |y| activation::glu(GluFn::Swiglu, x, x, y));
        expect_refused("linear", dtype, dims, |y| matmul::linear(x, read(DType::F32, &[8, 8]), None, y));
        expect_refused("linear", DType::F32, dims, |y| {
            matmul::linear(read(DType::F32, &[2, 8]), read(dtype, &[8, 8]), None, y)
        });
        let image = Layout::contiguous(&[1, 1, 2, 2]).unwrap();
        let (g, _) = Conv::<f32>::from(Conv2d::new()).geometry(&image, &image, &image).unwrap();
        let (x4, w4) = (read(dtype, image.dims()), read(dtype, image.dims()));
        expect_refused("conv2d", dtype, &[1, 1, 2, 2], |y| conv::conv("conv2d", &g, x4, w4, None, y));
        expect_refused("matmul", dtype, &[2, 2], |y| matmul::matmul(x, read(dtype, &[8, 2]), y));
        let (cos, x4) = (read(DType::F32, &[2, 4]), read(dtype, &[1, 1, 2, 8]));
        expect_refused("rope", dtype, &[1, 1, 2, 8], |y| {
            let tables = rope::Tables { start: 0, cos, sin: cos, positions: None };
            rope::rope("rope", RopeForm::Half, &tables, Some(x4), y)
        });
        expect_refused("attention", dtype, &[1, 1, 2, 8], |y| attention::attend_to_all_keys(x4, x4, x4, y));
    }
    for dtype in [DType::F8E4M3, BLOCKS] {
        let x = read(dtype, &[2, 8]);
        expect_refused("silu", dtype, &[2, 8], |y| elementwise::unary(UnaryFn::Silu, x, y));
        expect_refused("add", dtype, &[2, 8], |y| elementwise::binary(BinaryFn::Add, x, x, y));
        let elu = ParametricFn::Elu { alpha: 1.0 };
        expect_refused("elu", dtype, &[2, 8], |y| parametric::parametric(elu, x, y));
        expect_refused("affine", dtype, &[2, 8], |y| elementwise::affine(x, y, 2.0, 1.0));
        expect_refused("affine_inplace", dtype, &[2, 8], |y| elementwise::affine_inplace(y, 2.0, 1.0));
    }
    let y = |y: RawMut<'_>| compare::compare(CompareFn::Lt, read(BLOCKS, &[2, 8]), read(BLOCKS, &[2, 8]), y);
    expect_refused("lt", DType::U8, &[2, 8], y);
    expect_refused("logical_not", DType::U8, &[2, 8], |y| compare::logical_not(read(BLOCKS, &[2, 8]), y));
    for dtype in [DType::F32, BLOCKS] {
        let x = read(dtype, &[2, 8]);
        expect_refused("bitwise_or", dtype, &[2, 8], |y| bitwise::bitwise(BitwiseFn::Or, x, x, y));
        expect_refused("bitwise_not", dtype, &[2, 8], |y| bitwise::bitwise_not(x, y));
    }
    expect_refused("cast", BLOCKS, &[2, 8], |y| cast::cast(read(DType::F32, &[2, 8]), y));
    expect_refused("cast", DType::F32, &[2, 8], |y| cast::cast(read(BLOCKS, &[2, 8]), y));
    expect_refused("quantize", DType::F32, &[2, 1], |y| {
        super::quant::quantize(read(DType::F32, &[2, 32]), y)
    });
    expect_refused("dequantize", DType::F32, &[2, 32], |y| {
        super::quant::dequantize(read(DType::F32, &[2, 1]), y)
    });
    // Ops that only move elements depend on their size, not their type.
    let mut memory = [1u64; 1024];
    let layout = Layout::contiguous(&[2, 8]).unwrap();
    let y = RawMut { bytes: bytemuck::cast_slice_mut(&mut memory), size: 34, dtype: BLOCKS, layout };
    index::index_select(read(BLOCKS, &[4, 8]), read(DType::U32, &[2]), y, 0).unwrap();
}
