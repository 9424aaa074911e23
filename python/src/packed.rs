//! Weights in the order in which this processor multiplies by them fastest.
use crate::device;
use crate::errors;
use crate::library::{For, import};
use crate::memory::{Memory, Place, refused};
use crate::tensor::{Tensor, dtype};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rocm_ops::backend::Packing;
use rocm_ops::ops::LinearMethods;
use rocm_ops::{AnyTensor, Backend, Host, HostBuffer, Layout};
use std::sync::LazyLock;

/// A weight of ``linear`` or ``qlinear`` in the order in which the CPU multiplies by it fastest, which these ops otherwise make in each
/// call: a copy, read-only, which they take in place of the weight. Returns the weight itself if that would not be faster, and on a GPU.
#[pyfunction]
pub(crate) fn pack_weight<'py>(py: Python<'py>, weight: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let import = import(weight, false, For::Call, "pack_weight", "weight")?;
    let Memory { address, bytes, place, dtype, layout, packing, .. } = import.memory;
    if place != Place::Host || packing.is_some() {
        return Ok(weight.clone());
    }
    if !layout.is_contiguous() || layout.offset() > 0 {
        return Err(refused("pack_weight", "weight", "must be contiguous"));
    }
    let mut plain: HostBuffer<u8> = device::cpu().alloc(bytes).map_err(errors::op)?;
    let from = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: `import` and the caller keep the memory, which has this size and is not the new buffer's; the interpreter is attached.
    unsafe { std::ptr::copy_nonoverlapping(from, plain.as_mut_slice().as_mut_ptr(), bytes) };
    let packed = py.detach(|| {
        let plain = AnyTensor::<Host>::new(plain, dtype, layout)?;
        device::cpu().pack_weight::<f32>(plain)
    });
    match Tensor::of_packed(packed.map_err(errors::op)?) {
        Some(packed) => Ok(Bound::new(py, packed)?.into_any()),
        None => Ok(weight.clone()),
    }
}

/// The packed weight of this type and shape that these bytes hold, without a copy. They must come from a tensor that ``pack_weight``
/// has made on this machine.
#[pyfunction]
pub(crate) fn packed(bytes: &Bound<'_, PyAny>, dtype: &str, shape: Vec<usize>) -> PyResult<Tensor> {
    /// The processor's order, which its backend tells with a weight only.
    static PACKING: LazyLock<Option<&'static Packing>> = LazyLock::new(|| {
        let large_enough = device::cpu().zeros::<f32>([64, 128]).ok()?;
        device::cpu().pack_weight::<f32>(large_enough).ok()?.packing()
    });
    let import = import(bytes, false, For::Good, "packed", "bytes")?;
    let (dtype, layout) = (self::dtype(dtype)?, Layout::contiguous(&shape[..]).map_err(errors::op)?);
    let given = import.memory;
    let fits = given.layout.is_contiguous() && given.place == Place::Host;
    match *PACKING {
        Some(packing) if fits && packing.bytes(dtype, &shape) == Some(given.bytes) => {
            let memory = Memory { dtype, layout, packing: Some(packing), read_only: true, ..given };
            crate::foreign::tensor_of(import, memory, bytes)
        }
        _ => Err(PyValueError::new_err(format!(
            "packed: bytes has {} bytes, which is no packed weight of {dtype} and shape {shape:?}",
            given.bytes
        ))),
    }
}
