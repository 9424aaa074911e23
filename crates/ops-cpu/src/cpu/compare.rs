//! Comparisons and truth values.
use super::Cpu;
use super::runs::map_runs;
use super::vectors::unsupported_dtype;
use crate::host::raw::{Raw, RawMut};
use crate::host::types::unknown_function;
use crate::{Host, Kernel};
use ops_core::ops::{Compare, CompareFn, LogicalNot};
use ops_core::{Call, DType, Result, Scalar};
use ops_simd::{Isa, Number};

/// The type as the vector kernels name it.
fn number(dtype: DType) -> Option<Number> {
    Some(match dtype {
        DType::U8 => Number::U8,
        DType::U32 => Number::U32,
        DType::I8 => Number::I8,
        DType::I16 => Number::I16,
        DType::I32 => Number::I32,
        DType::I64 => Number::I64,
        DType::F8E4M3 => Number::F8E4M3,
        DType::F16 => Number::F16,
        DType::BF16 => Number::Bf16,
        DType::F32 => Number::F32,
        DType::F64 => Number::F64,
        _ => return None,
    })
}

pub(super) fn compare(f: CompareFn, a: Raw<'_>, b: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    use ops_simd::Compare as V;
    let (isa, dtype) = (Isa::best(), a.dtype);
    let op = match f {
        CompareFn::Eq => V::Eq,
        CompareFn::Ne => V::Ne,
        CompareFn::Lt => V::Lt,
        CompareFn::Le => V::Le,
        CompareFn::Gt => V::Gt,
        CompareFn::Ge => V::Ge,
        CompareFn::LogicalAnd => V::And,
        CompareFn::LogicalOr => V::Or,
        CompareFn::LogicalXor => V::Xor,
        other => return Err(unknown_function(other.name())),
    };
    map_runs(f.name(), [a, b], y, 1, 1, &|[a, b], y| {
        let number = number(dtype).ok_or_else(|| unsupported_dtype(dtype))?;
        Ok(ops_simd::compare(isa, op, number, a, b, y)?)
    })
}

pub(super) fn logical_not(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, dtype) = (Isa::best(), x.dtype);
    map_runs("logical_not", [x], y, 1, 1, &|[x], y| {
        let number = number(dtype).ok_or_else(|| unsupported_dtype(dtype))?;
        Ok(ops_simd::compare(isa, ops_simd::Compare::Nor, number, x, x, y)?)
    })
}

impl<T: Scalar> Kernel<LogicalNot<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LogicalNot<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        logical_not(Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}

impl<T: Scalar> Kernel<Compare<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Compare<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        compare(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y))
    }
}
