//! Tensors of other libraries as ours.
use crate::library::{For, Import, Kept, import};
use crate::memory::{Memory, Place, refused};
use crate::tensor::{Tensor, dtype};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rocm_ops::DType;

/// A tensor of this memory. One of ours has its own owner.
pub(crate) fn tensor_of(import: Import, memory: Memory, object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    match import.kept {
        Kept::Owned(owned) => Ok(Tensor::foreign(memory, owned)),
        Kept::Given | Kept::Detached(_) => Ok(object.cast::<Tensor>()?.get().viewed(memory)),
    }
}

/// A tensor of another library, without a copy.
#[pyfunction]
pub(crate) fn from_dlpack(x: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let import = import(x, false, For::Good, "from_dlpack", "x")?;
    let memory = import.memory;
    tensor_of(import, memory, x)
}

/// Bytes as blocks of a format, without a copy: ``blocks(array, "q8_0")`` of ``uint8`` rows.
#[pyfunction]
pub(crate) fn blocks(x: &Bound<'_, PyAny>, format: &str) -> PyResult<Tensor> {
    let import = import(x, false, For::Good, "blocks", "x")?;
    let format = dtype(format)?;
    if import.memory.dtype != DType::U8 || !format.is_block() {
        let got = import.memory.dtype;
        return Err(PyValueError::new_err(format!(
            "blocks: got {got} as {format}, expected uint8 as a block format"
        )));
    }
    let memory = import.memory.retyped(format).map_err(|why| refused("blocks", "x", &why))?;
    tensor_of(import, memory, x)
}

/// Copies the elements of a contiguous tensor of the host to bytes that another library owns.
#[pyfunction]
pub(crate) fn copy_bytes(from: &Bound<'_, Tensor>, to: &Bound<'_, PyAny>) -> PyResult<()> {
    let (source, target) = (from.get().memory, import(to, true, For::Call, "copy_bytes", "to")?);
    let bytes = source.layout.len() * source.dtype.size();
    let fits = target.memory.dtype == DType::U8 && target.memory.bytes == bytes;
    let plain = [source, target.memory]
        .iter()
        .all(|memory| memory.place == Place::Host && memory.layout.is_contiguous());
    if !fits || !plain || source.overlaps(&target.memory) {
        return Err(PyValueError::new_err(format!(
            "copy_bytes: to has other than {bytes} contiguous bytes of the host"
        )));
    }
    let start = source.address + source.layout.offset() * source.dtype.size();
    let from = std::ptr::with_exposed_provenance::<u8>(start);
    let to = std::ptr::with_exposed_provenance_mut::<u8>(target.memory.address);
    // SAFETY: both are alive, of this size and disjoint, as was checked, and the interpreter is attached.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    Ok(())
}
