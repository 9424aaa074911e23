//! DLPack's capsules, and the C functions of libraries that have them.
use crate::dlpack::{self, Exchange, Managed, ManagedVersioned, Owned};
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CStr, c_void};

fn is_named(capsule: &Bound<'_, PyAny>, name: &CStr) -> bool {
    // SAFETY: the object is alive, and the function takes any object.
    unsafe { ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 1 }
}

fn pointer<'py>(capsule: &Bound<'py, PyAny>, name: &CStr) -> PyResult<*mut c_void> {
    // SAFETY: the object is alive, and the function raises an error if it is not a capsule of this name.
    let pointer = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()) };
    if pointer.is_null() { Err(PyErr::fetch(capsule.py())) } else { Ok(pointer) }
}

/// Takes the tensor out of what `__dlpack__` returned. The capsule is renamed, as DLPack demands, so that it can be taken once.
pub(crate) fn consume(capsule: &Bound<'_, PyAny>) -> PyResult<Owned> {
    let (owned, used) = if is_named(capsule, dlpack::VERSIONED) {
        let managed = pointer(capsule, dlpack::VERSIONED)?.cast::<ManagedVersioned>();
        (Owned::Versioned(managed), dlpack::USED_VERSIONED)
    } else if is_named(capsule, dlpack::LEGACY) {
        (Owned::Legacy(pointer(capsule, dlpack::LEGACY)?.cast::<Managed>()), dlpack::USED_LEGACY)
    } else {
        return Err(PyTypeError::new_err("__dlpack__ returned no DLPack capsule that was not used before"));
    };
    // SAFETY: a capsule, as was checked; the name is a static string.
    let renamed = unsafe { ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
    if renamed == 0 {
        return Ok(owned);
    }
    // The capsule still owns the tensor.
    std::mem::forget(owned);
    Err(PyErr::fetch(capsule.py()))
}

/// A capsule for a consumer. Until it is used, it owns the tensor.
pub(crate) fn produce(py: Python<'_>, owned: Owned) -> PyResult<Py<PyAny>> {
    unsafe extern "C" fn drop_unused(capsule: *mut ffi::PyObject) {
        // SAFETY: called once by Python with a capsule that `produce` made. Under its first name it still owns the tensor.
        unsafe {
            for name in [dlpack::VERSIONED, dlpack::LEGACY] {
                if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 1 {
                    let managed = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
                    drop(match name == dlpack::LEGACY {
                        true => Owned::Legacy(managed.cast()),
                        false => Owned::Versioned(managed.cast()),
                    });
                }
            }
        }
    }
    let (managed, name): (*mut c_void, _) = match &owned {
        Owned::Legacy(managed) => (managed.cast(), dlpack::LEGACY),
        Owned::Versioned(managed) => (managed.cast(), dlpack::VERSIONED),
    };
    // SAFETY: the pointer is not null, the name is static, and the destructor fits what the capsule holds.
    let capsule = unsafe { ffi::PyCapsule_New(managed, name.as_ptr(), Some(drop_unused)) };
    if capsule.is_null() {
        return Err(PyErr::fetch(py));
    }
    std::mem::forget(owned);
    // SAFETY: a new reference to an object.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) }.unbind())
}

/// The functions of the library that a type belongs to, in a version that this module knows. They live as long as the process: a
/// library puts them in static memory, as DLPack demands.
pub(crate) fn exchange(of: &Bound<'_, PyAny>) -> Option<&'static Exchange> {
    let capsule = of.getattr("__dlpack_c_exchange_api__").ok()?;
    let mut api = pointer(&capsule, dlpack::EXCHANGE).ok()?.cast::<Exchange>();
    while !api.is_null() {
        // SAFETY: DLPack demands that the table lives as long as the process. Version and predecessor come first in every version.
        let (version, previous) = unsafe { ((*api).version, (*api).previous) };
        if version.major == dlpack::VERSION.major {
            // SAFETY: as above, and the table is that of major version 1.
            return Some(unsafe { &*api });
        }
        api = previous;
    }
    None
}
