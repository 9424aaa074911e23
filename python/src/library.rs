//! The library that an object belongs to: how its memory is found, and how a result of the same kind is made.
use crate::capsule;
use crate::dlpack::{self, Exchange, Owned};
use crate::memory::{Memory, Place, device_of, refused, type_of};
use crate::tensor::Tensor;
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};
use rocm_ops::{DType, Layout, Shape};
use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// The library of an object.
#[derive(Clone, Copy)]
pub(crate) enum Library {
    /// This one.
    Own,
    NumPy,
    /// PyTorch; its functions, if its version has them.
    Torch(Option<&'static Exchange>),
    /// Another one that exchanges tensors without capsules.
    Exchange(&'static Exchange),
    /// Another one with `__dlpack__`.
    Other,
}

impl Library {
    /// The library of an object of this type. Types are few, and each is looked at once.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Library> {
        /// Keeps the types, so that no other gets the same address.
        static KNOWN: Mutex<Vec<(Py<PyType>, Library)>> = Mutex::new(Vec::new());
        let of = object.get_type();
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, library)) = known.iter().find(|(known, _)| known.as_ptr() == of.as_ptr()) {
            return Ok(*library);
        }
        // The look-up runs code of the object.
        drop(known);
        let library = Library::look_up(object, &of)?;
        KNOWN.lock().unwrap_or_else(PoisonError::into_inner).push((of.unbind(), library));
        Ok(library)
    }

    fn look_up(object: &Bound<'_, PyAny>, of: &Bound<'_, PyType>) -> PyResult<Library> {
        if object.is_instance_of::<Tensor>() {
            return Ok(Library::Own);
        }
        let mut is = (false, false);
        for base in of.mro() {
            let base = base.cast_into::<PyType>()?;
            let module = base.module()?;
            let package = module.to_string();
            match package.split('.').next() {
                Some("numpy") => is.0 = true,
                Some("torch") => is.1 = true,
                _ => {}
            }
        }
        let exchange = capsule::exchange(of);
        match (is, exchange) {
            ((true, _), _) if object.hasattr("__dlpack__")? => Ok(Library::NumPy),
            ((_, true), exchange) if object.hasattr("__dlpack__")? => Ok(Library::Torch(exchange)),
            (_, Some(exchange)) => Ok(Library::Exchange(exchange)),
            _ if object.hasattr("__dlpack__")? => Ok(Library::Other),
            _ => Err(PyTypeError::new_err(format!("is of type {}", of.name()?))),
        }
    }

    fn exchange(self) -> Option<&'static Exchange> {
        match self {
            Library::Torch(exchange) => exchange,
            Library::Exchange(exchange) => Some(exchange),
            _ => None,
        }
    }

    /// The stream that the library works on now; `None` if it cannot say.
    pub(crate) fn stream(self, py: Python<'_>, id: u32) -> PyResult<Option<usize>> {
        let Some(current) = self.exchange().and_then(|exchange| exchange.stream) else { return Ok(None) };
        let mut stream = null_mut();
        // SAFETY: a function of the library's table; the interpreter is attached, and the pointer is that of a local variable.
        match unsafe { current(dlpack::ROCM, id as i32, &raw mut stream) } {
            0 => Ok(Some(stream as usize)),
            _ => Err(PyErr::fetch(py)),
        }
    }
}

/// A tensor that a call uses, and what keeps its memory.
pub(crate) struct Import {
    pub(crate) memory: Memory,
    pub(crate) library: Library,
    pub(crate) kept: Kept,
}

/// What keeps the memory of an operand.
pub(crate) enum Kept {
    /// The object that was given.
    Given,
    /// An object without the gradient of the one that was given.
    Detached(#[allow(dead_code, reason = "keeps the memory")] Py<PyAny>),
    Owned(Owned),
}

/// How long memory is needed.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum For {
    /// For a call, in which the caller has the object.
    Call,
    /// For longer.
    Good,
}

/// The memory of an object. `write` says whether the call writes it; `op` and `operand` are for errors.
pub(crate) fn import(
    object: &Bound<'_, PyAny>,
    write: bool,
    time: For,
    op: &str,
    operand: &str,
) -> PyResult<Import> {
    let library = Library::of(object).map_err(|error| {
        let what = error.value(object.py()).to_string();
        PyTypeError::new_err(format!("{op}: {operand} {what}; expected a tensor, an object with __dlpack__"))
    })?;
    let import = match library {
        Library::Own => {
            let tensor = object.cast::<Tensor>()?.get();
            Import { memory: tensor.memory, library, kept: Kept::Given }
        }
        Library::Torch(exchange) => {
            let detached = differentiable(object, write, op, operand)?;
            let object = detached.as_ref().unwrap_or(object);
            match exchange.and_then(|exchange| exchange.view) {
                Some(view) if time == For::Call => Import {
                    memory: viewed(object, view, op, operand)?,
                    library,
                    kept: detached.map_or(Kept::Given, |detached| Kept::Detached(detached.unbind())),
                },
                _ => described(object, library, op, operand)?,
            }
        }
        _ => described(object, library, op, operand)?,
    };
    if write && import.memory.read_only {
        return Err(refused(op, operand, "is written by this op, and is read-only; pass a copy of it"));
    }
    Ok(import)
}

/// A tensor of PyTorch without its gradient if it has one, or the error if that would be lost.
fn differentiable<'py>(
    object: &Bound<'py, PyAny>,
    write: bool,
    op: &str,
    operand: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = object.py();
    if !object.getattr(intern!(py, "requires_grad"))?.is_truthy()? {
        return Ok(None);
    }
    if write {
        return Err(refused(
            op,
            operand,
            "is written by this op, and requires gradients; pass its .detach()",
        ));
    }
    if py.import("torch")?.call_method0("is_grad_enabled")?.is_truthy()? {
        let why = "requires gradients, which these ops do not compute; pass its .detach(), or call under torch.no_grad()";
        return Err(refused(op, operand, why));
    }
    object.call_method0("detach").map(Some)
}

/// The memory of a tensor of PyTorch while the caller has it. PyTorch has no read-only tensors.
fn viewed(object: &Bound<'_, PyAny>, view: dlpack::ViewOf, op: &str, operand: &str) -> PyResult<Memory> {
    let mut tensor = dlpack::Tensor::NONE;
    // SAFETY: a function of the table of the object's type; the interpreter is attached, the object is alive, and the pointer is that
    // of a local variable.
    if unsafe { view(object.as_ptr().cast(), &raw mut tensor) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    // SAFETY: the object keeps the lists of the tensor.
    unsafe { Memory::of(&tensor, false) }.map_err(|why| refused(op, operand, &why))
}

/// The memory that a library describes.
fn described(object: &Bound<'_, PyAny>, library: Library, op: &str, operand: &str) -> PyResult<Import> {
    let owned = match library.exchange().and_then(|exchange| exchange.from_object) {
        Some(from_object) => {
            let mut managed = null_mut();
            // SAFETY: a function of the table of the object's type; the interpreter is attached, and the object is alive.
            if unsafe { from_object(object.as_ptr().cast(), &raw mut managed) } != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            Owned::Versioned(managed)
        }
        None => capsule::consume(&exported(object)?)?,
    };
    let (tensor, read_only) = owned
        .tensor()
        .ok_or_else(|| refused(op, operand, "is of an unknown version of DLPack; expected 1.x"))?;
    // SAFETY: `owned` keeps the lists of the tensor.
    let memory = unsafe { Memory::of(&tensor, read_only) }.map_err(|why| refused(op, operand, &why))?;
    Ok(Import { memory, library, kept: Kept::Owned(owned) })
}

/// Calls `__dlpack__`: first as of DLPack 1.0, then as before.
fn exported<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static VERSIONED: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let py = object.py();
    let version = VERSIONED.get_or_try_init(py, || {
        let words = PyDict::new(py);
        words.set_item("max_version", (dlpack::VERSION.major, dlpack::VERSION.minor))?;
        PyResult::Ok(words.unbind())
    })?;
    let method = object.getattr(intern!(py, "__dlpack__"))?;
    match method.call((), Some(version.bind(py))) {
        Err(error) if error.is_instance_of::<PyTypeError>(py) => method.call0(),
        capsule => capsule,
    }
}

/// An output that a call has allocated.
pub(crate) struct Output {
    pub(crate) memory: Memory,
    result: Made,
}

enum Made {
    Object(Py<PyAny>, #[allow(dead_code, reason = "keeps the memory")] Kept),
    /// Of the library with this table: becomes an object when it is written.
    Managed(Owned, &'static Exchange),
}

impl Output {
    /// Memory for a result, of the same kind as the operand from `library`.
    pub(crate) fn new(
        py: Python<'_>,
        library: Library,
        place: Place,
        dtype: DType,
        shape: &Shape,
    ) -> PyResult<Self> {
        if !dtype.is_block() {
            match library {
                Library::NumPy if !matches!(dtype, DType::BF16 | DType::F8E4M3) => {
                    return numpy(py, dtype, shape);
                }
                _ => {}
            }
            if let Some(exchange) = library.exchange()
                && let (Some(_), Some(_)) = (exchange.allocate, exchange.to_object)
            {
                return allocated(exchange, place, dtype, shape);
            }
            if matches!(library, Library::Torch(_)) {
                return torch(py, place, dtype, shape);
            }
        }
        let tensor = Tensor::empty(place, dtype, shape)?;
        let memory = tensor.memory;
        Ok(Output { memory, result: Made::Object(Py::new(py, tensor)?.into_any(), Kept::Given) })
    }

    /// The object, when everything is written.
    pub(crate) fn into_object(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (owned, exchange) = match self.result {
            Made::Object(object, _) => return Ok(object),
            Made::Managed(owned, exchange) => (owned, exchange),
        };
        let (Some(managed), Some(to_object)) = (owned.into_versioned(), exchange.to_object) else {
            return Err(PyValueError::new_err("a library has no function that makes a tensor"));
        };
        let mut object = null_mut();
        // SAFETY: a function of the library's table takes the tensor that it allocated; the interpreter is attached.
        if unsafe { to_object(managed, &raw mut object) } != 0 {
            return Err(PyErr::fetch(py));
        }
        // SAFETY: a new reference to an object.
        Ok(unsafe { Bound::from_owned_ptr(py, object.cast()) }.unbind())
    }
}

fn numpy(py: Python<'_>, dtype: DType, shape: &Shape) -> PyResult<Output> {
    static EMPTY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let empty = EMPTY.get_or_try_init(py, || PyResult::Ok(py.import("numpy")?.getattr("empty")?.unbind()))?;
    let name = match dtype {
        DType::F64 => intern!(py, "f8"),
        DType::F32 => intern!(py, "f4"),
        DType::F16 => intern!(py, "f2"),
        DType::I64 => intern!(py, "i8"),
        DType::I32 => intern!(py, "i4"),
        DType::I16 => intern!(py, "i2"),
        DType::I8 => intern!(py, "i1"),
        DType::U32 => intern!(py, "u4"),
        _ => intern!(py, "u1"),
    };
    let array = empty.bind(py).call1((PyTuple::new(py, shape.dims())?, name))?;
    let Import { memory, kept, .. } = described(&array, Library::NumPy, "numpy.empty", "result")?;
    Ok(Output { memory, result: Made::Object(array.unbind(), kept) })
}

fn torch(py: Python<'_>, place: Place, dtype: DType, shape: &Shape) -> PyResult<Output> {
    let torch = py.import("torch")?;
    let name = match dtype {
        DType::F64 => "float64",
        DType::F32 => "float32",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F8E4M3 => "float8_e4m3fn",
        DType::I64 => "int64",
        DType::I32 => "int32",
        DType::I16 => "int16",
        DType::I8 => "int8",
        DType::U32 => "uint32",
        _ => "uint8",
    };
    let words = PyDict::new(py);
    words.set_item("dtype", torch.getattr(name)?)?;
    if let Place::Rocm(id) = place {
        words.set_item("device", format!("cuda:{id}"))?;
    }
    let tensor = torch.call_method("empty", (PyTuple::new(py, shape.dims())?,), Some(&words))?;
    let Import { memory, kept, .. } = described(&tensor, Library::Torch(None), "torch.empty", "result")?;
    Ok(Output { memory, result: Made::Object(tensor.unbind(), kept) })
}

/// Memory from a library's own allocator.
fn allocated(exchange: &'static Exchange, place: Place, dtype: DType, shape: &Shape) -> PyResult<Output> {
    /// Notes that there was an error; its text is not kept.
    unsafe extern "C" fn failed(context: *mut c_void, _kind: *const c_char, _message: *const c_char) {
        // SAFETY: the context is the flag below.
        unsafe { *context.cast::<bool>() = true };
    }
    let mut dims: Vec<i64> = shape.dims().iter().map(|extent| *extent as i64).collect();
    let mut prototype = dlpack::Tensor {
        device: device_of(place),
        rank: dims.len() as i32,
        dtype: type_of(dtype),
        shape: dims.as_mut_ptr(),
        ..dlpack::Tensor::NONE
    };
    let (mut managed, mut wrong) = (null_mut(), false);
    let allocate = exchange.allocate.ok_or_else(|| PyValueError::new_err("a library has no allocator"))?;
    // SAFETY: a function of the library's table; all pointers are those of local variables.
    let status = unsafe { allocate(&raw mut prototype, &raw mut managed, (&raw mut wrong).cast(), failed) };
    if status != 0 || wrong || managed.is_null() {
        let bytes = shape.len().saturating_mul(dtype.size());
        return Err(PyMemoryError::new_err(format!(
            "the library of the first operand cannot allocate {bytes} bytes"
        )));
    }
    let owned = Owned::Versioned(managed);
    let (tensor, read_only) =
        owned.tensor().ok_or_else(|| PyValueError::new_err("unknown version of DLPack"))?;
    // SAFETY: `owned` keeps the lists of the tensor.
    let mut memory = unsafe { Memory::of(&tensor, read_only) }.map_err(PyValueError::new_err)?;
    // A tensor of one element may have any strides.
    memory.layout = Layout::of(*shape);
    Ok(Output { memory, result: Made::Managed(owned, exchange) })
}
