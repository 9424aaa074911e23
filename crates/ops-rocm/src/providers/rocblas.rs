//! rocBLAS: matrix products.
use super::product::{
    LinearPlan, Matrix, Plan, few_rows_of_linear, few_rows_of_matmul, linear_plan, linear_types, matmul_plan,
    replan, spread, unsupported,
};
use crate::ProviderId;
use crate::choice::Target;
use crate::error::failed;
use crate::hip::{DeviceMemory, Purpose};
use crate::provider::Provider;
use crate::providers::hip::bind::{Binding, Bound};
use crate::vendor::{RocBlasLibrary, check};
use crate::{HipSpace, Result, Rocm};
use ops_core::ops::{Linear, MatMul};
use ops_core::{Call, Determinism, Float, Layout, Op, Operands, Reason};
use ops_kernels::{ElementType, cast};
use rocblas_sys::{self as sys, rocblas_datatype, rocblas_operation};
use std::ffi::c_void;

/// Products by rocBLAS: f16 and bf16 with f32 sums, f32, f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RocBlas;

fn datatype(dtype: ElementType) -> Option<rocblas_datatype> {
    match dtype {
        ElementType::F16 => Some(sys::rocblas_datatype_f16_r),
        ElementType::Bf16 => Some(sys::rocblas_datatype_bf16_r),
        ElementType::F32 => Some(sys::rocblas_datatype_f32_r),
        ElementType::F64 => Some(sys::rocblas_datatype_f64_r),
        _ => None,
    }
}

impl<T: Float> Provider<MatMul<T>> for RocBlas {
    fn id(&self) -> ProviderId {
        ProviderId::ROCBLAS
    }

    fn determinism(&self, _: &Target, _: &MatMul<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &MatMul<T>, on: &dyn Operands) -> Result<(), Reason> {
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device())?;
        matmul_plan(&problem)?;
        target.require::<RocBlasLibrary>(op.name(), on)
    }

    fn defer(&self, target: &Target, op: &MatMul<T>, on: &dyn Operands) -> Option<String> {
        few_rows_of_matmul(op, &Binding::new().assumed(on, target.launch_device()).ok()?)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, MatMul<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<MatMul<T>>(args, rocm)?;
        let plan = matmul_plan(&problem).map_err(|reason| unsupported(op.name(), reason))?;
        let bound = [problem.at(0), problem.at(1), problem.at(2)];
        // SAFETY: a call's views lie in their memory, which the stream may access; the plan is made for them.
        unsafe { multiply(rocm, &plan, bound, 0.0) }
    }
}

impl<T: Float> Provider<Linear<T>> for RocBlas {
    fn id(&self) -> ProviderId {
        ProviderId::ROCBLAS
    }

    fn determinism(&self, _: &Target, _: &Linear<T>, _: &dyn Operands) -> Determinism {
        Determinism::Run
    }

    fn applicable(&self, target: &Target, op: &Linear<T>, on: &dyn Operands) -> Result<(), Reason> {
        linear_types::<T>(on)?;
        let mut binding = Binding::new();
        let problem = binding.assumed(on, target.launch_device())?;
        linear_plan(&problem)?;
        target.require::<RocBlasLibrary>(op.name(), on)
    }

    fn defer(&self, target: &Target, _: &Linear<T>, on: &dyn Operands) -> Option<String> {
        few_rows_of_linear(&Binding::new().assumed(on, target.launch_device()).ok()?)
    }

    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, Linear<T>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let args = &*args;
        let mut binding = Binding::new();
        let problem = binding.bind::<Linear<T>>(args, rocm)?;
        let LinearPlan { x, weight, y, plan } =
            linear_plan(&problem).map_err(|reason| unsupported(op.name(), reason))?;
        let Some(bias) = problem.get(2) else {
            // SAFETY: a call's views lie in their memory, which the stream may access; the plan is made for
            // them.
            return unsafe { multiply(rocm, &plan, [&x, &weight, &y], 0.0) };
        };
        if bias.dtype == y.dtype {
            // The product is added to the output's contents, and the sum is rounded once. SAFETY: as above.
            unsafe { spread(rocm, bias, problem.at(3)) }?;
            // SAFETY: as above.
            return unsafe { multiply(rocm, &plan, [&x, &weight, &y], 1.0) };
        }
        // The bias is wider than the output: compute the sum in f32 elsewhere, and round it when copying it back.
        let wide = DeviceMemory::new(rocm.stream(), y.layout.len().saturating_mul(size_of::<f32>()))?;
        let lent = wide.access(rocm.stream(), Purpose::Write)?;
        let address = lent.address() as u64;
        let sums = |layout: &Layout| Bound::new(address, ElementType::F32, &Layout::of(layout.shape()));
        let out = sums(&y.layout);
        let plan = replan(&x, &weight, &out).map_err(|reason| unsupported(op.name(), reason))?;
        // SAFETY: as above; the memory holds the output's elements in f32.
        unsafe { spread(rocm, bias, &sums(&problem.at(3).layout)) }?;
        // SAFETY: as above.
        unsafe { multiply(rocm, &plan, [&x, &weight, &out], 1.0) }?;
        let y = problem.at(3);
        let narrow = cast::prepare(y.dims(), sums(&y.layout).view(), y.view(), problem.device());
        // SAFETY: as above.
        unsafe { rocm.kernels().run_one(rocm.stream(), "linear", narrow) }
    }
}

/// Enqueues `c = a · b + beta · c`.
///
/// # Safety
/// The plan is made for these operands, which lie in memory that the stream may access.
unsafe fn multiply(rocm: &Rocm, plan: &Plan, operands: [&Bound; 3], beta: f64) -> Result<()> {
    if plan.m == 0 || plan.n == 0 || plan.batch == 0 {
        return Ok(());
    }
    let type_of = |operand: &Bound| {
        datatype(operand.dtype)
            .ok_or_else(|| failed("a product", format!("rocBLAS has no {}", operand.dtype)))
    };
    let [left, right, out] = [plan.left, plan.right, plan.out].map(|matrix| operands[matrix.operand]);
    let (left_type, right_type, out_type) = (type_of(left)?, type_of(right)?, type_of(out)?);
    let compute = if left.dtype == ElementType::F64 { left_type } else { sys::rocblas_datatype_f32_r };
    let factors = Factors::new(left.dtype, beta);
    plan.calls.iter().try_for_each(|start| {
        rocm.with_library::<RocBlasLibrary, _>(|lib, &mut handle| {
            let at = |matrix: Matrix| {
                let operand = operands[matrix.operand];
                let bytes = start[matrix.operand].wrapping_mul(operand.dtype.bytes() as i64);
                operand.address.wrapping_add_signed(bytes) as *mut c_void
            };
            // SAFETY: handle and library belong together; the factors live on the host; the caller guarantees
            // that sizes and leading dimensions describe the operands.
            let status = unsafe {
                lib.rocblas_gemm_strided_batched_ex(
                    handle,
                    operation(plan.left),
                    operation(plan.right),
                    plan.m,
                    plan.n,
                    plan.k,
                    factors.one(),
                    at(plan.left),
                    left_type,
                    plan.left.ld,
                    plan.left.stride,
                    at(plan.right),
                    right_type,
                    plan.right.ld,
                    plan.right.stride,
                    factors.beta(),
                    at(plan.out),
                    out_type,
                    plan.out.ld,
                    plan.out.stride,
                    at(plan.out),
                    out_type,
                    plan.out.ld,
                    plan.out.stride,
                    plan.batch,
                    compute,
                    sys::rocblas_gemm_algo_standard,
                    0,
                    0,
                )
            };
            check::<RocBlasLibrary>(lib, "rocblas_gemm_strided_batched_ex", status)
        })
    })
}

fn operation(matrix: Matrix) -> rocblas_operation {
    if matrix.transposed { sys::rocblas_operation_transpose } else { sys::rocblas_operation_none }
}

/// 1 and beta, in the type of the sums.
enum Factors {
    Single([f32; 2]),
    Double([f64; 2]),
}

impl Factors {
    fn new(dtype: ElementType, beta: f64) -> Self {
        if dtype == ElementType::F64 {
            Factors::Double([1.0, beta])
        } else {
            Factors::Single([1.0, beta as f32])
        }
    }
    fn at(&self, place: usize) -> *const c_void {
        match self {
            Factors::Single(values) => std::ptr::from_ref(&values[place]).cast(),
            Factors::Double(values) => std::ptr::from_ref(&values[place]).cast(),
        }
    }
    fn one(&self) -> *const c_void {
        self.at(0)
    }
    fn beta(&self) -> *const c_void {
        self.at(1)
    }
}
