//! `rocm_ops.Tensor`: memory of ours, or of another library without a copy.
use crate::capsule;
use crate::device;
use crate::dlpack::{self, Owned};
use crate::errors;
use crate::memory::{Memory, Place, device_of, settle, type_of};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rocm_ops::backend::{Packing, Space};
use rocm_ops::ops::registry;
use rocm_ops::rocm::hip::Purpose;
use rocm_ops::rocm::{HipBuffer, HipSpace};
use rocm_ops::{AnyTensor, Backend, DType, Host, HostBuffer, Layout, Rocm, Shape};
use std::sync::Arc;

/// What keeps a tensor's memory. It is not used otherwise: the tensor knows the address.
pub(crate) enum Owner {
    Host(#[allow(dead_code, reason = "keeps the memory")] HostBuffer<u8>),
    Shared(#[allow(dead_code, reason = "keeps the memory")] Arc<dyn AsRef<[u8]> + Send + Sync>),
    Rocm(HipBuffer<u8>, Rocm),
    Foreign(#[allow(dead_code, reason = "keeps the memory")] Foreign),
}

/// A tensor of another library.
pub(crate) struct Foreign(#[allow(dead_code, reason = "keeps the memory")] Owned);

// SAFETY: nothing but the deleter of the managed tensor is called, once, and DLPack demands that any thread may do so.
unsafe impl Send for Foreign {}
// SAFETY: a shared reference gives access to nothing.
unsafe impl Sync for Foreign {}

/// A tensor in the memory of the host or of an AMD GPU, with any element type of rocm_ops, block formats included.
///
/// Other libraries take it without a copy: ``numpy.from_dlpack(t)``, ``torch.from_dlpack(t)``. Blocks are bytes there.
#[pyclass(frozen, module = "rocm_ops", name = "Tensor")]
pub(crate) struct Tensor {
    pub(crate) memory: Memory,
    owner: Arc<Owner>,
}

impl Tensor {
    /// A tensor of unspecified values.
    pub(crate) fn empty(place: Place, dtype: DType, shape: &Shape) -> PyResult<Self> {
        let bytes = shape.len().checked_mul(dtype.size());
        let bytes =
            bytes.ok_or_else(|| PyValueError::new_err(format!("a tensor of shape {shape} is too large")))?;
        let (address, owner) = match place {
            Place::Host => {
                let mut buffer: HostBuffer<u8> = device::cpu().alloc(bytes).map_err(errors::op)?;
                (buffer.as_mut_slice().as_mut_ptr().expose_provenance(), Owner::Host(buffer))
            }
            Place::Rocm(id) => {
                let queue = device::own(id)?;
                let buffer: HipBuffer<u8> = queue.alloc(bytes).map_err(errors::op)?;
                let access = buffer.memory().access(queue.stream(), Purpose::Write);
                let address = access.map_err(|error| errors::op(error.into()))?.address().expose_provenance();
                (address, Owner::Rocm(buffer, queue))
            }
        };
        let address = if bytes == 0 { 256 } else { address };
        let layout = Layout::of(*shape);
        let memory = Memory { address, bytes, place, dtype, layout, read_only: false, packing: None };
        Ok(Tensor { memory, owner: Arc::new(owner) })
    }

    /// A tensor of these values.
    pub(crate) fn of_f32(dims: &[usize], values: Vec<f32>) -> PyResult<Self> {
        let layout = Layout::contiguous(dims).map_err(errors::op)?;
        let mut buffer = Host::into_bytes(HostBuffer::from(values));
        let (address, bytes) =
            (buffer.as_mut_slice().as_mut_ptr().expose_provenance(), buffer.as_slice().len());
        Ok(Tensor::of_host(address, bytes, DType::F32, layout, None, Owner::Host(buffer)))
    }

    /// A packed weight; `None` if it is not packed.
    pub(crate) fn of_packed(weight: AnyTensor<Host>) -> Option<Self> {
        let (packing, dtype, layout) = (weight.packing()?, weight.dtype(), *weight.layout());
        let (len, mut buffer) = (weight.bytes(), weight.into_buffer());
        let address = buffer.as_mut_slice().as_mut_ptr().expose_provenance();
        Some(Tensor::of_host(address, len, dtype, layout, Some(packing), Owner::Host(buffer)))
    }

    /// Memory of the host. Packed memory is read-only.
    fn of_host(
        address: usize,
        bytes: usize,
        dtype: DType,
        layout: Layout,
        packing: Option<&'static Packing>,
        owner: Owner,
    ) -> Self {
        let (place, read_only) = (Place::Host, packing.is_some());
        let memory = Memory { address, bytes, place, dtype, layout, read_only, packing };
        Tensor { memory, owner: Arc::new(owner) }
    }

    /// Memory that others may also read, such as a file's.
    pub(crate) fn shared(
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
        dtype: DType,
        dims: &[usize],
    ) -> PyResult<Self> {
        let layout = Layout::contiguous(dims).map_err(errors::op)?;
        let slice = (*bytes).as_ref();
        let (address, len) = (slice.as_ptr().expose_provenance(), slice.len());
        if address % dtype.align() != 0 || layout.len().checked_mul(dtype.size()) != Some(len) {
            return Err(PyValueError::new_err(format!(
                "a file's tensor of {dtype} is cut off or misaligned"
            )));
        }
        let tensor = Tensor::of_host(address, len, dtype, layout, None, Owner::Shared(bytes));
        Ok(Tensor { memory: Memory { read_only: true, ..tensor.memory }, ..tensor })
    }

    /// Memory of another library, which `owned` keeps.
    pub(crate) fn foreign(memory: Memory, owned: Owned) -> Self {
        Tensor { memory, owner: Arc::new(Owner::Foreign(Foreign(owned))) }
    }

    /// The memory of this tensor, described otherwise.
    pub(crate) fn viewed(&self, memory: Memory) -> Self {
        Tensor { memory, owner: self.owner.clone() }
    }

    /// The extents and strides as others see them: blocks are bytes, and a packed tensor has one axis of them.
    fn described(&self) -> PyResult<(Vec<i64>, Vec<i64>)> {
        let Memory { layout, dtype, packing, bytes, .. } = &self.memory;
        if packing.is_some() {
            return Ok((vec![*bytes as i64], vec![1]));
        }
        let mut dims: Vec<i64> = layout.dims().iter().map(|extent| *extent as i64).collect();
        let mut strides: Vec<i64> = layout.strides().iter().map(|stride| *stride as i64).collect();
        if dtype.is_block() {
            let (size, Some(last)) = (dtype.size() as i64, dims.last_mut()) else {
                return Err(PyBufferError::new_err("a tensor of blocks has at least one axis"));
            };
            *last *= size;
            strides.iter_mut().for_each(|stride| *stride *= size);
            if let Some(last) = strides.last_mut() {
                *last = 1;
            }
        }
        Ok((dims, strides))
    }

    fn copied(&self, py: Python<'_>, place: Place) -> PyResult<Self> {
        let memory = self.memory;
        if !memory.layout.is_contiguous() || memory.packing.is_some() {
            return Err(PyValueError::new_err(
                "only contiguous tensors that are not packed are copied between devices",
            ));
        }
        let shape = memory.layout.shape();
        let to = Tensor::empty(place, memory.dtype, &shape)?;
        py.detach(|| copy(self, &to))?;
        Ok(to)
    }
}

/// Copies between the host and a device, or within one of them.
fn copy(from: &Tensor, to: &Tensor) -> PyResult<()> {
    let bytes = from.memory.layout.len() * from.memory.dtype.size();
    let start = from.memory.layout.offset() * from.memory.dtype.size();
    if bytes == 0 {
        return Ok(());
    }
    let host = match from.memory.place {
        Place::Host => {
            let at = std::ptr::with_exposed_provenance::<u8>(from.memory.address + start);
            // SAFETY: the owner of the tensor keeps the memory, and the layout is contiguous from its offset on.
            unsafe { std::slice::from_raw_parts(at, bytes) }.to_vec()
        }
        Place::Rocm(id) => {
            let queue = device::own(id)?;
            // SAFETY: the owner of the tensor keeps the memory, which is that of the device, for this call.
            let held = unsafe { crate::memory::Lends::hold(&queue, &from.memory) };
            let gap = HipSpace::len(HipSpace::borrow(&held)) - from.memory.bytes;
            queue.read_vec(HipSpace::borrow(&held), gap + start, bytes).map_err(errors::op)?
        }
    };
    match &*to.owner {
        Owner::Rocm(buffer, queue) => {
            // SAFETY: the tensor is new, so nobody else uses its memory; it is kept during this call.
            let mut held = unsafe { crate::memory::Lends::hold(queue, &to.memory) };
            queue.write(&host, HipSpace::borrow_mut(&mut held), 0).map_err(errors::op)?;
            queue.synchronize().map_err(errors::op)?;
            let _ = buffer;
        }
        _ => {
            let at = std::ptr::with_exposed_provenance_mut::<u8>(to.memory.address);
            // SAFETY: the tensor is new, so nobody else uses its memory, and it has as many bytes.
            unsafe { std::ptr::copy_nonoverlapping(host.as_ptr(), at, bytes) };
        }
    }
    Ok(())
}

/// A place by its name: `cpu`, `rocm`, `rocm:1`.
pub(crate) fn place(name: &str) -> PyResult<Place> {
    match name.split_once(':') {
        None if name == "cpu" => Ok(Place::Host),
        None if name == "rocm" => Ok(Place::Rocm(0)),
        Some(("rocm", id)) if id.parse::<u32>().is_ok() => Ok(Place::Rocm(id.parse().unwrap_or_default())),
        _ => Err(PyValueError::new_err(format!("device is {name:?}, expected cpu, rocm or rocm:N"))),
    }
}

/// The element type of this name.
pub(crate) fn dtype(name: &str) -> PyResult<DType> {
    registry::dtype(name).ok_or_else(|| {
        let known: Vec<_> = registry::Group::Elements.members().iter().map(|dtype| dtype.name()).collect();
        PyValueError::new_err(format!("dtype is {name:?}, expected one of {}", known.join(", ")))
    })
}

#[pymethods]
impl Tensor {
    /// The extents. Of a tensor of blocks, the last one counts blocks.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.memory.layout.dims())
    }
    /// The name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.memory.dtype.name()
    }
    /// Where it is: ``cpu`` or ``rocm:0``.
    #[getter]
    fn device(&self) -> String {
        match self.memory.place {
            Place::Host => "cpu".to_owned(),
            Place::Rocm(id) => format!("rocm:{id}"),
        }
    }
    /// Whether ops may not write it, such as a model file's tensor.
    #[getter]
    fn read_only(&self) -> bool {
        self.memory.read_only
    }
    /// Whether it is a weight in the order of ``pack_weight``. Other libraries see one axis of bytes.
    #[getter]
    fn packed(&self) -> bool {
        self.memory.packing.is_some()
    }
    /// A copy of a packed weight in the usual order; any other tensor itself.
    fn unpacked(slf: &Bound<'_, Self>) -> PyResult<Py<Self>> {
        let Memory { address, bytes, dtype, layout, packing, .. } = slf.get().memory;
        let Some(packing) = packing else { return Ok(slf.clone().unbind()) };
        let plain = Tensor::empty(Place::Host, dtype, &layout.shape())?;
        let from = std::ptr::with_exposed_provenance::<u8>(address);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(plain.memory.address);
        // SAFETY: the owner of the tensor keeps the memory, and other threads must not write it meanwhile, as with operands of ops.
        let from = unsafe { std::slice::from_raw_parts(from, bytes) };
        // SAFETY: the tensor is new, so nobody else uses its memory.
        let to = unsafe { std::slice::from_raw_parts_mut(to, plain.memory.bytes) };
        slf.py().detach(|| packing.unpack(dtype, layout.dims(), from, to)).map_err(errors::op)?;
        Py::new(slf.py(), plain)
    }
    /// The address of the first element.
    #[getter]
    fn data_ptr(&self) -> usize {
        self.memory.address + self.memory.layout.offset() * self.memory.dtype.size()
    }
    /// A copy on a device, ``cpu`` or ``rocm:0``; the tensor itself if it is there.
    fn to(slf: &Bound<'_, Self>, device: &str) -> PyResult<Py<Self>> {
        let place = place(device)?;
        if place == slf.get().memory.place {
            return Ok(slf.clone().unbind());
        }
        Py::new(slf.py(), slf.get().copied(slf.py(), place)?)
    }
    /// The tensor as a NumPy array: without a copy if it is in the memory of the host. Blocks are bytes.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let host = Tensor::to(slf, "cpu")?;
        slf.py().import("numpy")?.call_method1("from_dlpack", (host,))
    }
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__(
        &self,
        py: Python<'_>,
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Py<PyAny>> {
        // The consumer's stream need not wait, because the work is done when this returns.
        let _ = stream;
        let Memory { address, place, dtype, layout, packing, .. } = self.memory;
        // Whatever is written to packed bytes, they are a weight.
        let read_only = self.memory.read_only && packing.is_none();
        let device = device_of(place);
        if dl_device.is_some_and(|wanted| wanted != (device.kind, device.id)) || copy == Some(true) {
            return Err(PyBufferError::new_err("a copy was asked for; use Tensor.to, or copy the result"));
        }
        py.detach(|| settle(place))?;
        let (dims, strides) = self.described()?;
        let data = std::ptr::with_exposed_provenance_mut(address + layout.offset() * dtype.size());
        let tensor = dlpack::Tensor {
            data,
            device,
            dtype: type_of(if packing.is_some() { DType::U8 } else { dtype }),
            ..dlpack::Tensor::NONE
        };
        let owner = self.owner.clone();
        let owned = if max_version.is_some_and(|version| version.0 >= dlpack::VERSION.major) {
            let flags = if read_only { dlpack::READ_ONLY } else { 0 };
            Owned::Versioned(dlpack::export(tensor, dims, strides, flags, owner))
        } else if read_only {
            return Err(PyBufferError::new_err(
                "the tensor is read-only, which this consumer's version of DLPack cannot know; copy it with Tensor.numpy().copy()",
            ));
        } else {
            Owned::Legacy(dlpack::export_legacy(tensor, dims, strides, owner))
        };
        capsule::produce(py, owned)
    }
    fn __dlpack_device__(&self) -> (i32, i32) {
        let device = device_of(self.memory.place);
        (device.kind, device.id)
    }
    fn __repr__(&self) -> String {
        let Memory { dtype, layout, .. } = self.memory;
        format!(
            "rocm_ops.Tensor(shape={:?}, dtype={:?}, device={:?})",
            layout.dims(),
            dtype.name(),
            self.device()
        )
    }
}

/// A tensor of unspecified values.
#[pyfunction]
#[pyo3(signature = (shape, dtype="f32", device="cpu"))]
pub(crate) fn empty(shape: Vec<usize>, dtype: &str, device: &str) -> PyResult<Tensor> {
    let shape = Layout::contiguous(&shape[..]).map_err(errors::op)?.shape();
    Tensor::empty(place(device)?, self::dtype(dtype)?, &shape)
}

/// The number of values and of bytes in an element of this type: of one value, unless it is a block.
#[pyfunction]
pub(crate) fn block(dtype: &str) -> PyResult<(usize, usize)> {
    let dtype = self::dtype(dtype)?;
    Ok((dtype.values(), dtype.size()))
}
