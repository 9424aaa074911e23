//! Memory that a tensor describes, and views of it for backends.
use crate::device;
use crate::dlpack;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rocm_ops::backend::{Packing, Space};
use rocm_ops::rocm::hip::DeviceMemory;
use rocm_ops::rocm::{HipBuffer, HipSpace};
use rocm_ops::{AnyMut, AnyRef, DType, EitherHost, Host, Layout, MAX_RANK, Result, Rocm};

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host,
    Rocm(u32),
}

/// Elements in memory that something else keeps alive: from the lowest to the highest that the layout reaches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    pub(crate) address: usize,
    pub(crate) bytes: usize,
    pub(crate) place: Place,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
    pub(crate) read_only: bool,
    /// The order of the elements, if they are packed; they are then in the memory of the host, and never written.
    pub(crate) packing: Option<&'static Packing>,
}

impl Memory {
    /// The memory of a tensor of DLPack, or why it cannot be used.
    ///
    /// # Safety
    /// The lists of extents and strides are as long as the rank, unless the pointer to strides is null.
    pub(crate) unsafe fn of(tensor: &dlpack::Tensor, read_only: bool) -> Result<Self, String> {
        let place = place_of(tensor.device)?;
        let dtype = dtype_of(tensor.dtype)?;
        let rank = usize::try_from(tensor.rank).unwrap_or(usize::MAX);
        if rank > MAX_RANK {
            return Err(format!("has {rank} axes; expected at most {MAX_RANK}"));
        }
        let (mut dims, mut strides) = ([0_usize; MAX_RANK], [0_isize; MAX_RANK]);
        for axis in 0..rank {
            // SAFETY: within the list, as the caller states.
            let extent = unsafe { *tensor.shape.add(axis) };
            dims[axis] = usize::try_from(extent).map_err(|_| format!("has an extent of {extent}"))?;
            if !tensor.strides.is_null() {
                // SAFETY: as above.
                strides[axis] = unsafe { *tensor.strides.add(axis) } as isize;
            }
        }
        let (dims, strides) = (&dims[..rank], &strides[..rank]);
        let address = (tensor.data as usize).wrapping_add(tensor.offset as usize);
        let of = |error: rocm_ops::Error| error.to_string();
        if tensor.strides.is_null() {
            return Memory::at(address, place, dtype, Layout::contiguous(dims).map_err(of)?, 0, read_only);
        }
        // Negative strides lead below the first element.
        let below: isize = match dims.contains(&0) {
            true => 0,
            false => dims.iter().zip(strides).map(|(d, s)| s.min(&0).saturating_mul(*d as isize - 1)).sum(),
        };
        let layout = Layout::strided(dims, strides, below.unsigned_abs()).map_err(of)?;
        Memory::at(address, place, dtype, layout, below.unsigned_abs(), read_only)
    }

    /// Memory around the element at `address`, which has `below` elements of the layout below it.
    fn at(
        address: usize,
        place: Place,
        dtype: DType,
        layout: Layout,
        below: usize,
        read_only: bool,
    ) -> Result<Self, String> {
        let extent = layout.extent();
        if extent.is_empty() {
            // No element is read, so any aligned address will do.
            let layout = Layout::contiguous(layout.dims()).map_err(|error| error.to_string())?;
            return Ok(Memory { address: 256, bytes: 0, place, dtype, layout, read_only, packing: None });
        }
        let (size, lowest) = (dtype.size(), address - below * dtype.size());
        if lowest % dtype.align() != 0 {
            return Err(format!("is at address {lowest:#x}, which is not a multiple of {}", dtype.align()));
        }
        let bytes = extent.end * size;
        Ok(Memory { address: lowest, bytes, place, dtype, layout, read_only, packing: None })
    }

    /// The same memory as elements of a type that has as many bytes in a row.
    pub(crate) fn retyped(self, dtype: DType) -> Result<Self, String> {
        let (dims, size) = (self.layout.dims(), dtype.size() / self.dtype.size().max(1));
        let Some((last, outer)) = dims.split_last().filter(|_| size > 0 && self.layout.is_contiguous())
        else {
            return Err("must be contiguous and have an axis".to_owned());
        };
        if last % size != 0 {
            return Err(format!(
                "has rows of {last} elements; expected a multiple of {size}, the size of a block"
            ));
        }
        let dims = [outer, &[last / size]].concat();
        let layout = Layout::contiguous(&dims[..]).map_err(|error| error.to_string())?;
        Ok(Memory { dtype, layout, ..self })
    }

    /// Whether two have bytes in common.
    pub(crate) fn overlaps(&self, other: &Memory) -> bool {
        let ends = |memory: &Memory| memory.address + memory.bytes;
        self.place == other.place && self.address < ends(other) && other.address < ends(self)
    }
}

fn place_of(device: dlpack::Device) -> Result<Place, String> {
    match (device.kind, u32::try_from(device.id)) {
        (dlpack::CPU | dlpack::CUDA_HOST | dlpack::ROCM_HOST, _) => Ok(Place::Host),
        (dlpack::ROCM, Ok(id)) => Ok(Place::Rocm(id)),
        (kind, _) => Err(format!(
            "is on a device of DLPack's type {kind}; expected the CPU ({}) or an AMD GPU ({})",
            dlpack::CPU,
            dlpack::ROCM
        )),
    }
}

/// The element type of DLPack for one of ours; blocks are bytes there.
pub(crate) fn type_of(dtype: DType) -> dlpack::Type {
    let (code, bits) = match dtype {
        DType::F64 => (dlpack::FLOAT, 64),
        DType::F32 => (dlpack::FLOAT, 32),
        DType::F16 => (dlpack::FLOAT, 16),
        DType::BF16 => (dlpack::BFLOAT, 16),
        DType::F8E4M3 => (dlpack::FLOAT8_E4M3FN, 8),
        DType::I64 => (dlpack::INT, 64),
        DType::I32 => (dlpack::INT, 32),
        DType::I16 => (dlpack::INT, 16),
        DType::I8 => (dlpack::INT, 8),
        DType::U32 => (dlpack::UINT, 32),
        _ => (dlpack::UINT, 8),
    };
    dlpack::Type { code, bits, lanes: 1 }
}

fn dtype_of(given: dlpack::Type) -> Result<DType, String> {
    use DType::{BF16, F8E4M3, F16, F32, F64, I8, I16, I32, I64, U8, U32};
    let known = [F64, F32, F16, BF16, F8E4M3, I64, I32, I16, I8, U32, U8];
    // Truth values are bytes of 0 and 1.
    let bool = dlpack::Type { code: dlpack::BOOL, bits: 8, lanes: 1 };
    let found = known.into_iter().find(|dtype| type_of(*dtype) == given || (*dtype == U8 && given == bool));
    found.ok_or_else(|| {
        let names: Vec<_> = known.iter().map(|dtype| dtype.name()).collect();
        let (code, bits) = (given.code, given.bits);
        format!(
            "has an element type of DLPack's code {code} with {bits} bits; expected one of {}",
            names.join(", ")
        )
    })
}

/// A backend that can use memory of others.
pub(crate) trait Lends: rocm_ops::Backend {
    /// The memory, for as long as a call takes.
    type Held: Send;
    /// Prepares memory for a call.
    ///
    /// # Safety
    /// The memory lives, in this backend's space, until the value is dropped. While a view of it is used, nobody else writes it, and
    /// nobody else reads it if the view is for writing.
    unsafe fn hold(&self, memory: &Memory) -> Self::Held;
    /// A view for reading.
    fn view<'h>(held: &'h Self::Held, memory: &Memory) -> Result<AnyRef<'h, Self::Space>>;
    /// A view for writing.
    fn view_mut<'h>(held: &'h mut Self::Held, memory: &Memory) -> Result<AnyMut<'h, Self::Space>>;
}

/// Bytes of the host.
pub(crate) struct Bytes {
    address: usize,
    len: usize,
}

impl Lends for EitherHost {
    type Held = Bytes;
    unsafe fn hold(&self, memory: &Memory) -> Bytes {
        Bytes { address: memory.address, len: memory.bytes }
    }
    fn view<'h>(held: &'h Bytes, memory: &Memory) -> Result<AnyRef<'h, Host>> {
        let at = std::ptr::with_exposed_provenance(held.address);
        // SAFETY: `hold` was called with memory that lives as long as `held`, and that nobody writes meanwhile.
        let bytes = unsafe { std::slice::from_raw_parts(at, held.len) };
        match memory.packing {
            Some(packing) => AnyRef::packed(bytes, memory.dtype, memory.layout.shape(), packing),
            None => AnyRef::new(bytes, memory.dtype, memory.layout),
        }
    }
    fn view_mut<'h>(held: &'h mut Bytes, memory: &Memory) -> Result<AnyMut<'h, Host>> {
        let at = std::ptr::with_exposed_provenance_mut(held.address);
        // SAFETY: `hold` was called with memory that lives as long as `held`, and that nobody else uses meanwhile.
        AnyMut::new(unsafe { std::slice::from_raw_parts_mut(at, held.len) }, memory.dtype, memory.layout)
    }
}

/// Alignment of allocations of HIP. Kernels choose wide loads by offsets from such an address.
const ALIGNED: usize = 256;

/// Memory from an aligned address on, and the offset of the tensor's in elements.
fn aligned(memory: &Memory) -> (usize, usize) {
    let gap = memory.address % ALIGNED;
    if gap.is_multiple_of(memory.dtype.size()) { (gap, gap / memory.dtype.size()) } else { (0, 0) }
}

fn moved(memory: &Memory) -> Result<Layout> {
    let (layout, by) = (&memory.layout, aligned(memory).1);
    Layout::strided(layout.dims(), layout.strides(), layout.offset() + by)
}

impl Lends for Rocm {
    type Held = HipBuffer<u8>;
    unsafe fn hold(&self, memory: &Memory) -> HipBuffer<u8> {
        let (gap, _) = aligned(memory);
        let address = std::ptr::with_exposed_provenance_mut(memory.address - gap);
        // SAFETY: the memory is that of the device, as the caller states. What lies before it up to an aligned address belongs to
        // the same allocation, and the layout does not reach it.
        HipBuffer::new(unsafe { DeviceMemory::borrow_raw(self.stream(), address, memory.bytes + gap) })
    }
    fn view<'h>(held: &'h HipBuffer<u8>, memory: &Memory) -> Result<AnyRef<'h, HipSpace>> {
        AnyRef::new(HipSpace::borrow(held), memory.dtype, moved(memory)?)
    }
    fn view_mut<'h>(held: &'h mut HipBuffer<u8>, memory: &Memory) -> Result<AnyMut<'h, HipSpace>> {
        AnyMut::new(HipSpace::borrow_mut(held), memory.dtype, moved(memory)?)
    }
}

/// The error for an operand that cannot be used.
pub(crate) fn refused(op: &str, operand: &str, why: &str) -> PyErr {
    PyValueError::new_err(format!("{op}: {operand} {why}"))
}

/// The device's number, for DLPack.
pub(crate) fn device_of(place: Place) -> dlpack::Device {
    match place {
        Place::Host => dlpack::Device { kind: dlpack::CPU, id: 0 },
        Place::Rocm(id) => dlpack::Device { kind: dlpack::ROCM, id: id as i32 },
    }
}

/// Waits for our own work on memory before somebody else uses it.
pub(crate) fn settle(place: Place) -> PyResult<()> {
    match place {
        Place::Host => Ok(()),
        Place::Rocm(id) => device::synchronize(id),
    }
}
