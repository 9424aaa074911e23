//! Matrix products.
use super::product::{MAX_SERIAL_WORK, Stack, gemm, product, store_sums};
use super::quant::qlinear;
use super::rows::{packed, scratch, widened, zeros};
use super::vectors::{on_vector, report, unsupported_dtype};
use super::{Cpu, packed_weights, threads};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Linear, LinearAdd, LinearSwiglu, MatMul, RmsNormLinear, RmsNormLinearSwiglu};
use ops_core::{AnyTensor, Call, DType, Determinism, Element, Float, Operands, Packing, Parts, Result};
use ops_simd::Isa;
use ops_simd::gemm::{Input, Mat, MatMut};

/// `c[..] = a[..] · b[..]` for stacks of matrices, accumulated in `A::Acc`.
fn stacked<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, mut c: RawMut<'_>) -> Result<()> {
    if c.layout.is_empty() {
        return Ok(());
    }
    if c.dtype == T::Acc::DTYPE && c.layout.is_contiguous() {
        let extent = c.layout.extent();
        return stack_into::<T>(a, b, &mut c.slice::<T::Acc>()[extent]);
    }
    let mut out = scratch::<T::Acc>(c.layout.len())?;
    stack_into::<T>(a, b, out.as_mut_slice())?;
    store_sums(&out, None, c)
}

fn stack_into<T: Input<Acc: Element> + Element>(a: &Raw<'_>, b: &Raw<'_>, out: &mut [T::Acc]) -> Result<()> {
    let (a, b) = (Stack::<T>::of(a)?, Stack::<T>::of(b)?);
    let (m, k, n) = (a.dims[0], a.dims[1], b.dims[1]);
    let count = out.len() / (m * n);
    if count >= threads::count() && m * n * k <= MAX_SERIAL_WORK * 8 {
        // Many small products: compute each one on a single thread.
        let chunk = count.div_ceil(threads::count() * 4);
        let chunks = out.chunks_mut(m * n * chunk).enumerate();
        let one = |i: usize, c: &mut [T::Acc]| {
            gemm(Isa::best(), a.get(i)?, b.get(i)?, MatMut::new(c, m, n, n)?, false)
        };
        let some = |(t, c): (usize, &mut [T::Acc])| {
            c.chunks_exact_mut(m * n).enumerate().try_for_each(|(i, c)| one(t * chunk + i, c))
        };
        return match m * n * k * count <= MAX_SERIAL_WORK {
            true => report("matmul", chunks.into_iter().try_for_each(some)),
            false => report("matmul", threads::for_each_part(chunks.collect(), &some)),
        };
    }
    for (i, c) in out.chunks_exact_mut(m * n).enumerate() {
        let done = MatMut::new(c, m, n, n).and_then(|c| product(a.get(i)?, b.get(i)?, c));
        report("matmul", done)?;
    }
    Ok(())
}

pub(super) fn matmul(a: Raw<'_>, b: Raw<'_>, c: RawMut<'_>) -> Result<()> {
    match a.dtype {
        DType::F32 => stacked::<f32>(&a, &b, c),
        DType::F16 => stacked::<ops_core::f16>(&a, &b, c),
        DType::BF16 => stacked::<ops_core::bf16>(&a, &b, c),
        DType::F64 => stacked::<f64>(&a, &b, c),
        dtype => report("matmul", Err(unsupported_dtype(dtype))),
    }
}

/// `y = x · weightᵀ + bias`, for types that accumulate in f32.
fn linear_f32<T: Input<Acc = f32> + Element, W: Input<Acc = f32> + Element>(
    x: &Raw<'_>,
    weight: &Raw<'_>,
    bias: Option<&[f32]>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let (k, n) = (x.layout.last(), y.layout.last());
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let x = packed::<T>(x)?;
    let weight = Stack::<W>::of(weight)?;
    let multiply = |c: &mut [f32]| {
        let c = MatMut::new(c, m, n, n);
        report("linear", c.and_then(|c| product(Mat::row_major(&x, m, k)?, weight.get(0)?.transposed(), c)))
    };
    if y.dtype == DType::F32 && bias.is_none() && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return multiply(&mut y.slice::<f32>()[extent]);
    }
    let mut sums = scratch::<f32>(y.layout.len())?;
    multiply(sums.as_mut_slice())?;
    store_sums(&sums, bias, y)
}

pub(super) fn linear(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, y: RawMut<'_>) -> Result<()> {
    if weight.dtype.is_block() {
        return qlinear(x, weight, bias, y);
    }
    if x.dtype == DType::F64 || weight.dtype == DType::F64 {
        return linear_f64(x, weight, bias, y);
    }
    let bias = bias.map(|b| widened(&b)).transpose()?;
    on_vector!(x.dtype, T => on_vector!(weight.dtype, W => {
        linear_f32::<T, W>(&x, &weight, bias.as_deref(), y)
    }, else report("linear", Err(unsupported_dtype(weight.dtype)))), else report("linear", Err(unsupported_dtype(x.dtype))))
}

/// Computes entirely in f64, because `x` or the weight is f64.
fn linear_f64(x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) -> Result<()> {
    let (k, n) = (x.layout.last(), y.layout.last());
    let m = y.layout.len().checked_div(n).unwrap_or(0);
    let (x, weight, bias) = (x.values(), weight.values(), bias.map(|b| b.values()));
    let mut sums = zeros::<f64>(y.layout.len())?;
    let mut product = || {
        let (a, w) = (Mat::row_major(&x[..], m, k)?, Mat::row_major(&weight[..], n, k)?);
        product(a, w.transposed(), MatMut::new(&mut sums, m, n, n)?)
    };
    report("linear", product())?;
    let bias = |i: usize| bias.as_ref().map_or(0.0, |b| b[i % n]);
    y.scatter(y.layout.positions(), sums.iter().enumerate().map(|(i, v)| v + bias(i)));
    Ok(())
}

impl<T: Float> Kernel<MatMul<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, MatMul<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        matmul(Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.c))
    }
    fn determinism(&self, _: &MatMul<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
}
impl<T: Float> Kernel<Linear<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Linear<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, bias, y) = (Raw::of(&a.x), Raw::any_if(&a.bias), RawMut::of(&mut a.y));
        match a.weight.packing() {
            Some(_) => packed_weights::linear(x, &a.weight, bias, y),
            None => linear(x, Raw::any(&a.weight), bias, y),
        }
    }
    fn determinism(&self, _: &Linear<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    // The kernels for packed weights accumulate in f32, so they do not serve f64.
    fn reads(&self, _: &Linear<T>, operand: &'static str, packing: &'static Packing) -> bool {
        operand == "weight" && *packing == packed_weights::PANELS && T::DTYPE != DType::F64
    }
    fn pack(&self, _: &Linear<T>, operand: &'static str, x: AnyTensor<Host>) -> Result<AnyTensor<Host>> {
        Ok(if operand == "weight" && T::DTYPE != DType::F64 { packed_weights::pack(x) } else { x })
    }
}
// Fused products run as parts: the parts read their operands from the cache, so one kernel would save no memory traffic.

impl<T: Float> Kernel<LinearSwiglu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearSwiglu<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &LinearSwiglu<T>) -> bool {
        false
    }
    fn determinism(&self, _: &LinearSwiglu<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    fn reads(&self, op: &LinearSwiglu<T>, operand: &'static str, packing: &'static Packing) -> bool {
        op.parts_read(self, operand, packing)
    }
}

impl<T: Float> Kernel<LinearAdd<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LinearAdd<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &LinearAdd<T>) -> bool {
        false
    }
    fn determinism(&self, _: &LinearAdd<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    fn reads(&self, op: &LinearAdd<T>, operand: &'static str, packing: &'static Packing) -> bool {
        op.parts_read(self, operand, packing)
    }
}

impl<T: Float> Kernel<RmsNormLinear<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RmsNormLinear<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RmsNormLinear<T>) -> bool {
        false
    }
    fn determinism(&self, _: &RmsNormLinear<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    fn reads(&self, op: &RmsNormLinear<T>, operand: &'static str, packing: &'static Packing) -> bool {
        op.parts_read(self, operand, packing)
    }
}

impl<T: Float> Kernel<RmsNormLinearSwiglu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RmsNormLinearSwiglu<T>, Host>) -> Result<()> {
        let (op, args) = call.into_parts();
        op.run_parts(self, args)
    }
    fn fuses(&self, _: &RmsNormLinearSwiglu<T>) -> bool {
        false
    }
    fn determinism(&self, _: &RmsNormLinearSwiglu<T>, _: &dyn Operands) -> Determinism {
        self.sums_level()
    }
    fn reads(&self, op: &RmsNormLinearSwiglu<T>, operand: &'static str, packing: &'static Packing) -> bool {
        op.parts_read(self, operand, packing)
    }
}
