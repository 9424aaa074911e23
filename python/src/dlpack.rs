//! The structs of DLPack 1.x, as `dlpack.h` declares them, and the owners of what they describe.
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

/// The version that this module writes. It reads every 1.x.
pub(crate) const VERSION: Version = Version { major: 1, minor: 0 };

pub(crate) const CPU: i32 = 1;
pub(crate) const CUDA_HOST: i32 = 3;
pub(crate) const ROCM: i32 = 10;
pub(crate) const ROCM_HOST: i32 = 11;

pub(crate) const INT: u8 = 0;
pub(crate) const UINT: u8 = 1;
pub(crate) const FLOAT: u8 = 2;
pub(crate) const BFLOAT: u8 = 4;
pub(crate) const BOOL: u8 = 6;
pub(crate) const FLOAT8_E4M3FN: u8 = 10;

/// A bit of `flags`: the memory must not be written.
pub(crate) const READ_ONLY: u64 = 1;

/// Names of the capsules of `__dlpack__`.
pub(crate) const LEGACY: &CStr = c"dltensor";
pub(crate) const USED_LEGACY: &CStr = c"used_dltensor";
pub(crate) const VERSIONED: &CStr = c"dltensor_versioned";
pub(crate) const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
/// Name of the capsule of `__dlpack_c_exchange_api__`.
pub(crate) const EXCHANGE: &CStr = c"dlpack_exchange_api";

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) kind: i32,
    pub(crate) id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) code: u8,
    pub(crate) bits: u8,
    pub(crate) lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tensor {
    pub(crate) data: *mut c_void,
    pub(crate) device: Device,
    pub(crate) rank: i32,
    pub(crate) dtype: Type,
    pub(crate) shape: *mut i64,
    pub(crate) strides: *mut i64,
    pub(crate) offset: u64,
}

impl Tensor {
    /// No tensor, to be filled in.
    pub(crate) const NONE: Tensor = Tensor {
        data: null_mut(),
        device: Device { kind: 0, id: 0 },
        rank: 0,
        dtype: Type { code: 0, bits: 0, lanes: 0 },
        shape: null_mut(),
        strides: null_mut(),
        offset: 0,
    };
}

#[repr(C)]
pub(crate) struct Managed {
    pub(crate) tensor: Tensor,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

#[repr(C)]
pub(crate) struct ManagedVersioned {
    pub(crate) version: Version,
    pub(crate) context: *mut c_void,
    pub(crate) deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    pub(crate) flags: u64,
    pub(crate) tensor: Tensor,
}

/// Reports an error of an allocation: its kind and its message.
pub(crate) type SetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// Describes an object's memory without keeping it.
pub(crate) type ViewOf = unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int;

/// The functions of a library that exchanges tensors without capsules.
#[repr(C)]
pub(crate) struct Exchange {
    pub(crate) version: Version,
    pub(crate) previous: *mut Exchange,
    pub(crate) allocate:
        Option<unsafe extern "C" fn(*mut Tensor, *mut *mut ManagedVersioned, *mut c_void, SetError) -> c_int>,
    pub(crate) from_object: Option<unsafe extern "C" fn(*mut c_void, *mut *mut ManagedVersioned) -> c_int>,
    pub(crate) to_object: Option<unsafe extern "C" fn(*mut ManagedVersioned, *mut *mut c_void) -> c_int>,
    pub(crate) view: Option<ViewOf>,
    pub(crate) stream: Option<unsafe extern "C" fn(i32, i32, *mut *mut c_void) -> c_int>,
}

// SAFETY: a library's table does not change, and its functions may be called by every thread that has the interpreter.
unsafe impl Sync for Exchange {}

/// A managed tensor of either kind, which is deleted when the value is dropped.
#[derive(Debug)]
pub(crate) enum Owned {
    Legacy(*mut Managed),
    Versioned(*mut ManagedVersioned),
}

impl Owned {
    /// The tensor, and whether it must not be written; `None` if its version is unknown, so that nothing of it may be read.
    pub(crate) fn tensor(&self) -> Option<(Tensor, bool)> {
        match *self {
            // SAFETY: the value owns the managed tensor, which its producer keeps valid until the deleter is called.
            Owned::Legacy(managed) => Some(unsafe { ((*managed).tensor, false) }),
            Owned::Versioned(managed) => {
                // SAFETY: as above; the version comes first in every version.
                let version = unsafe { (*managed).version };
                // SAFETY: as above, and the struct is that of major version 1.
                (version.major == VERSION.major)
                    .then(|| unsafe { ((*managed).tensor, (*managed).flags & READ_ONLY != 0) })
            }
        }
    }

    /// Passes the ownership on.
    pub(crate) fn into_versioned(self) -> Option<*mut ManagedVersioned> {
        match self {
            Owned::Versioned(managed) => {
                std::mem::forget(self);
                Some(managed)
            }
            Owned::Legacy(_) => None,
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        match *self {
            // SAFETY: the value owns the managed tensor, and this is the only call of its deleter.
            Owned::Legacy(managed) => unsafe {
                if let Some(delete) = (*managed).deleter {
                    delete(managed);
                }
            },
            // SAFETY: as above. The deleter's place is the same in every version.
            Owned::Versioned(managed) => unsafe {
                if let Some(delete) = (*managed).deleter {
                    delete(managed);
                }
            },
        }
    }
}

/// What an exported tensor points into: its extents and strides, and its owner.
struct Export<O> {
    dims: Vec<i64>,
    strides: Vec<i64>,
    _owner: O,
}

impl<O> Export<O> {
    /// The export on the heap, where its lists stay, and the tensor that points into it.
    fn leak(mut tensor: Tensor, dims: Vec<i64>, strides: Vec<i64>, owner: O) -> (*mut c_void, Tensor) {
        let export = Box::leak(Box::new(Export { dims, strides, _owner: owner }));
        tensor.rank = export.dims.len() as i32;
        tensor.shape = export.dims.as_mut_ptr();
        tensor.strides = export.strides.as_mut_ptr();
        (std::ptr::from_mut(export).cast(), tensor)
    }
}

/// A tensor for a consumer of DLPack 1.x. `tensor` describes memory that `owner` keeps; its rank, extents and strides are set here.
pub(crate) fn export<O: Send + 'static>(
    tensor: Tensor,
    dims: Vec<i64>,
    strides: Vec<i64>,
    flags: u64,
    owner: O,
) -> *mut ManagedVersioned {
    unsafe extern "C" fn delete<O>(managed: *mut ManagedVersioned) {
        // SAFETY: both were leaked below for this managed tensor, and a consumer calls the deleter once.
        unsafe {
            drop(Box::from_raw((*managed).context.cast::<Export<O>>()));
            drop(Box::from_raw(managed));
        }
    }
    let (context, tensor) = Export::leak(tensor, dims, strides, owner);
    Box::into_raw(Box::new(ManagedVersioned {
        version: VERSION,
        context,
        deleter: Some(delete::<O>),
        flags,
        tensor,
    }))
}

/// The same for a consumer that knows only older versions.
pub(crate) fn export_legacy<O: Send + 'static>(
    tensor: Tensor,
    dims: Vec<i64>,
    strides: Vec<i64>,
    owner: O,
) -> *mut Managed {
    unsafe extern "C" fn delete<O>(managed: *mut Managed) {
        // SAFETY: both were leaked below for this managed tensor, and a consumer calls the deleter once.
        unsafe {
            drop(Box::from_raw((*managed).context.cast::<Export<O>>()));
            drop(Box::from_raw(managed));
        }
    }
    let (context, tensor) = Export::leak(tensor, dims, strides, owner);
    Box::into_raw(Box::new(Managed { tensor, context, deleter: Some(delete::<O>) }))
}
