//! Memory for rows and for whole operands: borrowed where an operand is as a kernel needs it, otherwise a copy.
use crate::cpu::threads;
use crate::cpu::vectors::{on_vector, report};
use crate::host::raw::Raw;
use ops_core::{Error, Result};
use std::borrow::Cow;

/// The elements in row-major order: borrowed if they are contiguous, otherwise copied.
pub(in crate::cpu) fn packed<'a, T: ops_core::Element>(x: &Raw<'a>) -> Result<Cow<'a, [T]>> {
    let data = x.slice::<T>();
    if x.layout.is_contiguous() {
        return Ok(Cow::Borrowed(&data[x.layout.extent()]));
    }
    let mut copy = reserve(x.layout.len())?;
    copy.extend(x.layout.positions().map(|p| data[p]));
    Ok(Cow::Owned(copy))
}

/// The numbers as f32 in row-major order: borrowed if they are contiguous f32, otherwise converted.
pub(in crate::cpu) fn widened<'a>(x: &Raw<'a>) -> Result<Cow<'a, [f32]>> {
    if x.dtype == ops_core::DType::F32 {
        return packed::<f32>(x);
    }
    on_vector!(x.dtype, T => {
        let mut wide = zeros::<f32>(x.layout.len())?;
        report("cast", ops_simd::cast(ops_simd::Isa::best(), &packed::<T>(x)?, &mut wide, ops_simd::Store::Cached))?;
        Ok(Cow::Owned(wide))
    }, else {
        let mut wide = reserve(x.layout.len())?;
        wide.extend(x.layout.positions().map(|p| x.f64(p) as f32));
        Ok(Cow::Owned(wide))
    })
}

/// Operands that every row of a call uses, such as a norm's weight or rope's tables.
///
/// 16-bit rows use 16-bit operands unconverted: an f32 copy would evict the row from the L1 cache.
pub(in crate::cpu) enum RowOperand<'a, const N: usize> {
    /// Unconverted: contiguous and in the dtype of the rows.
    Unconverted([&'a [u8]; N]),
    /// Widened to f32, once per call.
    Widened([Cow<'a, [f32]>; N]),
}

impl<'a, const N: usize> RowOperand<'a, N> {
    /// Prepares operands for rows of `dtype`; an operand that is `None` becomes an empty slice.
    pub(in crate::cpu) fn of(dtype: ops_core::DType, operands: [Option<Raw<'a>>; N]) -> Result<Self> {
        let same = operands.each_ref().map(|operand| match operand {
            Some(operand) if operand.dtype == dtype => operand.contiguous(),
            Some(_) => None,
            // A slice of u64, so that it is aligned for every element type.
            None => Some(bytemuck::cast_slice::<u64, u8>(&[])),
        });
        // Ties of bf16 may round either way where tables have the type of the rows, and which layouts are contiguous may depend on
        // the number of rows.
        let rounds_alike = dtype != ops_core::DType::BF16 || !threads::by_row();
        if rounds_alike && same.iter().all(Option::is_some) {
            return Ok(Self::Unconverted(same.map(Option::unwrap_or_default)));
        }
        let mut wide = [const { Cow::Owned(Vec::new()) }; N];
        for (wide, operand) in wide.iter_mut().zip(&operands) {
            if let Some(operand) = operand {
                *wide = widened(operand)?;
            }
        }
        Ok(Self::Widened(wide))
    }
}

/// Capacity for `len` elements, or an error where `Vec` would abort.
pub(in crate::cpu) fn reserve<T>(len: usize) -> Result<Vec<T>> {
    let mut v = Vec::new();
    v.try_reserve_exact(len).map_err(|_| Error::OutOfMemory {
        backend: "cpu",
        bytes: len.saturating_mul(size_of::<T>()),
        detail: "scratch memory".into(),
    })?;
    Ok(v)
}

/// Memory for `len` elements with unspecified values. When dropped, it is kept for the next call.
pub(in crate::cpu) fn scratch<T: ops_core::Element>(len: usize) -> Result<crate::HostBuffer<T>> {
    crate::HostBuffer::new(len, "cpu")
}

/// `len` zeros, or an error where `vec!` would abort.
pub(in crate::cpu) fn zeros<T: ops_core::Element>(len: usize) -> Result<Vec<T>> {
    let mut v = reserve(len)?;
    v.resize(len, T::zeroed());
    Ok(v)
}
